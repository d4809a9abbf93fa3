//! Event loops for connections: accept, receive into a shared buffer, call a [`EventHandler`], and send
//! its output.
//!
//! The interface is completion-based (bytes were received, output was sent) and does not expose
//! readiness, so that epoll and io_uring can implement it. A driver guarantees:
//!
//! - one receive buffer per driver, so that idle connections need none;
//! - all output of one call, and of calls that follow before the next wait, is sent with one system call;
//! - no input is received from a client that does not read its output (from a connection that the
//!   handler opened it is: a server may respond before it has read a request);
//! - exhausted descriptors pause accepting, and nothing else;
//! - of several events, those of connections that the handler opened come first;
//! - a failed send to such a connection is reported after all bytes that can still be received;
//! - the clock is read once per wake-up and per [`Action::Flush`], and passed to the handler.
//!
//! Timeouts are up to the handler, which is called for every connection once a second.

mod deadline_timer;
mod early;
mod epoll;
mod flush;
mod listener;
mod send_buffer;
mod sweep;
mod uring;
mod waker;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::slab::Key;
use crate::socket::{self, Endpoint};

pub use early::{SocketNumber, send_early};
pub use listener::Listener;
pub use send_buffer::{LentBytes, SendBuffer};
pub use waker::Waker;

/// The kind of a [`ConnectionId`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionKind;

/// Identifies a connection of one driver. A stale id is detected.
pub type ConnectionId = Key<ConnectionKind>;

type Slab<T> = crate::slab::Slab<T, ConnectionKind>;

/// Output that may be unsent when the handler is called again after [`Action::Flush`].
pub const UNSENT_MAX: usize = 64 * 1024;

/// What a handler requests for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Receive more bytes.
    Receive,
    /// Call [`EventHandler::resume`] once the output is sent, after other connections.
    Yield,
    /// Send the output now, and call [`EventHandler::resume`] before any other connection. While the
    /// socket does not take more than [`UNSENT_MAX`] bytes of it, the thread waits for this socket
    /// alone, for at most a second between two calls.
    Flush,
    /// Do nothing until [`EventHandler::next_ready`] returns the connection.
    Suspend,
    /// Shut down the write side once the output is sent; bytes are still received.
    ShutdownWrite,
    /// As [`Action::Receive`], but by another driver, to which the connection is sent once the output
    /// is ([`Driver::move_to`]).
    Move,
    /// Close once the output is sent.
    Close,
    /// Close now and discard unsent output.
    Abort,
    /// As [`Action::Abort`], and let the peer know that something is missing, by a reset (TCP).
    Reset,
}

/// For which connections [`EventHandler::resume`] is to be called, or what is to be opened.
#[derive(Debug)]
pub enum Wakeup {
    /// One connection, which may be closed already.
    One(ConnectionId),
    /// All connections.
    All,
    /// Open a connection.
    Open(Opening),
}

/// A connection that a handler opens.
#[derive(Debug)]
pub struct Opening {
    /// The address.
    pub endpoint: Arc<Endpoint>,
    /// Identifies it to the handler.
    pub token: u64,
    /// Its socket, if [`socket::connect`](crate::socket::connect) was called before.
    pub socket: Option<OwnedFd>,
}

/// The outcome of one iteration of the event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOutcome {
    /// Connections or timers were processed.
    Ordinary,
    /// [`Waker::wake`] was called.
    Woken,
}

/// An accepted connection.
#[derive(Clone, Copy, Debug)]
pub struct NewConnection<'a> {
    /// Its id.
    pub id: ConnectionId,
    /// The index of its listener.
    pub listener: usize,
    /// Its socket, for socket options and addresses. It must not be read or written.
    pub socket: BorrowedFd<'a>,
    /// The address of the client, if the driver has received it with the connection.
    pub peer: Peer,
    /// Whether another driver has served it before ([`Action::Move`]).
    pub is_moved: bool,
}

/// The address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// `accept4(2)` has returned it; `None` for a Unix socket.
    Known(Option<SocketAddr>),
    /// The kernel has to be asked.
    Unknown,
}

