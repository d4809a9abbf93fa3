//! What the driver over `io_uring` remembers of a connection.

use std::os::fd::OwnedFd;

use crate::driver::{Next, Output};

/// The receive that goes on until it is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    /// Not asked for, or over.
    Off,
    /// The kernel reports what comes.
    On,
    /// Cancelled, which is not reported yet.
    Ending,
}

/// The end of what the peer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Ahead,
    /// It has come; the handler does not know yet.
    Here,
    Told,
}

/// A connection and what its driver remembers of it.
#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) socket: OwnedFd,
    pub(super) connection: C,
    /// Where in the outbox the output of this turn is.
    pub(super) letter: Option<usize>,
    /// What the peer has not taken yet. The kernel is asked to report when there is room.
    pub(super) unsent: Option<Box<Output>>,
    pub(super) next: Next,
    pub(super) receiver: Receiver,
    /// Bytes that came when the connection did not want any more: what one turn brings at most.
    pub(super) stash: Vec<u8>,
    pub(super) end: End,
    /// The peer was told that we send no more.
    pub(super) has_finished: bool,
    /// Waits in the driver's queue.
    pub(super) is_queued: bool,
}

impl<C> Slot<C> {
    /// With the receive still to be asked for.
    pub(super) const fn new(socket: OwnedFd, connection: C) -> Self {
        Self {
            socket,
            connection,
            letter: None,
            unsent: None,
            next: Next::Receive,
            receiver: Receiver::Off,
            stash: Vec::new(),
            end: End::Ahead,
            has_finished: false,
            is_queued: false,
        }
    }

    /// Whether the connection wants bytes, or the end, now. Output of this turn is no obstacle: what
    /// follows leaves with it.
    pub(super) const fn wants_bytes(&self) -> bool {
        matches!(self.next, Next::Receive | Next::Finish) && self.unsent.is_none()
    }

    /// Whether something has come that the handler does not know yet.
    pub(super) fn has_more(&self) -> bool {
        !self.stash.is_empty() || self.end == End::Here
    }

    /// Whether something is to be done when the output has gone, though nothing may happen then.
    pub(super) fn has_sequel(&self) -> bool {
        !matches!(self.next, Next::Receive | Next::Hold)
            || !self.stash.is_empty()
            || self.end != End::Ahead
    }
}
