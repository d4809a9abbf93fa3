//! The interface between the server and what it serves.
//!
//! A [`Service`] is shared by all workers. Each worker has a [`Handler`] of it, which is called for
//! the requests of that worker only and needs no locks. Handlers are generic parameters of the
//! workers, so that a request costs no dynamic dispatch.
//!
//! A request is processed in three steps: [`Handler::on_head`] with its head, [`Handler::on_body`]
//! with each part of its body, and [`Handler::respond`] when it is complete. A response that cannot
//! be completed at once is continued by further calls of `respond`, which [`Progress`] requests.
//!
//! Two exceptions: with [`BodyFlow::Receive`] and [`BodyFlow::Hold`], the response is produced
//! while the body is received; and after [`Response::upgrade`] all bytes of the client are passed
//! to `on_body` as they are.
//!
//! Most handlers implement [`Handler`] alone. Those that open connections to other servers return an
//! [`Outbound`], and those with an interpreter or threads of their own an [`EventLoop`].

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use jissoku_http::head::Fields;
use jissoku_http::{Head, Method};
use jissoku_os::driver::{Action, ConnectionId, NewConnection, Opening, SendBuffer};

use crate::client_identity::ClientIdentity;
use crate::log::LogRecord;
use crate::metrics::{Metrics, ShardHandle};
use crate::response::Response;
use crate::tls_client::TlsOpening;
use crate::worker_message::ParentPipe;

/// The content of a server, shared by its workers.
pub trait Service: Debug + Send + Sync + 'static {
    /// Processes the requests of one worker.
    type Handler: Handler;

    /// Creates the handler of a worker. Called on the thread of that worker.
    ///
    /// # Errors
    /// The worker cannot start.
    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<Self::Handler>;

    /// Calls `worker` once, which runs a worker on this thread until it is shut down. A service can
    /// prepare the thread before, and clean up after it.
    fn run_worker(&self, worker: &mut dyn FnMut()) {
        worker();
    }

    /// Reports its own metrics to `metrics` from now on. Only the first call has an effect.
    fn report_to(&self, _metrics: &Metrics) {}
}

/// The worker that a handler belongs to.
#[derive(Debug, Default)]
pub struct WorkerInfo {
    /// The number of the worker in its pool, from 0.
    pub index: usize,
    /// The parent process, if this is a worker process.
    pub parent: Option<ParentPipe>,
    pub(crate) counters: ShardHandle,
}

/// Processes the requests of one worker.
pub trait Handler: Debug + 'static {
    /// The state of a connection; it should be small, because ten thousand may be idle.
    type Connection: Debug;

    /// The state of a request from its head until its response is complete.
    type Request: Debug;

    /// A connection was accepted.
    fn on_open(&mut self, opened: &NewConnection<'_>) -> Self::Connection;

    /// The head of a request was received. Its bytes are valid during the call.
    fn on_head(
        &mut self,
        connection: &mut Self::Connection,
        head: &RequestHead<'_>,
    ) -> Self::Request;

    /// As [`Handler::on_head`], of a request that a table of routes leaves to this handler.
    fn on_routed_head(
        &mut self,
        connection: &mut Self::Connection,
        head: &RequestHead<'_>,
        _route: &RouteMatch<'_>,
    ) -> Self::Request {
        self.on_head(connection, head)
    }

    /// The limit of the body of a request, besides that of all; beyond it 413, and
    /// [`Handler::on_abandon`]. Called once for each request that has a body, after its head.
    fn body_size_max(&self, _request: &Self::Request) -> Option<u64> {
        None
    }

    /// How the body of a request is to be received. Called when `respond` might be, and after each
    /// call of it; to resume receiving after [`BodyFlow::Hold`], [`Background::next_ready`] returns
    /// the connection.
    fn body_flow(&self, _request: &Self::Request) -> BodyFlow {
        BodyFlow::Whole
    }

    /// A part of the request body was received; after an upgrade, bytes of the client. By default
    /// it is discarded. At most one receive of the driver is passed after [`BodyFlow::Hold`].
    fn on_body(&mut self, _request: &mut Self::Request, _part: &[u8]) {}

    /// The last part of a body was passed that is not received as a whole; after an upgrade, the
    /// client has shut down its side.
    fn on_end(&mut self, _request: &mut Self::Request) {}

    /// The client has shut down its side or is gone while its response is awaited, and nothing is
    /// received from it; with [`Progress::Flush`], only if nothing is sent either. It may still read.
    /// Possibly called repeatedly.
    fn on_hangup(&mut self, _connection: &mut Self::Connection, _request: &mut Self::Request) {}

    /// The request is complete, or [`Handler::body_flow`] does not wait for that: writes the
    /// response or a part of it. It is called again as the returned [`Progress`] says, and possibly
    /// earlier; it must then return the same again.
    fn respond(
        &mut self,
        connection: &mut Self::Connection,
        request: &mut Self::Request,
        response: &mut Response<'_>,
    ) -> Progress;

    /// The request gets no complete response from this handler: the server has rejected it in the
    /// middle of its body and responds itself, or the connection is closed. The state of a closed
    /// connection is dropped after this call.
    fn on_abandon(
        &mut self,
        _connection: &mut Self::Connection,
        _request: Self::Request,
        _reason: AbandonReason,
        _log: &mut LogRecord<'_>,
    ) {
    }

    /// The connections that it opens, if it opens any.
    #[inline]
    fn outbound(&mut self) -> Option<&mut impl Outbound> {
        None::<&mut Never>
    }

    /// Its part in the event loop of the worker, if it has one.
    #[inline]
    fn event_loop(&mut self) -> Option<&mut impl EventLoop> {
        None::<&mut Never>
    }
}

