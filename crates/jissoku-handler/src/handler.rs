//! Handlers with a state, and what is between a request and the response of a handler.

use std::error::Error;
use std::ffi::c_int;

use crate::ffi::{Call, Server};
use crate::request::Request;
use crate::response::{Response, report};

/// A handler with a state: one per worker, on one thread.
///
/// A value that panics in `handle` goes on to be used for the next requests.
pub trait Handler: Sized + 'static {
    /// Begins a worker, before its first request.
    ///
    /// # Errors
    /// Why the worker cannot begin: it ends, with the error on standard error.
    fn start(server: Server) -> Result<Self, Box<dyn Error>>;

    /// Responds to a request.
    fn handle<'r>(&mut self, request: Request<'r>) -> Response<'r>;

    /// Is called when the worker ends, after its last response.
    fn stop(self) {}
}

/// Begins a worker; an error is on standard error.
#[must_use]
pub fn begin<H: Handler>(server: Server) -> Option<H> {
    H::start(server).map_err(report).ok()
}

/// Has `handle` respond. Returns the result of `jsk_handle`.
pub fn respond<'r>(call: Call<'r>, handle: impl FnOnce(Request<'r>) -> Response<'r>) -> c_int {
    handle(Request::of(call)).send(call)
}
