//! The sampler: CPU time of running processes by thread, library, function and source line.
//!
//! Samples come from the kernel (`perf_event_open(2)`, through `jissoku_os::perf`) and are unwound
//! while they arrive, so that memory does not grow with time; names are looked up at the end.
//! Nothing here knows of servers or requests.

mod address_space;
#[cfg(target_arch = "x86_64")]
mod assembler;
mod collector;
pub mod flame_graph;
mod frame;
mod java;
mod kernel_symbols;
mod lookout;
mod module;
mod perf_map;
mod process_filter;
mod profile;
mod python;
pub mod record;
mod sampler;
mod stacks;
mod symbols;
mod waiting;

pub use frame::Frame;
pub use jissoku_os::perf::{Clock, Scope};
pub use perf_map::PerfMap;
pub use profile::{Interpreted, Profile, SCHEMA, Stack, ThreadName};
pub use sampler::{Controls, Plan, sample};
pub use waiting::{Wait, waits};
