//! HTTP/1.1 as a pure function of bytes: no sockets, no clock, no threads, no other crate.
//!
//! Bytes of a request go into [`Exchange::step`], which says what they mean or why they are refused;
//! [`response`] and [`date`] make the bytes that go back. What the bytes mean never depends on how the
//! network cut them up.

pub mod chunked;
pub mod coding;
pub mod condition;
pub mod date;
pub mod exchange;
pub mod framing;
pub mod head;
pub mod limits;
pub mod range;
pub mod reject;
pub mod response;
mod scan;

pub use exchange::{Event, Exchange, Step};
pub use head::{Head, Method, Noted, Version};
pub use limits::Limits;
pub use reject::Reject;
