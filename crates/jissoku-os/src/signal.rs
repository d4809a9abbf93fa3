//! Signals as readable sockets: each signal is one byte.

mod shared;

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
pub use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::low_level::{pipe, unregister};

/// Ignores `SIGPIPE` for the whole process, so that a send to a closed connection returns an error.
///
/// Sends have a flag for that, but `sendfile(2)` has none. The runtimes of Rust and Python ignore
/// it already, but other embedders may not.
#[expect(unsafe_code, reason = "there is no safe wrapper")]
pub fn ignore_sigpipe() {
    // SAFETY: to ignore a signal installs no handler of ours, and the number is a signal's.
    let _before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Sends `SIGTERM` to this process.
pub fn stop_this_process() {
    // The process exists, and may signal itself.
    let _sent =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
}

/// Sends `SIGHUP` to this process.
pub fn reload_this_process() {
    // The process exists, and may signal itself.
    let _sent =
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP);
}

/// Registered signals; dropping it unregisters them.
#[derive(Debug)]
pub struct Signals {
    receiver: UnixStream,
    registered: Vec<SigId>,
    /// Signals that are shared with an application.
    shared: Vec<i32>,
}

impl Signals {
    /// Registers `signals` for the whole process. After dropping, their default actions stay
    /// disabled.
    ///
    /// # Errors
    /// The error of `socketpair(2)`, `dup(2)` or `sigaction(2)`.
    pub fn register(signals: &[i32]) -> io::Result<Self> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        // On an error, the signals registered so far are unregistered.
        let mut registered_signals = Self { receiver, registered: Vec::new(), shared: Vec::new() };
        for &signal in signals {
            registered_signals.registered.push(pipe::register(signal, sender.try_clone()?)?);
        }
        Ok(registered_signals)
    }

    /// As [`Signals::register`], beside handlers that an application has installed before, or
    /// installs later: see [`Signals::share`]. Forked children have the application's only.
    ///
    /// # Errors
    /// As [`Signals::register`].
    pub fn register_shared(signals: &[i32]) -> io::Result<Self> {
        signals.iter().try_for_each(|&signal| shared::set_aside(signal))?;
        let mut registered = Self::register(signals)?;
        signals.iter().try_for_each(|&signal| shared::begin(signal))?;
        registered.shared = signals.to_vec();
        Ok(registered)
    }

    /// Looks for handlers that were installed in place of these; from here on both are called.
    ///
    /// # Errors
    /// The error of `sigaction(2)`.
    pub fn share(&self) -> io::Result<()> {
        self.shared.iter().try_for_each(|&signal| shared::share(signal))
    }

    /// The number of signals since the last call; does not wait.
    pub fn count(&mut self) -> usize {
        let mut bytes = [0; 64];
        self.receiver.read(&mut bytes).unwrap_or(0)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
