//! The driver over `io_uring(7)`.
//!
//! Connections are taken without being asked for each time; receives and answers gather during a turn and
//! leave with the next wait, so that a turn is one system call however many clients it serves.

mod calls;
mod gate;
mod outbox;
mod slot;

use std::io;
use std::time::Duration;

use super::listener::is_shortage;
use super::round::Round;
use super::slots::Slots;
use super::tick::Tick;
use super::{Arrival, Due, Handler, Key, Listener, Settings, Turn, Waker};
use crate::clock;
use crate::uring::{Parcel, Report, Ring, Wait};
use gate::{Gate, Guest};
use outbox::Outbox;
use rustix::fd::{AsFd, OwnedFd};
use slot::Slot;

/// Numbers that are no connection's, because connections are fewer than 2^31.
const WAKER: u64 = (1 << 61) - 1;
const TICK: u64 = WAKER - 1;

/// How long the kernel may think about a cancelled accept before it is asked again.
const SHUT_MAX: Duration = Duration::from_millis(100);

/// Everything that one thread drives.
pub struct Driver<H: Handler> {
    ring: Ring,
    gate: Gate,
    waker: Waker,
    tick: Tick,
    slots: Slots<Slot<H::Connection>>,
    outbox: Outbox,
    /// Connections to be called without a report from the kernel.
    queue: Vec<Key>,
    /// The room of the queue before, to be used for the next one.
    last_queue: Vec<Key>,
    /// The way round everybody that the tick asks for.
    round: Round,
    reports: Vec<Report>,
    settings: Settings,
    now_ns: u64,
}

impl<H: Handler> std::fmt::Debug for Driver<H> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let connections = self.slots.count();
        formatter.debug_struct("Driver").field("connections", &connections).finish_non_exhaustive()
    }
}

impl<H: Handler> Driver<H> {
    /// As [`super::Driver::new`].
    pub(super) fn new(
        listeners: Vec<Listener>,
        waker: Waker,
        settings: Settings,
    ) -> io::Result<Self> {
        let mut ring = Ring::new()?;
        let tick = Tick::new()?;
        ring.watch(&waker, WAKER);
        ring.watch(&tick, TICK);
        Ok(Self {
            ring,
            gate: Gate::new(listeners),
            waker,
            tick,
            slots: Slots::new(),
            outbox: Outbox::default(),
            queue: Vec::new(),
            last_queue: Vec::new(),
            round: Round::default(),
            reports: Vec::new(),
            settings,
            now_ns: clock::monotonic_ns(),
        })
    }

    pub(super) fn connections(&self) -> usize {
        self.slots.count()
    }

    pub(super) fn turn(&mut self, handler: &mut H) -> io::Result<Turn> {
        self.tick.go(self.slots.count() > 0)?;
        self.send_files(handler);
        let wait = self.wait(handler);
        self.enter(wait)?;
        self.now_ns = clock::monotonic_ns();
        handler.wake(self.now_ns);
        let mut reports = std::mem::take(&mut self.reports);
        self.ring.collect(&mut reports);
        self.conclude(handler, &mut reports);
        let next_queue = std::mem::take(&mut self.last_queue);
        let mut queue = std::mem::replace(&mut self.queue, next_queue);
        let mut turn = Turn::Ordinary;
        let mut has_ticked = false;
        for report in reports.drain(..) {
            match report {
                Report::Received { number, what, goes_on } => {
                    self.received(handler, Key::from_token(number), what, goes_on);
                }
                Report::Accepted { listener, outcome, goes_on } => {
                    self.accepted(handler, listener, outcome, goes_on);
                }
                Report::Ready { number: WAKER, goes_on } => {
                    self.waker.take();
                    turn = Turn::Woken;
                    if !goes_on {
                        self.ring.watch(&self.waker, WAKER);
                    }
                }
                Report::Ready { number: TICK, goes_on } => {
                    has_ticked = self.tick.take();
                    if !goes_on {
                        self.ring.watch(&self.tick, TICK);
                    }
                }
                Report::Ready { number, .. } => self.flush(handler, Key::from_token(number)),
                // Dealt with when the letters were.
                Report::Short { .. } => {}
            }
        }
        self.reports = reports;
        for key in queue.drain(..) {
            self.call_queued(handler, key);
        }
        self.last_queue = queue;
        if has_ticked {
            self.round.begin(self.slots.len());
        }
        while let Some(due) = handler.due() {
            match due {
                Due::One(key) => self.proceed(handler, key),
                Due::All => self.round.begin(self.slots.len()),
            }
        }
        self.go_round(handler);
        self.open_gate_again(handler);
        Ok(turn)
    }

