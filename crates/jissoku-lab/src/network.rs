//! An emulated network between two tunnel devices: delay, jitter, loss, rate and a queue, for each
//! direction, by a seed.
//!
//! What becomes of a packet is decided by [`Link`], which knows no clock; [`Emulator`] forwards.

mod emulator;
mod link;

pub use emulator::{DirectionCounters, Emulator, NetworkCounters};
pub use link::{Fate, Link, LinkCounters, LinkSettings, Loss};
