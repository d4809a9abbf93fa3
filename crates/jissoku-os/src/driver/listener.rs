//! Listeners of a driver, and which side has opened a connection.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How long accepting is paused after descriptors were exhausted, unless a connection of this
/// driver closes before. Other threads may free descriptors, too.
pub(super) const ACCEPT_PAUSE_NS: u64 = 100_000_000;

/// A listening socket, and how it is shared with other drivers.
#[derive(Debug)]
pub enum Listener {
    /// Used by this driver only.
    PerWorker(OwnedFd),
    /// Shared by several drivers, one of which is woken per connection (`EPOLLEXCLUSIVE`).
    SharedExclusive(OwnedFd),
    /// As [`Listener::SharedExclusive`], but all epoll drivers are woken per connection (thundering
    /// herd), for benchmarks. With io_uring one accept request completes per connection in any
    /// case.
    SharedWakeAll(OwnedFd),
    /// No socket that listens, but a queue of open connections that other drivers send
    /// ([`crate::socket::connection_queue`]), shared as [`Listener::SharedExclusive`]. For the epoll
    /// driver only.
    Moved(OwnedFd),
}

impl Listener {
    pub(super) const fn fd(&self) -> &OwnedFd {
        match self {
            Self::PerWorker(fd)
            | Self::SharedExclusive(fd)
            | Self::SharedWakeAll(fd)
            | Self::Moved(fd) => fd,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd().as_fd()
    }
}

/// Which side has opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The peer.
    Accepted,
    /// This side, and it is not established yet.
    Connecting,
    /// This side.
    Opened,
}
