//! Readiness: a thin, safe wrapper of `epoll(7)`. A token is the caller's, and comes back unchanged.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
pub use rustix::event::epoll::EventFlags as Interest;
use rustix::io::Errno;

/// One readiness report.
pub type Event = epoll::Event;

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// Opens an instance.
    ///
    /// # Errors
    /// The error of `epoll_create1(2)`.
    pub fn new() -> io::Result<Self> {
        Ok(Self { fd: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches `source`; closing it ends the watch.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.fd, source, epoll::EventData::new_u64(token), interest)?)
    }

    /// Watches `source` for something else from now on.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, source, epoll::EventData::new_u64(token), interest)?)
    }

    /// Stops watching `source`, which stays open.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)`.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, source)?)
    }

    /// Waits until something is ready or `timeout` has passed (`None`: for ever), and returns how many
    /// of `events` were filled, from the front. An interrupting signal counts as "nothing yet".
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
    /// It is readable while it has something to report.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An event that reports nothing, to fill a buffer with before the first wait.
#[must_use]
pub fn no_event() -> Event {
    Event { flags: Interest::empty(), data: epoll::EventData::new_u64(0) }
}
