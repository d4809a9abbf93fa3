//! The state of a connection in the epoll driver.

use std::io;
use std::os::fd::OwnedFd;

use crate::driver::listener::Origin;
use crate::driver::{Action, EventHandler, SendBuffer};
use crate::epoll::Interest;

/// Whether a socket is readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadState {
    /// Drained: an event will report more.
    NotReady,
    /// Bytes or end of file may be available.
    Ready,
    /// The peer has shut down its write side.
    Eof,
}

/// The state of the peer, as far as epoll has reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerState {
    Connected,
    /// It has shut down its write side or is gone; unread bytes may precede that.
    HungUp,
}

/// A connection and its state.
#[derive(Debug)]
pub(super) struct Slot<C> {
    pub(super) socket: OwnedFd,
    pub(super) connection: C,
    /// Output that is not sent yet.
    pub(super) unsent: Option<Box<SendBuffer>>,
    pub(super) next: Action,
    pub(super) read_state: ReadState,
    /// The write side was shut down.
    pub(super) write_is_shut: bool,
    pub(super) peer: PeerState,
    /// In the driver's queue.
    pub(super) is_queued: bool,
    /// Registered with epoll.
    pub(super) is_registered: bool,
    pub(super) origin: Origin,
    /// Why nothing can be sent any more.
    pub(super) send_error: Option<io::ErrorKind>,
    /// The index of the listener, if it was accepted.
    pub(super) listener: u32,
}

impl<C> Slot<C> {
    /// The state of a new connection.
    pub(super) const fn new(socket: OwnedFd, connection: C, origin: Origin) -> Self {
        Self {
            socket,
            connection,
            unsent: None,
            next: Action::Receive,
            read_state: ReadState::Ready,
            write_is_shut: false,
            peer: PeerState::Connected,
            is_queued: false,
            is_registered: false,
            origin,
            send_error: None,
            listener: 0,
        }
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
}

impl<C> Slot<C> {
    /// Notifies the handler of a suspended connection that its peer is gone.
    pub(super) fn report_hangup<H: EventHandler<Connection = C>>(&mut self, handler: &mut H) {
        if self.peer == PeerState::HungUp && self.next == Action::Suspend {
            handler.on_hangup(&mut self.connection);
        }
    }
}

/// EPOLLOUT is registered only while output is pending: a Unix socket would report it after every
/// read of the peer.
pub(super) const fn interest(waits_for_room: bool) -> Interest {
    let always = Interest::IN.union(Interest::RDHUP).union(Interest::ET);
    if waits_for_room { always.union(Interest::OUT) } else { always }
}
