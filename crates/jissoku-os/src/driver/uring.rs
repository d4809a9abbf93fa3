//! The driver over `io_uring(7)`.
//!
//! Accepts and receives are multishot; requests are queued during an iteration and submitted with
//! the next wait, so that an iteration is one system call regardless of the number of clients.

mod acceptor;
mod connection;
mod flush;
mod opened;
mod send_queue;
mod slot;

use std::io;
use std::time::Duration;

use super::listener::Origin;
use super::sweep::{Sweep, SweepTimer};
use super::{
    ConnectionId, EventHandler, Listener, NewConnection, Peer, PollOutcome, Settings, Slab, Waker,
    Wakeup,
};
use crate::clock;
use crate::socket::is_resource_exhausted;
use crate::timers::earliest;
use crate::uring::{Completion, Ring, SendRequest, Wait};
use acceptor::{AcceptedSocket, Acceptor};
use rustix::fd::{AsFd, OwnedFd};
use send_queue::SendQueue;
use slot::Slot;

/// Numbers that no connection has, because there are fewer than 2^31.
const WAKER: u64 = (1 << 61) - 1;
const TIMER: u64 = WAKER - 1;
const WATCHED: u64 = WAKER - 2;

/// Timeout of the wait for a cancelled accept, which is then repeated.
const CANCEL_WAIT_MAX: Duration = Duration::from_millis(100);

/// Everything that one thread drives.
pub struct Driver<H: EventHandler> {
    ring: Ring,
    acceptor: Acceptor,
    waker: Waker,
    timer: SweepTimer,
    slab: Slab<Slot<H::Connection>>,
    /// How many of them the handler has opened.
    opened_count: usize,
    send_queue: SendQueue,
    /// Connections to be processed without a completion.
    queue: Vec<ConnectionId>,
    /// The previous queue, whose capacity is reused.
    last_queue: Vec<ConnectionId>,
    /// The sweep over all connections, once a second.
    sweep: Sweep,
    completions: Vec<Completion>,
    settings: Settings,
    /// The descriptor of [`super::Driver::watch`].
    watched: Option<OwnedFd>,
    /// Whether a poll of it is active.
    is_watching: bool,
    now_ns: u64,
}

impl<H: EventHandler> std::fmt::Debug for Driver<H> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let connections = self.slab.count();
        formatter.debug_struct("Driver").field("connections", &connections).finish_non_exhaustive()
    }
}

impl<H: EventHandler> Driver<H> {
    /// As [`super::Driver::new`].
    pub(super) fn new(
        listeners: Vec<Listener>,
        waker: Waker,
        settings: Settings,
    ) -> io::Result<Self> {
        let mut ring = Ring::new()?;
        let timer = SweepTimer::new()?;
        ring.watch(&waker, WAKER);
        ring.watch(&timer, TIMER);
        Ok(Self {
            ring,
            acceptor: Acceptor::new(listeners),
            waker,
            timer,
            slab: Slab::default(),
            opened_count: 0,
            send_queue: SendQueue::default(),
            queue: Vec::new(),
            last_queue: Vec::new(),
            sweep: Sweep::default(),
            completions: Vec::new(),
            settings,
            watched: None,
            is_watching: false,
            now_ns: clock::monotonic_ns(),
        })
    }

    /// As [`super::Driver::watch`].
    pub(super) fn watch(&mut self, source: impl AsFd) -> io::Result<()> {
        self.watched = Some(source.as_fd().try_clone_to_owned()?);
        Ok(())
    }

