//! Wakes a driver from another thread: an `eventfd(2)`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Wakes a waiting driver. Clones wake the same driver.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

impl Waker {
    /// Creates a waker, to be passed to a driver.
    ///
    /// # Errors
    /// The error of `eventfd(2)`.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self { fd: Arc::new(eventfd(0, flags)?) })
    }

    /// Makes the driver's next or current turn a [`super::PollOutcome::Woken`]. Several calls may
    /// become one.
    ///
    /// # Errors
    /// The error of `write(2)`.
    pub fn wake(&self) -> io::Result<()> {
        match rustix::io::write(&*self.fd, &1_u64.to_ne_bytes()) {
            // A full counter is a wake-up that was not taken yet.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a wake-up, for an owner that waits without a driver.
    pub fn take(&self) {
        // Nothing to read means that another wake-up took it already.
        let _taken = rustix::io::read(&*self.fd, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
