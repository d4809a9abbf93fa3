//! What a person or a supervisor says to the process, and what follows from it.

use std::io;

use jissoku_os::signal::{self, Signals};

/// The signals that a server listens to.
#[derive(Debug)]
pub struct Words {
    /// Asks to stop; said again it changes nothing.
    pub terminate: Signals,
    /// Asks to stop; said again it means at once.
    pub interrupt: Signals,
    /// Asks to read the configuration again.
    pub reload: Signals,
    /// Asks to start the program anew, as it is on disk by now.
    pub replace: Signals,
    /// Asks to open the access log anew.
    pub reopen: Signals,
}

impl Words {
    /// Listens to `SIGTERM`, `SIGINT`, `SIGHUP`, `SIGUSR1` and `SIGUSR2`, for the whole process and for good.
    ///
    /// # Errors
    /// The error of catching a signal.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: Signals::catch(&[signal::SIGTERM])?,
            interrupt: Signals::catch(&[signal::SIGINT])?,
            reload: Signals::catch(&[signal::SIGHUP])?,
            replace: Signals::catch(&[signal::SIGUSR2])?,
            reopen: Signals::catch(&[signal::SIGUSR1])?,
        })
    }
}

/// What happened to a running server that its owner has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The worker of this number ended by a fault, told here, and another one is in its place.
    Replaced(usize, String),
    /// The same of the server that runs beside this one.
    ReplacedBeside(usize, String),
    /// The server that runs beside this one has ended, by faults that came again and again or as it was told.
    EndedBeside,
    /// A reload is wanted.
    Reload,
    /// A successor is wanted.
    Replace,
    /// The access log is to be opened anew.
    Reopen,
    /// The server has begun to stop.
    Stopping,
    /// What the owner was waiting for beside is readable.
    Other,
    /// Nothing, for as long as the owner wanted to wait.
    Nothing,
    /// The last worker has ended.
    Ended,
}