/// What a handler does between the events of its clients: it continues responses, and may have work
/// left when all clients are gone.
pub trait Background {
    /// When [`Background::next_ready`] has to be called at the latest, on the monotonic clock. Called
    /// at each wake-up of the worker.
    fn deadline_ns(&self) -> Option<u64> {
        None
    }

    /// The next connection for which [`Handler::respond`] is to be called; called at each wake-up
    /// until it returns `None`. The connection may be closed already.
    fn next_ready(&mut self, _now_ns: u64) -> Option<ConnectionId> {
        None
    }

    /// A shutdown has begun: no more connections are accepted.
    fn on_shutdown(&mut self) {}

    /// Whether a shutdown has to wait, although no connection is left; at most until its deadline.
    fn is_busy(&self) -> bool {
        false
    }
}

/// Connections that a handler opens to other servers. They do not count against the limits of
/// clients.
pub trait Outbound: Background {
    /// The next connection to open; called at each wake-up until it returns `None`, after
    /// [`Background::next_ready`].
    fn next_opening(&mut self) -> Option<Opening>;

    /// The connection of `token` is being opened. If [`Background::next_ready`] returns `id`, it gets
    /// [`UpstreamEventKind::Resumed`].
    fn on_opening(&mut self, token: u64, id: ConnectionId);

    /// TLS of the connection of `token`, if it has TLS. Called after [`Outbound::on_opening`]; the
    /// connection is established when the handshake is complete.
    fn tls(&mut self, _token: u64) -> Option<TlsOpening> {
        None
    }

    /// An event of such a connection: returns what the driver is to do next. Output is sent after
    /// this call.
    fn on_event(&mut self, event: UpstreamEvent<'_>, output: &mut SendBuffer) -> Action;

    /// The connection of `token` is closed, or could not be opened. `error` is what has ended it,
    /// if not this side; `WouldBlock` if the queue of a Unix socket is full, and one with a
    /// [`TlsFailure`](crate::TlsFailure) if TLS has failed.
    fn on_close(&mut self, token: u64, error: Option<&io::Error>, now_ns: u64);
}

/// A handler's part in the event loop of its worker: another event loop that runs the worker, or
/// events besides those of sockets.
pub trait EventLoop: Background {
    /// The event loop that calls iterations of the worker, if the worker does not run by itself.
    fn foreign_loop(&self) -> Option<ForeignLoop> {
        None
    }

    /// Calls `wait` once, which blocks the thread until events arrive. A handler can release a
    /// lock, such as that of an interpreter, meanwhile.
    fn wait(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    /// A descriptor that the worker watches besides its own; it stays open for as long as the
    /// handler.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The descriptor of [`EventLoop::watched`] is readable.
    fn on_watched(&mut self) {}
}

/// The outbound connections and the event loop of a handler that has none.
enum Never {}

impl Background for Never {}

impl Outbound for Never {
    fn next_opening(&mut self) -> Option<Opening> {
        match *self {}
    }

    fn on_opening(&mut self, _: u64, _: ConnectionId) {
        match *self {}
    }

    fn on_event(&mut self, _: UpstreamEvent<'_>, _: &mut SendBuffer) -> Action {
        match *self {}
    }

