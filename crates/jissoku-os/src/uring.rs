//! `io_uring(7)`. [`Ring`] is used by the driver, [`RingClient`] by clients, and [`RingServer`] by
//! servers without a driver.
//!
//! Uses multishot accepts and receives, a small ring of provided buffers, sends without success
//! completions, and deferred task work, with one system call per iteration. Requires Linux 6.1.

mod buffers;
mod client;
mod cqe;
mod ring;
mod sqe;

use std::io;

use io_uring::IoUring;

pub(crate) use buffers::BufferLease;
pub use client::{RingClient, RingEvent, RingSend, RingServer, Timeout};
pub(crate) use cqe::{Completion, Received};
pub(crate) use ring::{Ring, SendData, SendRequest, Wait};

/// Sizes of the submission and completion queues.
const REQUESTS: u32 = 1024;
const COMPLETIONS: u32 = 8192;

/// Whether the kernel supports and permits io_uring as used here.
pub fn is_available() -> bool {
    ring::probe().is_ok()
}

fn open() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all();
    builder.setup_cqsize(COMPLETIONS);
    builder.build(REQUESTS)
}