    fn poll_watched(&mut self) {
        if let Some(watched) = &self.watched
            && !std::mem::replace(&mut self.is_watching, true)
        {
            // A new poll also reports what is readable already.
            self.ring.poll_readable(watched, WATCHED);
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.slab.count() - self.opened_count
    }

    pub(super) fn run_once(&mut self, handler: &mut H) -> io::Result<PollOutcome> {
        self.timer.set_enabled(self.slab.count() > 0)?;
        self.send_files(handler);
        self.poll_watched();
        match self.wait(handler) {
            Wait::NonBlocking => self.enter(Wait::NonBlocking)?,
            wait => {
                let mut entered = Ok(());
                handler.wait(&mut || entered = self.enter(wait));
                entered?;
            }
        }
        self.now_ns = clock::monotonic_ns();
        handler.on_tick(self.now_ns);
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.collect(&mut completions);
        self.conclude(handler, &mut completions);
        self.put_opened_first(&mut completions);
        let next_queue = std::mem::take(&mut self.last_queue);
        let mut queue = std::mem::replace(&mut self.queue, next_queue);
        let mut outcome = PollOutcome::Ordinary;
        let mut has_ticked = false;
        for completion in completions.drain(..) {
            match completion {
                Completion::Received { number, result, more } => {
                    self.received(handler, ConnectionId::from_token(number), result, more);
                }
                Completion::Accepted { listener, outcome, more } => {
                    self.accepted(handler, listener, outcome, more);
                }
                Completion::Ready { number: WAKER, more } => {
                    self.waker.take();
                    outcome = PollOutcome::Woken;
                    if !more {
                        self.ring.watch(&self.waker, WAKER);
                    }
                }
                Completion::Ready { number: TIMER, more } => {
                    has_ticked = self.timer.take();
                    if !more {
                        self.ring.watch(&self.timer, TIMER);
                    }
                }
                Completion::Ready { number: WATCHED, .. } => {
                    handler.on_watched();
                    self.is_watching = false;
                }
                Completion::Ready { number, .. } => {
                    self.flush(handler, ConnectionId::from_token(number));
                }
                // Processed with the sends.
                Completion::Short { .. } => {}
            }
        }
        self.completions = completions;
        for id in queue.drain(..) {
            self.call_queued(handler, id);
        }
        self.last_queue = queue;
        if has_ticked {
            self.sweep.start(self.slab.slot_count());
        }
        self.resume_ready(handler);
        self.step_sweep(handler);
        self.resume_accepting(handler);
        Ok(outcome)
    }

    /// Resumes and opens what the handler has ready.
    #[inline]
    pub(super) fn resume_ready(&mut self, handler: &mut H) {
        while let Some(due) = handler.next_ready() {
            match due {
                Wakeup::One(id) => self.resume(handler, id),
                Wakeup::All => self.sweep.start(self.slab.slot_count()),
                Wakeup::Open(opening) => self.open(handler, opening),
            }
        }
    }

    pub(super) fn stop_listening(&mut self, handler: &mut H) -> io::Result<()> {
        self.acceptor.start_closing(&mut self.ring);
        while !self.acceptor.is_idle() {
            self.ring.enter_idle(Wait::For(CANCEL_WAIT_MAX))?;
            let mut completions = Vec::new();
            self.ring.collect(&mut completions);
            for completion in completions {
                match completion {
                    Completion::Accepted { listener, outcome, more } => {
                        self.accepted(handler, listener, outcome, more);
                    }
                    // Others are processed in the next iteration.
                    other => self.completions.push(other),
                }
            }
        }
        while let Some(accepted) = self.acceptor.take() {
            self.register_or_defer(handler, accepted);
        }
        self.acceptor.close();
        Ok(())
    }

    pub(super) fn close_all(&mut self, handler: &mut H) {
        self.slab.drain().for_each(|slot| handler.on_close(slot.connection));
    }

    /// Calls [`EventHandler::resume`] for the next batch of an active sweep.
    fn step_sweep(&mut self, handler: &mut H) {
        for number in self.sweep.step(self.slab.slot_count()) {
            if let Some(id) = self.slab.key_at(number) {
                self.resume(handler, id);
            }
        }
    }

    /// The timeout of the next wait.
    fn wait(&self, handler: &mut H) -> Wait {
        let has_queue = !self.queue.is_empty() || self.sweep.is_active();
        if has_queue || !self.completions.is_empty() || self.send_queue.is_urgent {
            return Wait::NonBlocking;
        }
        let deadlines = [handler.deadline_ns(), self.acceptor.resume_ns()];
        let Some(deadline_ns) = earliest(deadlines) else { return Wait::Forever };
        match deadline_ns.saturating_sub(clock::monotonic_ns()) {
            0 => Wait::NonBlocking,
            left_ns => Wait::For(Duration::from_nanos(left_ns)),
        }
    }

    /// Submits the queued sends and waits.
    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let Self { ring, send_queue, slab, .. } = self;
        let requests = send_queue.sends.iter().zip(0..).filter_map(|(send, index)| {
            if send.output.is_empty() {
                return None;
            }
            let socket = slab.get_ref(send.id)?.socket.as_fd();
            Some(SendRequest { socket, bytes: send.output.sendable(), index })
        });
        ring.enter(requests, wait)
    }