    pub(super) fn stop_listening(&mut self, handler: &mut H) -> io::Result<()> {
        self.gate.begin_to_close(&mut self.ring);
        while !self.gate.is_shut() {
            self.ring.enter_idle(Wait::For(SHUT_MAX))?;
            let mut reports = Vec::new();
            self.ring.collect(&mut reports);
            for report in reports {
                match report {
                    Report::Accepted { listener, outcome, goes_on } => {
                        self.accepted(handler, listener, outcome, goes_on);
                    }
                    // All others have their turn.
                    other => self.reports.push(other),
                }
            }
        }
        while let Some(guest) = self.gate.take() {
            self.admit(handler, guest);
        }
        self.gate.close();
        Ok(())
    }

    pub(super) fn close_all(&mut self, handler: &mut H) {
        self.slots.drain().for_each(|slot| handler.close(slot.connection));
    }

    /// Calls [`Handler::proceed`] for the next few, if everybody is to be called.
    fn go_round(&mut self, handler: &mut H) {
        for number in self.round.step(self.slots.len()) {
            if let Some(key) = self.slots.key_at(number) {
                self.proceed(handler, key);
            }
        }
    }

    /// How long the next wait may last.
    fn wait(&self, handler: &H) -> Wait {
        let has_queue = !self.queue.is_empty() || self.round.is_under_way();
        if has_queue || !self.reports.is_empty() || self.outbox.is_urgent {
            return Wait::Not;
        }
        let deadlines = [handler.deadline_ns(), self.gate.opens_again_ns()];
        let Some(deadline_ns) = deadlines.into_iter().flatten().min() else { return Wait::Long };
        match deadline_ns.saturating_sub(clock::monotonic_ns()) {
            0 => Wait::Not,
            left_ns => Wait::For(Duration::from_nanos(left_ns)),
        }
    }

    /// Hands the letters to the kernel, and waits.
    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let Self { ring, outbox, slots, .. } = self;
        let parcels = outbox.letters.iter().zip(0..).filter_map(|(letter, index)| {
            if letter.output.is_empty() {
                return None;
            }
            let socket = slots.peek(letter.key)?.socket.as_fd();
            Some(Parcel { socket, bytes: letter.output.offer(), index })
        });
        ring.enter(parcels, wait)
    }

    /// Deals with what has come of the letters.
    fn conclude(&mut self, handler: &mut H, reports: &mut [Report]) {
        self.outbox.is_urgent = false;
        if self.outbox.letters.is_empty() {
            return;
        }
        let mut letters = std::mem::take(&mut self.outbox.letters);
        for report in reports {
            if let Report::Short { index, outcome } = report {
                let place = usize::try_from(*index).ok();
                if let Some(letter) = place.and_then(|place| letters.get_mut(place)) {
                    letter.short = Some(std::mem::replace(outcome, Ok(0)));
                }
            }
        }
        for letter in letters.drain(..) {
            self.sent(handler, letter);
        }
        self.outbox.letters = letters;
    }

    fn accepted(
        &mut self,
        handler: &mut H,
        listener: u64,
        outcome: io::Result<OwnedFd>,
        goes_on: bool,
    ) {
        let listener = usize::try_from(listener).unwrap_or(usize::MAX);
        if !goes_on {
            self.gate.note_shut(listener);
        }
        match outcome {
            Ok(socket) => self.admit(handler, (listener, socket)),
            Err(error) if is_shortage(&error) => self.gate.pause(&mut self.ring, self.now_ns),
            // Other errors belong to one connection that came and went (`accept(2)`).
            Err(_) => {}
        }
        if !goes_on {
            self.gate.open(&mut self.ring);
        }
    }

    fn admit(&mut self, handler: &mut H, guest: Guest) {
        if self.slots.count() < self.settings.connections_max && !self.gate.has_parked() {
            return self.welcome(handler, guest);
        }
        self.gate.park(guest);
        self.gate.pause(&mut self.ring, self.now_ns);
    }

    fn welcome(&mut self, handler: &mut H, (listener, socket): Guest) {
        let key = self.slots.next_key();
        let connection = handler.open(&Arrival { key, listener, socket: socket.as_fd() });
        self.slots.insert(Slot::new(socket, connection));
        self.receive(key);
    }

    fn open_gate_again(&mut self, handler: &mut H) {
        match self.gate.opens_again_ns() {
            Some(opens_ns) if opens_ns <= self.now_ns => self.gate.resume(),
            _ => return,
        }
        while self.slots.count() < self.settings.connections_max {
            let Some(guest) = self.gate.unpark() else { break };
            self.welcome(handler, guest);
        }
        if self.gate.has_parked() {
            self.gate.pause(&mut self.ring, self.now_ns);
        } else {
            self.gate.open(&mut self.ring);
        }
    }
}
