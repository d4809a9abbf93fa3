//! Bodies of requests that a handler takes by parts.

use std::ffi::c_int;
use std::fmt::Display;

use crate::ffi::{Call, FAILED, Str};
use crate::handler::Handler;
use crate::request::Request;
use crate::response::{Response, report};

/// A handler that takes bodies by parts, as they are received, however large they are:
/// `handler!(TYPE, parts)`. [`Request::body`] is empty in it.
pub trait PartsHandler: Handler {
    /// What it makes of a body: it is kept with the request, and dropped with it.
    type Upload: Default + 'static;

    /// Takes the next part of a body. After the last one, and for a request without a body,
    /// [`Handler::handle`] is called, which has [`Request::take_upload`].
    fn take_part<'r>(
        &mut self,
        request: Request<'r>,
        upload: &mut Self::Upload,
        part: &[u8],
    ) -> Taken<'r>;
}

/// What follows after a part of a body.
#[derive(Debug)]
pub enum Taken<'r> {
    /// The next part, or [`Handler::handle`] if it was the last one.
    Next,
    /// The response, which has to be in memory or a file: it is sent at once, and the rest of the body
    /// is discarded.
    Response(Response<'r>),
}

/// An error is a 500, and is printed on standard error.
impl<E: Display> From<Result<(), E>> for Taken<'_> {
    fn from(result: Result<(), E>) -> Self {
        result.map_or_else(|error| Self::Response(Response::failed(error)), |()| Self::Next)
    }
}

/// Has `handler` take a part. Returns the result of `jsk_body`.
pub fn take_part<H: PartsHandler>(handler: &mut H, call: Call<'_>, part: Str) -> c_int {
    let part = part.bytes().unwrap_or_default();
    let request = Request::of(call);
    match call.with_kept(|upload| handler.take_part(request, upload, part)) {
        Some(Taken::Next) => 0,
        Some(Taken::Response(response)) => response.send(call),
        None => {
            report("the server is older than bodies by parts");
            FAILED
        }
    }
}