    /// Processes the results of the sends.
    fn conclude(&mut self, handler: &mut H, completions: &mut [Completion]) {
        self.send_queue.is_urgent = false;
        if self.send_queue.sends.is_empty() {
            return;
        }
        let mut sends = std::mem::take(&mut self.send_queue.sends);
        for completion in completions {
            if let Completion::Short { index, outcome } = completion {
                let place = usize::try_from(*index).ok();
                if let Some(send) = place.and_then(|place| sends.get_mut(place)) {
                    send.short = Some(std::mem::replace(outcome, Ok(0)));
                }
            }
        }
        for send in sends.drain(..) {
            self.sent(handler, send);
        }
        self.send_queue.sends = sends;
    }

    fn accepted(
        &mut self,
        handler: &mut H,
        listener: u64,
        outcome: io::Result<OwnedFd>,
        more: bool,
    ) {
        let listener = usize::try_from(listener).unwrap_or(usize::MAX);
        if !more {
            self.acceptor.on_accept_ended(listener);
        }
        match outcome {
            Ok(socket) => self.register_or_defer(handler, (listener, socket)),
            Err(error) if is_resource_exhausted(&error) => {
                self.acceptor.pause(&mut self.ring, self.now_ns);
            }
            // Other errors concern a single connection (`accept(2)`).
            Err(_) => {}
        }
        if !more {
            self.acceptor.open(&mut self.ring);
        }
    }

    fn register_or_defer(&mut self, handler: &mut H, accepted: AcceptedSocket) {
        if self.connections() < self.settings.connections_max && !self.acceptor.has_deferred() {
            return self.register(handler, accepted);
        }
        self.acceptor.defer(accepted);
        self.acceptor.pause(&mut self.ring, self.now_ns);
    }

    fn register(&mut self, handler: &mut H, (listener, socket): AcceptedSocket) {
        let id = self.slab.next_key();
        // A multishot accept returns no addresses.
        let peer = Peer::Unknown;
        let socket_fd = socket.as_fd();
        let arrival = NewConnection { id, listener, socket: socket_fd, peer, is_moved: false };
        let connection = handler.on_open(&arrival);
        self.slab.insert(Slot::new(socket, connection, Origin::Accepted));
        self.receive(id);
    }

    fn resume_accepting(&mut self, handler: &mut H) {
        match self.acceptor.resume_ns() {
            Some(due_ns) if due_ns <= self.now_ns => self.acceptor.resume(),
            _ => return,
        }
        while self.connections() < self.settings.connections_max {
            let Some(accepted) = self.acceptor.next_deferred() else { break };
            self.register(handler, accepted);
        }
        if self.acceptor.has_deferred() {
            self.acceptor.pause(&mut self.ring, self.now_ns);
        } else {
            self.acceptor.open(&mut self.ring);
        }
    }
}
