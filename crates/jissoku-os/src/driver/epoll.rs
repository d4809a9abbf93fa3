//! The driver over `epoll(7)`.
//!
//! Connections are registered edge-triggered: a short receive has drained the socket, and a
//! suspended connection costs no system call. A new connection is read before it is registered, so
//! that a connection with one request may never need to be.

mod accept_budget;
mod acceptor;
mod connection;
mod flush;
mod opened;
mod slot;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::deadline_timer::{DeadlineTimer, NextWait};
use super::listener::Origin;
use super::sweep::{Sweep, SweepTimer};
use super::{
    ConnectionId, EventHandler, Listener, NewConnection, Peer, PollOutcome, SendBuffer, Settings,
    Slab, Waker, Wakeup,
};
use crate::clock;
use crate::epoll::{Epoll, Event, Interest, no_event};
use crate::timers::earliest;
use acceptor::{AcceptResult, Acceptor};
use rustix::fd::{AsFd, OwnedFd};
use slot::{Slot, interest};

/// Maximum number of events per wake-up.
const EVENTS: usize = 512;

/// Size of a receive from an accepted connection, and so of the work per receive. A handler has to
/// buffer input that it cannot process yet, so this is part of the memory that a client that does
/// not read can occupy.
const RECEIVE_SIZE: usize = 32 * 1024;

/// The same of an opened connection: a body of 64 KiB with its head.
const RECEIVE_OPENED_SIZE: usize = 72 * 1024;

/// Initial capacity of the send buffer.
const OUTPUT_SIZE: usize = 64 * 1024;

const WAKER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const WATCHED: u64 = u64::MAX - 2;
const DEADLINE: u64 = u64::MAX - 3;

/// Everything that one thread drives.
pub struct Driver<H: EventHandler> {
    epoll: Epoll,
    acceptor: Acceptor,
    waker: Waker,
    timer: SweepTimer,
    deadline_timer: DeadlineTimer,
    slab: Slab<Slot<H::Connection>>,
    /// How many of them the handler has opened.
    opened_count: usize,
    /// Connections to be processed without an event.
    queue: Vec<ConnectionId>,
    /// The previous queue, whose capacity is reused.
    last_queue: Vec<ConnectionId>,
    /// The sweep over all connections, once a second.
    sweep: Sweep,
    /// Where connections are moved to, by the index of their listener.
    move_queues: Vec<Option<Arc<OwnedFd>>>,
    settings: Settings,
    buffers: Buffers,
    now_ns: u64,
}

/// A connection that is not registered yet.
#[derive(Debug)]
struct AcceptedSocket {
    socket: OwnedFd,
    peer: Peer,
    /// Whether another driver has sent it.
    is_moved: bool,
}

impl AcceptedSocket {
    const fn new(socket: OwnedFd, peer: Option<SocketAddr>) -> Self {
        Self { socket, peer: Peer::Known(peer), is_moved: false }
    }

    const fn moved(socket: OwnedFd) -> Self {
        Self { socket, peer: Peer::Unknown, is_moved: true }
    }
}

struct Buffers {
    events: Box<[Event]>,
    received: Box<[u8]>,
    output: SendBuffer,
}

impl<H: EventHandler> std::fmt::Debug for Driver<H> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let connections = self.slab.count();
        formatter.debug_struct("Driver").field("connections", &connections).finish_non_exhaustive()
    }
}

