//! Requests in the uwsgi protocol: <https://uwsgi-docs.readthedocs.io/en/latest/Protocol.html>.
//!
//! A packet is a header of four bytes and a list of CGI variables (RFC 3875 section 4.1). The body
//! follows it, and the connection ends with the response. A packet becomes a request head, so that
//! everything behind the parser is that of HTTP, with its limits; and a forwarded head becomes a
//! packet.

mod head;
mod packet;
mod target;
#[cfg(test)]
mod tests;
mod writer;

pub use head::UwsgiHead;
pub use packet::{Packet, Variables, VariablesIter, read};
pub use writer::{PacketOrigin, PacketTooLarge, add_field, write};
