//! A server from its first listener to its last worker.
//!
//! `doors` has the sockets, `generation` the workers that listen on them, `running` the order in which
//! both come and go, and `words` what is said to the process from outside.

mod doors;
mod generation;
mod running;
mod words;

use std::io;

use jissoku_os::driver;
use jissoku_os::socket::Endpoint;

pub use doors::ListenError;
pub use running::{ReloadError, Running};
pub use words::{Event, Words};

use crate::handler::Site;
use crate::limits::Limits;
use doors::Doors;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen; port 0 lets the kernel choose.
    pub endpoints: Vec<Endpoint>,
    /// Threads, each with its own driver; at least one.
    pub workers: usize,
    /// Cores to keep the workers on, in turn; empty to leave that to the kernel.
    pub cores: Vec<usize>,
    /// What clients may do.
    pub limits: Limits,
    /// What the drivers may do, but for the number of connections: that is [`Limits::connections_max`].
    pub driver: driver::Settings,
}

impl Settings {
    /// One worker on `endpoint`, with the usual limits.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoints: vec![endpoint],
            workers: 1,
            cores: Vec::new(),
            limits: Limits::DEFAULT,
            driver: driver::Settings::default(),
        }
    }
}

/// A server whose listeners stand. Connections wait in the kernel until [`Server::start`].
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    doors: Doors,
}

impl Server {
    /// Opens all listeners.
    ///
    /// # Errors
    /// The first endpoint that cannot be had, and why.
    pub fn listen(settings: Settings) -> Result<Self, ListenError> {
        let doors = Doors::default().open(&settings.endpoints, settings.workers)?;
        Ok(Self { settings, doors })
    }

    /// Where the server listens, with the ports the kernel chose.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.doors.endpoints()
    }

    /// Starts the workers, and returns when all of them are ready.
    ///
    /// # Errors
    /// The error of making a thread or what it needs.
    pub fn start(self, site: Site) -> io::Result<Running> {
        Running::start(&self.settings, self.doors, site)
    }
}
