//! The signals a server handles, and the events that its owner waits for.

use std::io;

use jissoku_os::signal::{self, Signals};

/// The signals of a server.
#[derive(Debug)]
pub struct SignalSet {
    /// Stop gracefully; repeating it has no effect.
    pub terminate: Signals,
    /// Stop gracefully; repeated, stop at once.
    pub interrupt: Signals,
    /// Reload the configuration.
    pub reload: Signals,
    /// Re-execute the program as it is on disk.
    pub replace: Signals,
    /// Reopen the access log.
    pub reopen: Signals,
    /// Whether an application runs in this process, which may install handlers of its own for these
    /// signals. They are found within a second, and called, too.
    pub has_application: bool,
}

impl SignalSet {
    /// Registers `SIGTERM`, `SIGINT`, `SIGHUP`, `SIGUSR1` and `SIGUSR2` for the whole process.
    ///
    /// # Errors
    /// The error of registering a signal.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: Signals::register_shared(&[signal::SIGTERM])?,
            interrupt: Signals::register_shared(&[signal::SIGINT])?,
            reload: Signals::register_shared(&[signal::SIGHUP])?,
            replace: Signals::register_shared(&[signal::SIGUSR2])?,
            reopen: Signals::register_shared(&[signal::SIGUSR1])?,
            has_application: false,
        })
    }

    /// Looks for handlers of the application in place of those of the server.
    pub(super) fn share(&self) -> io::Result<()> {
        if self.has_application {
            self.all().into_iter().try_for_each(Signals::share)
        } else {
            Ok(())
        }
    }

    pub(super) const fn all(&self) -> [&Signals; 5] {
        let Self { terminate, interrupt, reload, replace, reopen, .. } = self;
        [terminate, interrupt, reload, replace, reopen]
    }
}

/// An event of a running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// The worker of this index failed, for this reason, and was replaced.
    WorkerRestarted(usize, String),
    /// The same for the auxiliary server.
    AuxWorkerRestarted(usize, String),
    /// The worker of this index could not be started again, for this reason; it is tried again.
    WorkerNotRestarted(usize, String),
    /// The auxiliary server has stopped, after too many failures or on request.
    AuxStopped,
    /// A reload was requested.
    Reload,
    /// A re-exec was requested.
    Reexec,
    /// Reopening the access log was requested.
    ReopenLog,
    /// The server has started to stop.
    Stopping,
    /// The other descriptor is readable.
    OtherReadable,
    /// The timeout has passed.
    TimedOut,
    /// The last worker has exited.
    Stopped,
}