impl NewConnection<'_> {
    /// The address of the client; `None` for a Unix socket. An IPv4 client of an IPv6 listener has
    /// its IPv4 address, not the mapped one (RFC 4291 section 2.5.5.2).
    pub fn peer(&self) -> Option<SocketAddr> {
        let address = match self.peer {
            Peer::Known(address) => address,
            Peer::Unknown => socket::peer(self.socket),
        };
        address.map(socket::canonical)
    }
}

/// Processes connections. A handler belongs to one driver and one thread.
pub trait EventHandler {
    /// The state of a connection. It should be small: ten thousand may be idle.
    type Connection;

    /// A connection was accepted.
    fn on_open(&mut self, arrival: &NewConnection<'_>) -> Self::Connection;

    /// At least one byte was received. `bytes` is valid during the call.
    fn on_data(
        &mut self,
        connection: &mut Self::Connection,
        bytes: &[u8],
        output: &mut SendBuffer,
    ) -> Action;

    /// The peer has shut down its write side; it may still read. [`Action::Receive`] closes the
    /// connection.
    fn on_eof(&mut self, connection: &mut Self::Connection, output: &mut SendBuffer) -> Action;

    /// An accepted connection with [`Action::Close`] has sent its output, and there may be bytes that
    /// were not received: a close would reset it, and the peer could lose the output (RFC 9112
    /// section 9.6). Returns what to do instead, or [`Action::Close`].
    fn on_unread(&mut self, _connection: &mut Self::Connection) -> Action {
        Action::Close
    }

    /// The peer of a connection with [`Action::Suspend`], or with [`Action::Flush`] and no output, has
    /// shut down its write side or is gone; bytes that it sent before may still be unread. Called for
    /// each of them, possibly repeatedly.
    fn on_hangup(&mut self, _connection: &mut Self::Connection) {}

    /// Called after [`Action::Yield`], for a [`Wakeup`], once a second, and when output that had
    /// to wait is sent to an opened connection. `unsent` bytes of earlier output are still to be
    /// sent.
    fn resume(
        &mut self,
        connection: &mut Self::Connection,
        unsent: usize,
        output: &mut SendBuffer,
    ) -> Action;

    /// A connection is being opened, as `token`; `None` closes it.
    fn on_connecting(&mut self, _token: u64, _id: ConnectionId) -> Option<Self::Connection> {
        None
    }

    /// An opened connection is established.
    fn on_connected(&mut self, _connection: &mut Self::Connection, _: &mut SendBuffer) -> Action {
        Action::Close
    }

    /// As [`EventHandler::on_data`], for an opened connection, which is also received from while
    /// `unsent` bytes of output are still to be sent.
    fn on_opened_data(
        &mut self,
        connection: &mut Self::Connection,
        bytes: &[u8],
        _unsent: usize,
        output: &mut SendBuffer,
    ) -> Action {
        self.on_data(connection, bytes, output)
    }

    /// The connection of `token` cannot be opened, for lack of resources for example. `WouldBlock`
    /// if the queue of a Unix socket is full.
    fn on_connect_error(&mut self, _token: u64, _error: io::Error) {}

    /// An opened connection has failed, or could not be established. All bytes that could be
    /// received were passed; [`EventHandler::on_close`] follows.
    fn on_error(&mut self, _connection: &mut Self::Connection, _error: &io::Error) {}

    /// The connection was closed by either side.
    fn on_close(&mut self, connection: Self::Connection);

    /// A connection with [`Action::Move`] could not be sent, and stays; `is_full` if the queue had no
    /// room for it.
    fn on_move_failed(&mut self, _is_full: bool) {}

    /// The descriptor of [`Driver::watch`] is readable.
    fn on_watched(&mut self) {}

    /// The driver woke up, at `now_ns` on the monotonic clock. The first call of every iteration.
    fn on_tick(&mut self, now_ns: u64);

    /// As [`EventHandler::on_tick`], before a call that follows [`Action::Flush`]: the iteration goes
    /// on, however long it takes.
    fn on_flush(&mut self, now_ns: u64) {
        self.on_tick(now_ns);
    }

    /// When [`EventHandler::next_ready`] has to be called at the latest, on the monotonic clock.
    fn deadline_ns(&mut self) -> Option<u64>;

    /// The next target; called until it returns `None`.
    fn next_ready(&mut self) -> Option<Wakeup>;

    /// Calls `wait` once, which blocks the thread until events arrive. What a handler holds
    /// exclusively, such as a lock on an interpreter, it can release meanwhile.
    fn wait(&mut self, wait: &mut dyn FnMut()) {
        wait();
    }
}

/// The kernel interface of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The default: epoll.
    #[default]
    Auto,
    /// Readiness: `epoll(7)`.
    Epoll,
    /// Completion: `io_uring(7)`, where [`crate::uring::is_available`].
    Uring,
}

