//! A server from its first listener to its last worker.
//!
//! `doors` has the sockets, `generation` the workers that listen on them, `running` the order in which
//! both come and go, and `words` what is said to the process from outside.

mod dealing;
mod doors;
mod generation;
mod running;
mod words;

use std::io;

use jissoku_os::driver;
use jissoku_os::inherited::Inherited;
use jissoku_os::socket::Endpoint;

pub use doors::ListenError;
pub use running::{ReloadError, Running};
pub use words::{Event, Words};

use crate::causes::Cause;
use crate::handler::Site;
use crate::limits::Limits;
use crate::observer::Observation;
use crate::tls::Tls;
use dealing::Dealing;
use doors::Doors;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen; port 0 lets the kernel choose.
    pub endpoints: Vec<Endpoint>,
    /// Who may connect to a Unix socket, as in `chmod(2)`; `None` leaves that to the umask.
    pub socket_mode: Option<u32>,
    /// Threads, each with its own driver; at least one.
    pub workers: usize,
    /// Cores to keep the workers on, in turn; empty to leave that to the kernel.
    pub cores: Vec<usize>,
    /// What clients may do.
    pub limits: Limits,
    /// What the drivers may do, but for the number of connections: that is [`Limits::connections_max`].
    pub driver: driver::Settings,
    /// What makes the server slow on purpose.
    pub causes: Vec<Cause>,
    /// What is noted besides answering.
    pub observation: Observation,
    /// What clients over TCP have to speak, if it is TLS; those over Unix sockets never do.
    pub tls: Option<Tls>,
}

impl Settings {
    /// One worker on `endpoint`, with the usual limits.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoints: vec![endpoint],
            socket_mode: None,
            workers: 1,
            cores: Vec::new(),
            limits: Limits::DEFAULT,
            driver: driver::Settings::default(),
            observation: Observation::default(),
            tls: None,
            causes: Vec::new(),
        }
    }

    /// Which workers listen on what.
    fn dealing(&self) -> Dealing {
        let has = |cause| self.causes.contains(&cause);
        match self.workers {
            workers if has(Cause::SingleWorker) => Dealing::First(workers),
            workers if has(Cause::Herd) => Dealing::Herd(workers),
            workers => Dealing::Each(workers),
        }
    }
}

/// Listeners that another process has opened.
#[derive(Debug, Default)]
pub struct Sockets(Doors);

impl Sockets {
    /// Takes them over.
    ///
    /// # Errors
    /// The name of the first that is no listener.
    pub fn adopt(inherited: Vec<Inherited>) -> io::Result<Self> {
        Ok(Self(Doors::adopt(inherited)?))
    }

    /// Where they listen.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.0.endpoints()
    }

    /// Takes out those that stand for `endpoint`, the last ones that do; possibly none.
    #[must_use]
    pub fn split_off(&mut self, endpoint: &Endpoint) -> Self {
        Self(self.0.split_off(endpoint))
    }
}

/// A server whose listeners stand. Connections wait in the kernel until [`Server::start`].
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    doors: Doors,
    /// Those of them that another process has opened, and may still serve.
    given: Doors,
}

impl Server {
    /// Opens all listeners.
    ///
    /// # Errors
    /// The first endpoint that cannot be had, and why.
    pub fn listen(settings: Settings) -> Result<Self, ListenError> {
        Self::listen_on(settings, &Sockets::default())
    }

    /// As [`Server::listen`], with sockets that another process has opened already. One that it calls by
    /// an endpoint's name is what is meant by that endpoint, even if it is elsewhere by now: port 0 was
    /// asked for, and one was had.
    ///
    /// # Errors
    /// The first endpoint that cannot be had, or the first socket that no endpoint names, and why.
    pub fn listen_on(settings: Settings, sockets: &Sockets) -> Result<Self, ListenError> {
        let given = sockets.0.clone();
        let server = Self { doors: given.open(&settings)?, settings, given };
        match server.doors.listen_on_firsts() {
            Ok(()) => Ok(server),
            Err(error) => {
                server.close();
                Err(error)
            }
        }
    }

    /// Where the server listens, with the ports the kernel chose.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.doors.endpoints()
    }

    /// Closes the listeners, and takes the files of Unix sockets away, but for those of another process.
    pub fn close(self) {
        self.doors.remove_files(&self.given);
    }

    /// Starts the workers, and returns when all of them are ready.
    ///
    /// # Errors
    /// The error of making a thread or what it needs.
    pub fn start(self, site: Site) -> io::Result<Running> {
        let running = Running::start(&self.settings, self.doors.clone(), site);
        if running.is_err() {
            self.close();
        }
        running
    }
}