impl<H: EventHandler> Driver<H> {
    /// Drives the connections that come through `listeners`, from the next [`Driver::run_once`] on;
    /// `waker` ends its waiting. A driver stays on the thread that made it.
    ///
    /// # Errors
    /// The error of creating the epoll instance or the timer; `EMFILE` for example.
    pub fn new(listeners: Vec<Listener>, waker: Waker, settings: Settings) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(&waker, WAKER, Interest::IN)?;
        let timer = SweepTimer::new()?;
        epoll.add(&timer, TIMER, Interest::IN)?;
        let deadline_timer = DeadlineTimer::new()?;
        // It is never read: setting it again ends its readiness.
        epoll.add(&deadline_timer, DEADLINE, Interest::IN | Interest::ET)?;
        Ok(Self {
            acceptor: Acceptor::new(listeners, &epoll)?,
            epoll,
            waker,
            timer,
            deadline_timer,
            slab: Slab::default(),
            opened_count: 0,
            queue: Vec::new(),
            last_queue: Vec::new(),
            sweep: Sweep::default(),
            move_queues: Vec::new(),
            settings,
            buffers: Buffers {
                events: vec![no_event(); EVENTS].into(),
                received: vec![0; RECEIVE_OPENED_SIZE.max(RECEIVE_SIZE)].into(),
                output: SendBuffer::with_capacity(OUTPUT_SIZE),
            },
            now_ns: clock::monotonic_ns(),
        })
    }

    /// As [`super::Driver::watch`].
    pub(super) fn watch(&self, source: impl AsFd) -> io::Result<()> {
        self.epoll.add(source, WATCHED, Interest::IN)
    }

    /// As [`super::Driver::move_to`].
    pub(super) fn move_to(&mut self, queues: Vec<Option<Arc<OwnedFd>>>) {
        self.move_queues = queues;
    }

    /// How many accepted connections there are.
    pub fn connections(&self) -> usize {
        self.slab.count() - self.opened_count
    }

    /// Waits for something to happen and deals with all that has.
    ///
    /// # Errors
    /// The error of `epoll_wait(2)`. What goes wrong with one connection ends that connection only.
    pub fn run_once(&mut self, handler: &mut H) -> io::Result<PollOutcome> {
        self.timer.set_enabled(self.slab.count() > 0)?;
        let next_wait = self.prepare_wait(handler)?;
        let count = self.wait(handler, next_wait)?;
        self.now_ns = clock::monotonic_ns();
        self.deadline_timer.advance(self.now_ns);
        handler.on_tick(self.now_ns);
        let mut outcome = PollOutcome::Ordinary;
        let mut has_ticked = false;
        // Connections queued before this wake-up have waited longest.
        let next_queue = std::mem::take(&mut self.last_queue);
        let mut queue = std::mem::replace(&mut self.queue, next_queue);
        if self.opened_count > 0 {
            self.process_opened(handler, count);
        }
        for index in 0..count {
            let event = self.buffers.events[index];
            match event.data.u64() {
                WAKER => {
                    self.waker.take();
                    outcome = PollOutcome::Woken;
                }
                TIMER => has_ticked = self.timer.take(),
                WATCHED => handler.on_watched(),
                // The time decides what is due.
                DEADLINE => {}
                token => match Acceptor::index_of(token) {
                    Some(listener) => self.accept_expected(handler, listener)?,
                    None => self.on_event(handler, ConnectionId::from_token(token), event.flags),
                },
            }
        }
        for id in queue.drain(..) {
            self.call_queued(handler, id);
        }
        self.last_queue = queue;
        if has_ticked {
            self.sweep.start(self.slab.slot_count());
        }
        self.resume_ready(handler);
        self.step_sweep(handler);
        self.resume_accepting()?;
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

    /// Accepts all queued connections and closes the listeners: the first step of a shutdown.
    ///
    /// A listener that other processes have open keeps accepting for them.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn stop_listening(&mut self, handler: &mut H) -> io::Result<()> {
        // In this order, no connection is lost for which only this driver was woken.
        self.acceptor.unregister(&self.epoll)?;
        // All are accepted before the first is served: others queue while a handler works, and would
        // keep this driver from its connections.
        let mut accepted = Vec::new();
        for listener in 0..self.acceptor.count() {
            while self.connections() + accepted.len() < self.settings.connections_max {
                match self.acceptor.accept(listener) {
                    AcceptResult::Connection(socket, peer) => {
                        accepted.push((listener, AcceptedSocket::new(socket, peer)));
                    }
                    AcceptResult::Moved(socket) => {
                        accepted.push((listener, AcceptedSocket::moved(socket)));
                    }
                    AcceptResult::NoConnection | AcceptResult::Exhausted => break,
                }
            }
        }
        self.acceptor.close();
        for (listener, socket) in accepted {
            self.register(handler, listener, socket);
        }
        Ok(())
    }

    /// As [`super::Driver::close_all`].
    pub fn close_all(&mut self, handler: &mut H) {
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

    /// Waits for events and returns their number.
    #[inline]
    fn wait(&mut self, handler: &mut H, next_wait: NextWait) -> io::Result<usize> {
        let (epoll, events) = (&self.epoll, &mut self.buffers.events);
        if next_wait == NextWait::NonBlocking {
            return epoll.wait(events, Some(Duration::ZERO));
        }
        let mut count = Ok(0);
        handler.wait(&mut || count = epoll.wait(events, None));
        count
    }

    /// Whether the next wait may block; if so, the timer ends it at the nearest deadline.
    #[inline]
    fn prepare_wait(&mut self, handler: &mut H) -> io::Result<NextWait> {
        if !self.queue.is_empty() || self.sweep.is_active() {
            return Ok(NextWait::NonBlocking);
        }
        let deadline_ns = earliest([handler.deadline_ns(), self.acceptor.resume_ns()]);
        self.deadline_timer.prepare(deadline_ns, self.now_ns)
    }

    fn resume_accepting(&mut self) -> io::Result<()> {
        match self.acceptor.resume_ns() {
            Some(due_ns) if due_ns <= self.now_ns => self.acceptor.open(&self.epoll),
            _ => Ok(()),
        }
    }

    /// Accepts as many connections as the budget of a listener allows.
    fn accept_expected(&mut self, handler: &mut H, listener: usize) -> io::Result<()> {
        let limit = self.acceptor.limit(listener);
        let came = self.accept_batch(handler, listener, limit)?;
        self.acceptor.record(listener, came);
        Ok(())
    }

    /// Accepts up to `max` connections from one listener and returns their number.
    fn accept_batch(&mut self, handler: &mut H, listener: usize, max: usize) -> io::Result<usize> {
        for came in 0..max {
            let has_room = self.connections() < self.settings.connections_max;
            match if has_room { self.acceptor.accept(listener) } else { AcceptResult::Exhausted } {
                AcceptResult::Connection(socket, peer) => {
                    self.register(handler, listener, AcceptedSocket::new(socket, peer));
                }
                AcceptResult::Moved(socket) => {
                    self.register(handler, listener, AcceptedSocket::moved(socket));
                }
                AcceptResult::NoConnection => return Ok(came),
                AcceptResult::Exhausted => {
                    self.acceptor.pause(&self.epoll, self.now_ns)?;
                    return Ok(came);
                }
            }
        }
        Ok(max)
    }

    fn register(&mut self, handler: &mut H, listener: usize, accepted: AcceptedSocket) {
        let AcceptedSocket { socket, peer, is_moved } = accepted;
        let id = self.slab.next_key();
        let arrival = NewConnection { id, listener, socket: socket.as_fd(), peer, is_moved };
        let connection = handler.on_open(&arrival);
        let slot = Slot::new(socket, connection, Origin::Accepted);
        let listener = u32::try_from(listener).unwrap_or(u32::MAX);
        self.slab.insert(Slot { listener, ..slot });
        self.receive(handler, id, false);
        let Some(slot) = self.slab.get(id) else { return };
        slot.is_registered = true;
        let interest = interest(slot.unsent.is_some());
        if self.epoll.add(&slot.socket, id.token(), interest).is_err() {
            self.close(handler, id);
        }
    }
}
