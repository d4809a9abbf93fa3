//! The driver over `epoll(7)`.
//!
//! Connections are watched edge-triggered: a receive that did not fill the buffer has drained the socket,
//! and a connection that wants no bytes costs no system call. A new connection is received from before it
//! is watched, so that one request on it may never need the watch.

mod calls;
mod crowd;
mod gate;
mod slot;

use std::io;
use std::time::Duration;

use super::round::Round;
use super::slots::Slots;
use super::tick::Tick;
use super::{Arrival, Due, Handler, Key, Listener, Next, Output, Settings, Turn, Waker};
use crate::clock;
use crate::epoll::{Epoll, Event, Interest, no_event};
use calls::interest;
use crowd::CROWD_MAX;
use gate::{Gate, Taken};
use rustix::fd::{AsFd, OwnedFd};
use slot::{Inbound, Slot};

/// What one wake-up can report. Few enough that nobody waits long, enough that waiting is shared.
const EVENTS: usize = 512;

/// What one receive can bring; also the most that one client can make us do at a stretch. What a handler
/// cannot use yet it has to keep, so this is part of what a client that does not read makes us hold.
const RECEIVE_SIZE: usize = 32 * 1024;

/// Room for the answers of one call before the buffer has to grow.
const OUTPUT_SIZE: usize = 64 * 1024;

const WAKER: u64 = u64::MAX;
const TICK: u64 = u64::MAX - 1;

/// Everything that one thread drives.
pub struct Driver<H: Handler> {
    epoll: Epoll,
    gate: Gate,
    waker: Waker,
    tick: Tick,
    slots: Slots<Slot<H::Connection>>,
    /// Connections to be called without a report from the kernel.
    queue: Vec<Key>,
    /// The room of the queue before, to be used for the next one.
    last_queue: Vec<Key>,
    /// The way round everybody that the tick asks for.
    round: Round,
    settings: Settings,
    buffers: Buffers,
    now_ns: u64,
}

struct Buffers {
    events: Box<[Event]>,
    received: Box<[u8]>,
    output: Output,
}

impl<H: Handler> std::fmt::Debug for Driver<H> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let connections = self.slots.count();
        formatter.debug_struct("Driver").field("connections", &connections).finish_non_exhaustive()
    }
}

impl<H: Handler> Driver<H> {
    /// Drives the connections that come through `listeners`, from the next [`Driver::turn`] on; `waker`
    /// ends its waiting. A driver stays on the thread that made it.
    ///
    /// # Errors
    /// The error of making the epoll instance and what it needs; `EMFILE` for example.
    pub fn new(listeners: Vec<Listener>, waker: Waker, settings: Settings) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(&waker, WAKER, Interest::IN)?;
        let tick = Tick::new()?;
        epoll.add(&tick, TICK, Interest::IN)?;
        Ok(Self {
            gate: Gate::new(listeners, &epoll)?,
            epoll,
            waker,
            tick,
            slots: Slots::new(),
            queue: Vec::new(),
            last_queue: Vec::new(),
            round: Round::default(),
            settings,
            buffers: Buffers {
                events: vec![no_event(); EVENTS].into(),
                received: vec![0; RECEIVE_SIZE].into(),
                output: Output::with_capacity(OUTPUT_SIZE),
            },
            now_ns: clock::monotonic_ns(),
        })
    }

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.slots.count()
    }

    /// Waits for something to happen and deals with all that has.
    ///
    /// # Errors
    /// The error of `epoll_wait(2)`. What goes wrong with one connection ends that connection only.
    pub fn turn(&mut self, handler: &mut H) -> io::Result<Turn> {
        self.tick.go(self.slots.count() > 0)?;
        let timeout = self.timeout(handler);
        let count = self.epoll.wait(&mut self.buffers.events, timeout)?;
        self.now_ns = clock::monotonic_ns();
        handler.wake(self.now_ns);
        let mut turn = Turn::Ordinary;
        let mut has_ticked = false;
        // Who was called by the queue before now waited longest.
        let next_queue = std::mem::take(&mut self.last_queue);
        let mut queue = std::mem::replace(&mut self.queue, next_queue);
        for index in 0..count {
            let event = self.buffers.events[index];
            match event.data.u64() {
                WAKER => {
                    self.waker.take();
                    turn = Turn::Woken;
                }
                TICK => has_ticked = self.tick.take(),
                token => match Gate::index_of(token) {
                    Some(listener) => self.admit_expected(handler, listener)?,
                    None => self.report(handler, Key::from_token(token), event.flags),
                },
            }
        }
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
        self.open_gate_again()?;
        Ok(turn)
    }

    /// Takes what the kernel has accepted for us, and closes the listeners: the first half of stopping.
    ///
    /// A listener that somebody else has open too stays one: a connection that comes meanwhile is theirs.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn stop_listening(&mut self, handler: &mut H) -> io::Result<()> {
        // In this order, no connection is left for which only this driver was woken.
        self.gate.unwatch(&self.epoll)?;
        for listener in 0..self.gate.count() {
            while self.admit(handler, listener, CROWD_MAX)? > 0 && !self.gate.is_paused() {}
        }
        self.gate.close();
        Ok(())
    }

    /// As [`super::Driver::close_all`].
    pub fn close_all(&mut self, handler: &mut H) {
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
    fn timeout(&self, handler: &H) -> Option<Duration> {
        if !self.queue.is_empty() || self.round.is_under_way() {
            return Some(Duration::ZERO);
        }
        let deadlines = [handler.deadline_ns(), self.gate.opens_again_ns()];
        let deadline = deadlines.into_iter().flatten().min()?;
        Some(Duration::from_nanos(deadline.saturating_sub(clock::monotonic_ns())))
    }

    fn open_gate_again(&mut self) -> io::Result<()> {
        match self.gate.opens_again_ns() {
            Some(opens_ns) if opens_ns <= self.now_ns => self.gate.open(&self.epoll),
            _ => Ok(()),
        }
    }

    /// Takes the connections that are likely to wait at a listener.
    fn admit_expected(&mut self, handler: &mut H, listener: usize) -> io::Result<()> {
        let expected = self.gate.expected(listener);
        let came = self.admit(handler, listener, expected)?;
        self.gate.came(listener, came);
        Ok(())
    }

    /// Takes up to `max` connections from one listener, and says how many came.
    fn admit(&mut self, handler: &mut H, listener: usize, max: usize) -> io::Result<usize> {
        for came in 0..max {
            let has_room = self.slots.count() < self.settings.connections_max;
            match if has_room { self.gate.take(listener) } else { Taken::NoRoom } {
                Taken::Connection(socket) => self.welcome(handler, listener, socket),
                Taken::Nobody => return Ok(came),
                Taken::NoRoom => {
                    self.gate.pause(&self.epoll, self.now_ns)?;
                    return Ok(came);
                }
            }
        }
        Ok(max)
    }

    fn welcome(&mut self, handler: &mut H, listener: usize, socket: OwnedFd) {
        let key = self.slots.next_key();
        let connection = handler.open(&Arrival { key, listener, socket: socket.as_fd() });
        self.slots.insert(Slot {
            socket,
            connection,
            unsent: None,
            next: Next::Receive,
            inbound: Inbound::Ready,
            has_finished: false,
            is_queued: false,
            is_watched: false,
        });
        self.receive(handler, key, false);
        let Some(slot) = self.slots.get(key) else { return };
        slot.is_watched = true;
        let interest = interest(slot.unsent.is_some());
        if self.epoll.add(&slot.socket, key.token(), interest).is_err() {
            self.close(handler, key);
        }
    }
}
