//! A request that is collected as a whole before it is known what its parts are.

use jissoku_http::Head;
use jissoku_server::{OwnedOrigin, RequestHead};

/// A request and its body.
#[derive(Debug)]
pub(crate) struct CollectedRequest {
    pub(crate) head: Head,
    pub(crate) head_bytes: Vec<u8>,
    pub(crate) origin: Option<OwnedOrigin>,
    pub(crate) body: Vec<u8>,
    body_size_max: usize,
    /// The body is larger than it may be.
    pub(crate) is_too_large: bool,
}

impl CollectedRequest {
    pub(crate) fn new(request: &RequestHead<'_>, body_size_max: usize) -> Self {
        Self {
            head: *request.head,
            head_bytes: request.bytes[..request.head.size as usize].to_vec(),
            origin: request.origin.map(Into::into),
            body: Vec::new(),
            body_size_max,
            is_too_large: false,
        }
    }

    /// Adds a part of the body.
    pub(crate) fn push(&mut self, part: &[u8]) {
        self.is_too_large |= self.body.len() + part.len() > self.body_size_max;
        if self.is_too_large {
            self.body = Vec::new();
        } else {
            self.body.extend_from_slice(part);
        }
    }
}
