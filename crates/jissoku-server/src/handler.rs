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

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use jissoku_http::head::Fields;
use jissoku_http::{Head, Method};
use jissoku_os::driver::{ConnectionId, NewConnection, Next, Opening, SendBuffer};

use crate::log::LogRecord;
use crate::metrics::{Metrics, ShardHandle};
use crate::origin::Origin;
use crate::response::Response;
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

    /// The limit of the body of a request, besides that of all; beyond it 413, and
    /// [`Handler::on_reject`]. Called once for each request that has a body, after its head.
    fn body_size_max(&self, _request: &Self::Request) -> Option<u64> {
        None
    }

    /// How the body of a request is to be received. Called when `respond` might be, and after each
    /// call of it; to resume receiving after [`BodyFlow::Hold`], [`Handler::next_ready`] returns
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

    /// The server has rejected a request in the middle of its body, which is malformed, too large
    /// or too slow, and responds itself.
    fn on_reject(
        &mut self,
        _connection: &mut Self::Connection,
        _request: Self::Request,
        _log: &mut LogRecord<'_>,
    ) {
    }

    /// A connection was closed, with its request if there is no complete response.
    fn on_close(
        &mut self,
        _connection: Self::Connection,
        _request: Option<Self::Request>,
        _log: &mut LogRecord<'_>,
    ) {
    }

    /// Calls `wait` once, which blocks the thread until events arrive. A handler can release a
    /// lock, such as that of an interpreter, meanwhile.
    fn wait(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    /// The event loop that calls iterations of the worker, if the worker does not wait for events
    /// itself.
    fn event_loop(&self) -> Option<EventLoop> {
        None
    }

    /// A descriptor that the worker watches besides its own; it stays open for as long as the
    /// handler.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The descriptor of [`Handler::watched`] is readable.
    fn on_watched(&mut self) {}

    /// A shutdown has begun: no more connections are accepted.
    fn on_shutdown(&mut self) {}

    /// Whether a shutdown has to wait, although no connection is left; at most until its deadline.
    fn is_busy(&self) -> bool {
        false
    }

    /// When [`Handler::next_ready`] has to be called at the latest, on the monotonic clock. Called
    /// at each wake-up of the worker.
    fn deadline_ns(&self) -> Option<u64> {
        None
    }

    /// The next connection for which [`Handler::respond`] is to be called; called at each wake-up
    /// until it returns `None`. The connection may be closed already.
    fn next_ready(&mut self, _now_ns: u64) -> Option<ConnectionId> {
        None
    }

    /// The next connection to open, to another server; called at each wake-up until it returns
    /// `None`, after [`Handler::next_ready`]. Such a connection does not count against the limits
    /// of clients.
    fn next_opening(&mut self) -> Option<Opening> {
        None
    }

    /// The connection of `token` is being opened. If [`Handler::next_ready`] returns `id`, it is
    /// called with [`UpstreamEvent::Resumed`].
    fn on_opening(&mut self, _token: u64, _id: ConnectionId) {}

    /// An event of an opened connection: returns what the driver is to do next. Output is sent
    /// after this call.
    fn on_upstream(&mut self, _event: UpstreamEvent<'_>, _output: &mut SendBuffer) -> Next {
        Next::Close
    }

    /// The connection of `token` is closed, or could not be opened. `error` is what has ended it,
    /// if not this side; `WouldBlock` if the queue of a Unix socket is full.
    fn on_upstream_close(&mut self, _token: u64, _error: Option<&io::Error>, _now_ns: u64) {}
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
    Eof,
    /// [`Handler::next_ready`] has returned it, output that had to wait is sent, or a second has
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
pub type EventLoop = Box<dyn FnOnce(Iteration)>;

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
    /// When [`Handler::next_ready`] returns the connection.
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
    /// The origin of the request, if a trusted intermediary has sent it.
    pub origin: Option<&'a Origin<'a>>,
}

impl<'a> RequestHead<'a> {
    /// The method.
    #[must_use]
    #[inline]
    pub const fn method(&self) -> Method {
        self.head.method
    }

    /// The raw path, and the query with its question mark or nothing.
    #[must_use]
    #[inline]
    pub fn path_and_query(&self) -> (&'a [u8], &'a [u8]) {
        let both = self.head.path_and_query(self.bytes);
        let path_size = both.iter().position(|&byte| byte == b'?').unwrap_or(both.len());
        both.split_at(path_size)
    }

    /// The header fields in order, as name and value.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        self.head.fields(self.bytes)
    }
}
