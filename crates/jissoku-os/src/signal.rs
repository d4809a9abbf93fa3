//! Signals as something to wait for: each arrives as one readable byte on a socket.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

pub use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// Makes sending to a peer that has gone an error, for the whole process and for good, where it would end the
/// process otherwise (`SIGPIPE`).
///
/// Sends have a flag for that, but `sendfile(2)` has none. Programs in Rust and in Python begin like this,
/// but one that embeds us need not.
#[expect(unsafe_code, reason = "nobody offers this as a safe call")]
pub fn outlive_broken_pipes() {
    // SAFETY: to ignore a signal installs no handler of ours, and the number is a signal's.
    let _before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Turns some signals into readiness.
#[derive(Debug)]
pub struct Signals {
    receiver: UnixStream,
}

impl Signals {
    /// Catches `signals` for the whole process, from now on and for good.
    ///
    /// # Errors
    /// The error of `socketpair(2)`, `dup(2)` or `sigaction(2)`.
    pub fn catch(signals: &[i32]) -> io::Result<Self> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        for &signal in signals {
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Self { receiver })
    }

    /// How many signals have come since the last call; does not wait.
    pub fn count(&mut self) -> usize {
        let mut bytes = [0; 64];
        self.receiver.read(&mut bytes).unwrap_or(0)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
