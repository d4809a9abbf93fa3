//! What the method of a request means for forwarding it.

use jissoku_http::framing::Body;
use jissoku_http::{Head, Method};

/// What the method of a request means for forwarding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MethodInfo {
    pub(crate) is_head: bool,
    /// Whether the request may be sent on a connection that the server may be closing, and then be
    /// repeated (RFC 9110 section 9.2.2).
    pub(crate) is_idempotent: bool,
    /// A body was sent with a method that has none as a rule. Servers may ignore such a body and
    /// take it for the next request, so the connection is not used again.
    pub(crate) has_unusual_body: bool,
}

impl MethodInfo {
    pub(super) fn new(head: &Head) -> Self {
        let is_safe = matches!(head.method, Method::Get | Method::Head | Method::Options);
        let is_delete = head.method == Method::Delete;
        Self {
            is_head: head.method == Method::Head,
            is_idempotent: is_safe || is_delete || head.method == Method::Put,
            has_unusual_body: (is_safe || is_delete) && head.body != Body::Empty,
        }
    }
}
