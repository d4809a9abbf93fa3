//! A request of a client, until its response is complete.

use jissoku_http::Head;
use jissoku_http::forward::ForwardError;
use jissoku_server::OwnedOrigin;

use crate::lost::Lost;
use crate::slab::Key;

/// A request.
#[derive(Debug)]
pub struct Request {
    pub(crate) state: RequestState,
    /// A chunked body, while it is not known whether it is small enough to be collected.
    pub(crate) chunked: Option<Box<ChunkedRequest>>,
    /// Whether a refusal says why.
    pub(crate) is_diagnosed: bool,
    /// It was refused before its body was complete.
    pub(crate) is_cut_off: bool,
    lost: Lost<Key>,
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(key) = self.exchange() {
            self.lost.push(key);
        }
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestState {
    Refused(ForwardError),
    /// It is not forwarded yet.
    Collecting(Key),
    Forwarded(Key),
}

/// A request with a chunked body.
#[derive(Debug)]
pub(crate) struct ChunkedRequest {
    pub(crate) head: Head,
    pub(crate) head_bytes: Vec<u8>,
    pub(crate) origin: Option<OwnedOrigin>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_complete: bool,
}

impl Request {
    pub(crate) const fn new(state: RequestState, is_diagnosed: bool, lost: Lost<Key>) -> Self {
        Self { state, chunked: None, is_diagnosed, is_cut_off: false, lost }
    }

    /// The exchange, unless the request was refused.
    pub(crate) const fn exchange(&self) -> Option<Key> {
        match self.state {
            RequestState::Refused(_) => None,
            RequestState::Collecting(key) | RequestState::Forwarded(key) => Some(key),
        }
    }
}
