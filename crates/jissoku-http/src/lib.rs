//! HTTP/1.1 as a pure function of bytes: no sockets, no clock, no threads, no other crate.
//!
//! [`RequestParser::step`] parses the bytes of requests, or returns why they are rejected; [`response`]
//! and [`date`] format responses. [`response_reader`] and [`forward`] are for a proxy, [`uwsgi`] is
//! for requests of another protocol, [`forwarded`] and [`proxy_protocol`] for those of a proxy;
//! [`name_rule`] chooses fields of responses by file name. The result never depends on how the bytes
//! are split.

pub mod chunked;
pub mod connection_fields;
pub mod content_coding;
pub mod date;

pub mod forward;
pub mod forwarded;
pub mod framing;
pub mod head;
pub mod limits;
pub mod name_rule;
pub mod percent;
pub mod precondition;
pub mod proxy_protocol;
pub mod range;
pub mod reject;
pub mod request_parser;
pub mod response;
pub mod response_reader;
mod scan;
pub mod uwsgi;

pub use head::{Head, HeaderFlags, Method, Version};
pub use limits::Limits;
pub use reject::Reject;
pub use request_parser::{Event, LastHead, RequestParser, Step};
pub use scan::is_whole_token;
