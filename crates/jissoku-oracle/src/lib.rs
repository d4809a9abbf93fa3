//! The oracle: a server whose every act is known beforehand and written down afterwards, so that a load
//! generator's report can be held against the truth.
//!
//! When an answer is due is drawn from a seeded distribution that does not know how much there is to do
//! (M/G/inf, but for a door through which answers leave one by one), or from a fixed number of made-up
//! workers (M/G/k), and can be put off by freezes. What goes wrong is drawn from a seed too. It reads HTTP
//! only as far as it must, shares no protocol code with the server, and is no server for anything else.

mod account;
mod answer;
mod connection;
mod delay;
mod door;
mod log;
mod request;
mod scenario;
mod server;
mod service;
mod witness;

pub use account::{Account, Planted, Quantiles};
pub use delay::Delay;
pub use log::{Entry, Log, RECORD_SIZE};
pub use scenario::{Fault, Framing, Freeze, Scenario};
pub use server::{Bound, bind};
pub use witness::{AtLeast, Stalls, Witness};
