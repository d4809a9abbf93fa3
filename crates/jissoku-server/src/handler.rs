//! The interface between the server and what it serves.
//!
//! A [`Service`] is shared by all workers. Each worker has a [`Handler`] of it, which is called for
//! the requests of that worker only and needs no locks. Handlers are generic parameters of the
//! workers, so that a request costs no dynamic dispatch.
//!
//! A request is processed in three steps: [`Handler::on_head`] with its head, [`Handler::on_body`]
//! with each part of its body, and [`Handler::respond`] when it is complete. A response that cannot
//! be completed at once is continued by further calls of `respond`, which [`Progress`] requests.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use jissoku_http::head::Fields;
use jissoku_http::{Head, Method};
use jissoku_os::driver::{ConnectionId, NewConnection};

use crate::metrics::{Metrics, ShardHandle};
use crate::response::Response;

/// What a server serves: shared by its workers.
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
    pub(crate) counters: ShardHandle,
}

/// Processes the requests of one worker.
pub trait Handler: Debug + 'static {
    /// What is kept for a connection; it should be small, because ten thousand may be idle.
    type Connection: Debug;

    /// What is kept for a request from its head until its response is complete.
    type Request: Debug;

    /// A connection was accepted.
    fn on_open(&mut self, opened: &NewConnection<'_>) -> Self::Connection;

    /// The head of a request was received. Its bytes are valid during the call.
    fn on_head(
        &mut self,
        connection: &mut Self::Connection,
        head: &RequestHead<'_>,
    ) -> Self::Request;

    /// A part of the request body was received. By default it is discarded.
    fn on_body(&mut self, _request: &mut Self::Request, _part: &[u8]) {}

    /// The request is complete: writes the response or a part of it. It is called again as the
    /// returned [`Progress`] says, and possibly earlier; it must then return the same again.
    fn respond(
        &mut self,
        connection: &mut Self::Connection,
        request: &mut Self::Request,
        response: &mut Response<'_>,
    ) -> Progress;

    /// A connection was closed, with its request if there is no complete response.
    fn on_close(&mut self, _connection: Self::Connection, _request: Option<Self::Request>) {}

    /// Calls `wait` once, which blocks the thread until events arrive. What a handler holds
    /// exclusively, such as a lock on an interpreter, it can release meanwhile.
    fn wait(&self, wait: &mut dyn FnMut()) {
        wait();
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
}

/// When a response is continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is complete.
    Complete,
    /// At this time, on the monotonic clock.
    Until(u64),
    /// Once the output so far is sent. This is how a streamed response keeps pace with its client.
    Sent,
    /// When [`Handler::next_ready`] returns the connection.
    Pending,
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
