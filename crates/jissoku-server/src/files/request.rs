//! One request for a file, and its response.

use std::sync::Arc;

use super::entry::{CacheRef, Variant};
use crate::handler::RequestHead;
use crate::response::DynamicResponse;

/// One request for a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileRequest<'a> {
    pub(super) head: &'a RequestHead<'a>,
    /// The raw path below the served prefix.
    pub(super) path: &'a [u8],
    /// The query with its question mark, or empty.
    pub(super) query: &'a [u8],
}

/// The kind of a response.
#[derive(Debug)]
pub(super) enum ResponseKind {
    /// A cached file, listing, redirect or error.
    Cached(Arc<CacheRef>, Variant),
    NotFound,
    NotAllowed,
    /// A response that was created for this request.
    Dynamic(Box<DynamicResponse>),
}
