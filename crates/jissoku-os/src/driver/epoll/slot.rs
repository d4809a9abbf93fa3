//! What the driver over epoll remembers of a connection.

use std::os::fd::OwnedFd;

use crate::driver::{Next, Output};

/// What the kernel may hold for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inbound {
    /// Nothing that it would not report.
    Drained,
    /// Bytes, or the end, perhaps.
    Ready,
    /// Nothing any more: the peer has ended.
    Ended,
}

/// A connection and what its driver remembers of it.
#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) socket: OwnedFd,
    pub(super) connection: C,
    /// What the peer has not taken yet.
    pub(super) unsent: Option<Box<Output>>,
    pub(super) next: Next,
    pub(super) inbound: Inbound,
    /// The peer was told that we send no more.
    pub(super) has_finished: bool,
    /// Waits in the driver's queue.
    pub(super) is_queued: bool,
    /// The kernel reports on the socket.
    pub(super) is_watched: bool,
}
