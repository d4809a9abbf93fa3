//! The server: listeners, worker pools, reload and shutdown.
//!
//! `endpoints` owns the sockets, `worker_pool` the threads that accept on them, `restart_budget`
//! replaces failed workers, `running` coordinates reload and shutdown, and `signals` defines
//! signals and events.

mod endpoints;
mod restart_budget;
mod running;
mod signals;
mod worker_pool;

use std::io;

use jissoku_os::inherited::Inherited;
use jissoku_os::socket::Endpoint;

pub use running::RunningServer;
pub use signals::{ServerEvent, SignalSet};

use crate::dyn_service::DynService;
use crate::settings::Settings;
use endpoints::Endpoints;

/// Listeners inherited from another process.
#[derive(Clone, Debug, Default)]
pub struct Sockets(Endpoints);

impl Sockets {
    /// Takes over inherited listeners.
    ///
    /// # Errors
    /// The name of the first socket that is not a listener.
    pub fn from_inherited(inherited: Vec<Inherited>) -> io::Result<Self> {
        Ok(Self(Endpoints::from_inherited(inherited)?))
    }

    /// Their addresses.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.0.addresses()
    }

    /// Removes and returns the last ones for `endpoint`; possibly none.
    #[must_use]
    pub fn split_off(&mut self, endpoint: &Endpoint) -> Self {
        Self(self.0.split_off(endpoint))
    }
}

/// A server with bound listeners. Connections are queued by the kernel until [`Server::start`].
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    endpoints: Endpoints,
    /// Inherited listeners, which another process may still use.
    given: Endpoints,
}

impl Server {
    /// Binds all listeners.
    ///
    /// # Errors
    /// The first endpoint that cannot be bound, and why.
    pub fn listen(settings: Settings) -> Result<Self, String> {
        Self::listen_on(settings, &Sockets::default())
    }

    /// As [`Server::listen`], with inherited sockets. A socket named after an endpoint is used for
    /// it even if its address differs: port 0 was resolved to a port.
    ///
    /// # Errors
    /// The first endpoint that cannot be bound, or the first inherited socket that no endpoint
    /// names, and why.
    pub fn listen_on(settings: Settings, sockets: &Sockets) -> Result<Self, String> {
        let given = sockets.0.clone();
        let server = Self { endpoints: given.open(&settings)?, settings, given };
        match server.endpoints.listen_on_first() {
            Ok(()) => Ok(server),
            Err(error) => {
                server.close();
                Err(error)
            }
        }
    }

    /// The addresses of the listeners, with actual ports.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.endpoints.addresses()
    }

    /// Closes the listeners and removes the files of Unix sockets, except inherited ones.
    pub fn close(self) {
        self.endpoints.remove_files(&self.given);
    }

    /// Starts the workers and waits until all are ready.
    ///
    /// # Errors
    /// The error of creating a thread or its resources.
    pub fn start(self, service: impl Into<DynService>) -> io::Result<RunningServer> {
        self.start_unless_stopped(service, None)
    }

    /// As [`Server::start`], unless a signal of `signals` to stop comes first, which is left to be
    /// read. It ends processes that are not ready; threads are waited for.
    ///
    /// # Errors
    /// As [`Server::start`], or [`crate::StoppedBeforeReady`].
    pub fn start_unless_stopped(
        self,
        service: impl Into<DynService>,
        signals: Option<&SignalSet>,
    ) -> io::Result<RunningServer> {
        let (endpoints, service) = (self.endpoints.clone(), service.into());
        let running = RunningServer::start(&self.settings, endpoints, service, signals);
        if running.is_err() {
            self.close();
        }
        running
    }
}
