//! Where connections come in.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// How long the gate stays shut after descriptors ran out, if no connection of ours closes before. They
/// may be somebody else's.
pub(super) const PAUSE_NS: u64 = 100_000_000;

/// A listener, and whether other drivers wait on the very same one.
#[derive(Debug)]
pub enum Listener {
    /// This driver's own.
    Own(OwnedFd),
    /// A duplicate of a listener that several drivers have; one of them is woken per connection
    /// (`EPOLLEXCLUSIVE`).
    Shared(OwnedFd),
    /// As [`Listener::Shared`], but all drivers over epoll are woken per connection, and one of them gets it.
    /// Only a laboratory wants that. In io_uring one request to accept is taken per connection, always.
    Herd(OwnedFd),
}

impl Listener {
    pub(super) const fn fd(&self) -> &OwnedFd {
        match self {
            Self::Own(fd) | Self::Shared(fd) | Self::Herd(fd) => fd,
        }
    }
}

/// Whether no connection can be had until a descriptor or memory is free (`accept(2)`).
pub(super) fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    shortages.iter().any(|shortage| error.raw_os_error() == Some(shortage.raw_os_error()))
}
