//! A safe wrapper of `epoll(7)`. Tokens are chosen by the caller.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
pub use rustix::event::epoll::EventFlags as Interest;
use rustix::io::Errno;

/// An epoll event.
pub type Event = epoll::Event;

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// Creates an instance.
    ///
    /// # Errors
    /// The error of `epoll_create1(2)`.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Registers `source`; closing it unregisters it.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.fd, source, epoll::EventData::new_u64(token), interest)?)
    }

    /// Changes the interest of `source`.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, source, epoll::EventData::new_u64(token), interest)?)
    }

    /// Unregisters `source`.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, source)?)
    }

    /// Waits for events until `timeout` (`None`: no timeout) and returns how many of `events` were
    /// filled. An interruption by a signal counts as no event.
    ///
    /// # Errors
    /// The error of `epoll_wait(2)`, other than `EINTR`.
    pub fn wait(&self, events: &mut [Event], timeout: Option<Duration>) -> io::Result<usize> {
        let timeout = timeout.map(|left| rustix::time::Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match epoll::wait(&self.fd, &mut *events, timeout.as_ref()) {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Epoll {
    /// Readable while events are pending.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An empty event, to initialise a buffer.
pub fn no_event() -> Event {
    Event { flags: Interest::empty(), data: epoll::EventData::new_u64(0) }
}
