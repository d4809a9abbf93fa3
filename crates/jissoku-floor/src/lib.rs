//! The floor: the least a server and a client can do and still answer.
//!
//! Nothing is parsed. The server counts empty lines, each of which ends a request without a body, and
//! sends a constant for each; the client learns how long one answer is and counts bytes. What any other
//! server costs is told as a multiple of this. It is no server for anything else: it has no limits, no
//! time-outs, and answers whatever is asked with the same bytes.

mod answer;
mod client;
mod server;

pub use client::{Count, Load, load};
pub use server::{Bound, Driver, bind};
