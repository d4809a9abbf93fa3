//! Completion: `io_uring(7)` as we use it. [`answer`] is a whole server for those who answer with constant
//! bytes; [`Client`] is for those who ask; [`Ring`] is what the driver for everybody else stands on.
//!
//! Multishot accepts and receives, a small ring of receive buffers, sends whose success is not reported,
//! and task work deferred to the one call per turn that submits and waits. Needs Linux 6.1.

mod answer;
mod buffers;
mod client;
mod report;
mod request;
mod ring;

use std::io;

use io_uring::IoUring;

pub use answer::answer;
pub(crate) use buffers::Filled;
pub use client::{Client, Event, Letter, Patience};
pub(crate) use report::{Received, Report};
pub(crate) use ring::{Bytes, Parcel, Ring, Wait};

/// Requests and completions that fit into the queues.
const REQUESTS: u32 = 1024;
const COMPLETIONS: u32 = 8192;

/// Whether this kernel has what this module needs, and lets us use it.
#[must_use]
pub fn is_available() -> bool {
    ring::try_out().is_ok()
}

fn open() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all();
    builder.setup_cqsize(COMPLETIONS);
    builder.build(REQUESTS)
}
