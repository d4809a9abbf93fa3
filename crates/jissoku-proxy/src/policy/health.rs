//! Whether a server gets requests: by the results of earlier requests (passive) and of probes
//! (active).
//!
//! All times are nanoseconds of one monotonic clock, shared by all workers.

mod latency;
mod passive;
mod policy;
mod state;
mod window;

pub use passive::{Ejection, Passive};
pub use policy::{HealthPolicy, Probe, ProbePolicy};
pub use state::{Admission, Outcome, ServerState, Use};

#[cfg(test)]
mod tests;