    fn on_close(&mut self, _: u64, _: Option<&io::Error>, _: u64) {
        match *self {}
    }
}

impl EventLoop for Never {}

/// Why a request gets no complete response from its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonReason {
    /// Its body is malformed, too large or too slow, and the server responds itself.
    Rejected,
    /// The connection is closed.
    Closed,
}

/// An event of a connection that a handler has opened.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamEvent<'a> {
    /// The token that the handler has chosen for the connection.
    pub token: u64,
    /// The kind of event.
    pub kind: UpstreamEventKind<'a>,
    /// The time of this wake-up, on the monotonic clock.
    pub now_ns: u64,
}

/// The kind of an event of a connection that a handler has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamEventKind<'a> {
    /// It is established.
    Connected,
    /// Bytes were received, while `unsent` bytes of output are still to be sent.
    Data {
        /// The bytes, at least one.
        bytes: &'a [u8],
        /// Bytes of earlier output that are not sent yet.
        unsent: usize,
    },
    /// The server has shut down its side.
    Eof {
        /// Whether that is all that it has sent: with TLS, it has said so (`close_notify`).
        is_clean: bool,
    },
    /// [`Background::next_ready`] has returned it, output that had to wait is sent, or a second has
    /// passed. It may not be established yet; nothing can be sent then.
    Resumed {
        /// Bytes of earlier output that are not sent yet.
        unsent: usize,
    },
}

/// One iteration of a worker: waits for events and processes them. Returns whether there is
/// another.
pub type Iteration = Box<dyn FnMut() -> bool>;

/// Calls an iteration until it returns `false`.
pub type ForeignLoop = Box<dyn FnOnce(Iteration)>;

/// How the body of a request is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFlow {
    /// [`Handler::respond`] is called when it is complete.
    Whole,
    /// As [`BodyFlow::Whole`], but the response does not depend on the body: a client that waits for
    /// a `100 Continue` gets the response instead.
    Ignored,
    /// [`Handler::respond`] is called for each part that was received, and for those that arrived
    /// with the head once. A `100 Continue` is sent when it is wanted.
    Receive,
    /// As [`BodyFlow::Receive`], without a `100 Continue`: a client that waits for it may send
    /// the body nevertheless.
    Await,
    /// As [`BodyFlow::Receive`], but nothing more is received for now.
    Hold,
}

/// When a response is continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is complete.
    Complete,
    /// At this time, on the monotonic clock.
    Until(u64),
    /// Once the output so far is sent, so that a streamed response is produced no faster than its
    /// client reads it.
    Sent,
    /// At once, before any other request of the worker: the output so far is sent now, and while the
    /// client does not take it, the thread waits for this client alone. For a response whose parts
    /// have to be produced without another request in between.
    Flush,
    /// When [`Background::next_ready`] returns the connection.
    Pending,
    /// As [`Progress::Pending`], after an upgrade: nothing more is sent, and the write side is shut
    /// down. The client may still send.
    ShutdownWrite,
    /// Never: the connection is reset, so that the client knows that its response is incomplete.
    Reset,
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The parsed head.
    pub head: &'a Head,
    /// The bytes of the head, and possibly more.
    pub bytes: &'a [u8],
    /// The time of this wake-up, on the monotonic clock.
    pub now_ns: u64,
    /// The client identity of the request, if a trusted intermediary has sent it.
    pub identity: Option<&'a ClientIdentity<'a>>,
    /// The header line with its id, if it has one. The head has the field, too.
    pub request_id: Option<&'a Arc<[u8]>>,
}

/// What the route of a request says to its handler.
#[derive(Clone, Copy, Debug)]
pub struct RouteMatch<'a> {
    /// Which part of the handler it names.
    pub part: usize,
    /// The variables of its path, by name, as they are written in the path.
    pub variables: &'a [(&'a str, &'a [u8])],
}

impl<'a> RequestHead<'a> {
    /// The method.
    #[inline]
    pub const fn method(&self) -> Method {
        self.head.method
    }

    /// The raw path, and the query with its question mark or nothing.
    #[inline]
    pub fn path_and_query(&self) -> (&'a [u8], &'a [u8]) {
        let both = self.head.path_and_query(self.bytes);
        let path_size = both.iter().position(|&byte| byte == b'?').unwrap_or(both.len());
        both.split_at(path_size)
    }

    /// The header fields in order, as name and value.
    pub fn fields(&self) -> Fields<'a> {
        self.head.fields(self.bytes)
    }
}
