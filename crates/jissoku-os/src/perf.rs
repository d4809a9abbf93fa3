//! Sampling of running threads with `perf_event_open(2)`: events, and the ring buffers that the
//! kernel writes their records to. What the records say is read elsewhere, from bytes alone.

mod event;
mod ring;

pub use event::{Clock, Event, EventOptions, Scope, Subject, open};
pub use ring::Ring;
