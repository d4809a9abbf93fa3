//! The floor: a minimal server and a minimal forwarder.
//!
//! Nothing is parsed. The server counts empty lines, each of which ends a request without a body,
//! and sends a constant response for each; the forwarder relays bytes between two connections, or asks
//! a server of the uwsgi protocol the same for each request. Reports give the cost of other servers as
//! a multiple of this. They have no limits and no timeouts, and are of no other use.

mod clients;
mod forwarder;
mod response;
mod server;
mod uwsgi_forwarder;

pub use server::{Bound, bind};
