//! The oracle: a server with known behaviour that logs every request, so that the reports of load
//! generators can be compared with the truth.
//!
//! Due times are drawn from a seeded distribution that does not depend on the load (M/G/inf, except
//! for the departure slots), or from a fixed number of simulated workers (M/G/k), and may be
//! deferred by freezes. Faults are drawn from a seed, too. It parses as little HTTP as possible,
//! shares no protocol code with the server, and is of no other use.

mod connection;
mod delay;
mod departure_slots;
mod log;
mod request;
mod response;
mod scenario;
mod server;
mod service;
mod stall_monitor;
mod summary;

pub use delay::Delay;
pub(crate) use delay::Rng;
pub use log::{Entry, Log, RECORD_SIZE};
pub use scenario::{Framing, Freeze, InjectedFault, Scenario};
pub use server::{Bound, bind};
pub use stall_monitor::{StallCount, StallMonitor, Stalls};
pub use summary::{InjectedFaults, Quantiles, Summary};