/// The settings of a driver.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Maximum number of accepted connections; at this number accepting is paused until one closes.
    pub connections_max: usize,
    /// The kernel interface.
    pub backend: Backend,
}

impl Default for Settings {
    fn default() -> Self {
        Self { connections_max: 65_536, backend: Backend::Auto }
    }
}

/// The event loop of one thread.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one driver per thread")]
pub enum Driver<H: EventHandler> {
    /// Over `epoll(7)`.
    Epoll(epoll::Driver<H>),
    /// Over `io_uring(7)`.
    Uring(uring::Driver<H>),
}

impl<H: EventHandler> Driver<H> {
    /// Creates a driver for `listeners`. Connections are accepted from the first
    /// [`Driver::run_once`] on; `waker` interrupts its waiting. A driver must stay on the thread
    /// that created it.
    ///
    /// # Errors
    /// The error of creating kernel objects, such as `EMFILE`; `Unsupported` when io_uring was
    /// requested and is not available.
    pub fn new(listeners: Vec<Listener>, waker: Waker, settings: Settings) -> io::Result<Self> {
        Ok(match settings.backend {
            Backend::Auto | Backend::Epoll => {
                Self::Epoll(epoll::Driver::new(listeners, waker, settings)?)
            }
            Backend::Uring => Self::Uring(uring::Driver::new(listeners, waker, settings)?),
        })
    }

    /// Calls [`EventHandler::on_watched`] whenever `source` is readable. A driver watches at most one
    /// descriptor besides its own, which has to stay open for as long as the driver.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)` or `dup(2)`.
    pub fn watch(&mut self, source: impl AsFd) -> io::Result<()> {
        match self {
            Self::Epoll(driver) => driver.watch(source),
            Self::Uring(driver) => driver.watch(source),
        }
    }

    /// Sets the queue for [`Action::Move`] of the connections of each listener, by its index. The
    /// io_uring driver has none: received bytes may be in its buffers.
    pub fn move_to(&mut self, queues: Vec<Option<Arc<OwnedFd>>>) {
        if let Self::Epoll(driver) = self {
            driver.move_to(queues);
        }
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        match self {
            Self::Epoll(driver) => driver.connections(),
            Self::Uring(driver) => driver.connections(),
        }
    }

    /// Waits for events and processes them.
    ///
    /// # Errors
    /// The error of `epoll_wait(2)` or `io_uring_enter(2)`. An error of a connection
    /// closes that connection only.
    #[inline]
    pub fn run_once(&mut self, handler: &mut H) -> io::Result<PollOutcome> {
        match self {
            Self::Epoll(driver) => driver.run_once(handler),
            Self::Uring(driver) => driver.run_once(handler),
        }
    }

    /// Resumes and opens what the handler has ready, without a wait: as [`Driver::run_once`] does
    /// after the events.
    pub fn resume_ready(&mut self, handler: &mut H) {
        match self {
            Self::Epoll(driver) => driver.resume_ready(handler),
            Self::Uring(driver) => driver.resume_ready(handler),
        }
    }

    /// Accepts all queued connections and closes the listeners: the first step of a shutdown.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)` or `io_uring_enter(2)`.
    pub fn stop_listening(&mut self, handler: &mut H) -> io::Result<()> {
        match self {
            Self::Epoll(driver) => driver.stop_listening(handler),
            Self::Uring(driver) => driver.stop_listening(handler),
        }
    }

    /// Closes all connections. The driver must not be used afterwards.
    pub fn close_all(&mut self, handler: &mut H) {
        match self {
            Self::Epoll(driver) => driver.close_all(handler),
            Self::Uring(driver) => driver.close_all(handler),
        }
    }
}

#[cfg(test)]
mod tests;
