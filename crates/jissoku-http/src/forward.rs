//! Heads that a proxy forwards: written anew from parsed parts (RFC 9110 section 7.6).
//!
//! Nothing is forwarded that was not parsed. Fields keep their order and their duplicates; each is
//! one `name: value` line.

mod lines;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use lines::FieldNames;
pub use request::{
    ClientFields, ClientSupport, ForwardError, ForwardedHost, HopField, PathEdit, RequestEdit,
    add_field, write_request_head,
};
pub use response::{ClientFraming, write_response_head, write_trailers};
