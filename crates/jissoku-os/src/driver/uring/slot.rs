//! The state of a connection in the io_uring driver.

use std::io;
use std::os::fd::OwnedFd;

use crate::driver::listener::Origin;
use crate::driver::{Action, EventHandler, SendBuffer};

/// The state of the multishot receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecvState {
    /// Inactive.
    Off,
    /// Active.
    On,
    /// Cancelled, without a completion yet.
    Cancelling,
}

/// Whether end of file was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eof {
    No,
    /// Received, but not reported to the handler yet.
    Pending,
    Delivered,
}

/// A connection and its state.
#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) socket: OwnedFd,
    pub(super) connection: C,
    /// Index of its output in the send queue.
    pub(super) send: Option<usize>,
    /// Output that is not sent yet; a poll for writability is active.
    pub(super) unsent: Option<Box<SendBuffer>>,
    pub(super) next: Action,
    pub(super) recv_state: RecvState,
    /// Bytes that were received while the handler did not want any: at most those of one iteration.
    pub(super) pending_input: Vec<u8>,
    pub(super) eof: Eof,
    /// The write side was shut down.
    pub(super) write_is_shut: bool,
    /// In the driver's queue.
    pub(super) is_queued: bool,
    pub(super) origin: Origin,
    /// Why nothing can be sent any more, or received after the pending input.
    pub(super) error: Option<io::ErrorKind>,
}

impl<C> Slot<C> {
    /// Creates the state, without a receive.
    pub(super) const fn new(socket: OwnedFd, connection: C, origin: Origin) -> Self {
        Self {
            socket,
            connection,
            send: None,
            unsent: None,
            next: Action::Receive,
            recv_state: RecvState::Off,
            pending_input: Vec::new(),
            eof: Eof::No,
            write_is_shut: false,
            is_queued: false,
            origin,
            error: None,
        }
    }

    /// Whether the handler wants bytes or end of file now. Queued output does not matter: further
    /// output is sent with it.
    pub(super) fn wants_bytes(&self) -> bool {
        matches!(self.next, Action::Receive | Action::ShutdownWrite) && !self.is_blocked()
    }

    /// Whether unsent output has to go first.
    pub(super) fn is_blocked(&self) -> bool {
        let receives = matches!(self.next, Action::Receive | Action::ShutdownWrite);
        self.unsent.is_some() && (self.origin == Origin::Accepted || !receives)
    }

    /// Whether the handler gets an event when delayed output has been sent.
    pub(super) fn is_awaiting_room(&self) -> bool {
        self.origin == Origin::Opened && matches!(self.next, Action::Receive | Action::Suspend)
    }

    /// Notifies the handler of a suspended connection that its peer is gone.
    pub(super) fn report_hangup<H: EventHandler<Connection = C>>(&mut self, handler: &mut H) {
        if self.eof != Eof::No && self.next == Action::Suspend {
            handler.on_hangup(&mut self.connection);
        }
    }

    /// Whether input or end of file is pending.
    pub(super) fn has_more(&self) -> bool {
        !self.pending_input.is_empty() || self.eof == Eof::Pending
    }

    /// Whether the connection has to continue after its output is sent, without an event.
    pub(super) fn has_followup(&self) -> bool {
        !matches!(self.next, Action::Receive | Action::Suspend)
            || !self.pending_input.is_empty()
            || self.eof != Eof::No
    }
}
