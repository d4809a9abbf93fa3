//! The server: listeners, worker pools, reload and shutdown.
//!
//! `endpoints` owns the sockets, `worker_pool` the threads that accept on them, `restart_budget`
//! replaces failed workers, `running` coordinates reload and shutdown, and `signals` defines
//! signals and events.

mod endpoints;
mod listener_layout;
mod restart_budget;
mod running;
mod signals;
mod worker_pool;

use std::io;

use jissoku_os::driver;
use jissoku_os::inherited::Inherited;
use jissoku_os::socket::Endpoint;

pub use endpoints::ListenError;
pub use running::{ReloadError, RunningServer};
pub use signals::{ServerEvent, SignalSet};

use crate::fault_injector::InjectedFault;
use crate::handler::Content;
use crate::limits::Limits;
use crate::telemetry::TelemetryConfig;
use crate::tls::Tls;
use endpoints::Endpoints;
use listener_layout::ListenerLayout;

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses to listen on; port 0 selects a free port.
    pub endpoints: Vec<Endpoint>,
    /// Mode of Unix sockets (`chmod(2)`); `None` for that of the umask.
    pub socket_mode: Option<u32>,
    /// Number of worker threads; at least one.
    pub workers: usize,
    /// Cores to pin the workers to, round-robin; empty for no pinning.
    pub cores: Vec<usize>,
    /// Timeouts and limits.
    pub limits: Limits,
    /// Settings of the drivers. The number of connections is set by [`Limits::connections_max`].
    pub driver: driver::Settings,
    /// Injected faults.
    pub injected_faults: Vec<InjectedFault>,
    /// Metrics and the access log.
    pub telemetry: TelemetryConfig,
    /// TLS for TCP listeners; Unix sockets never use it.
    pub tls: Option<Tls>,
}

impl Settings {
    /// One worker on `endpoint`, with default limits.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoints: vec![endpoint],
            socket_mode: None,
            workers: 1,
            cores: Vec::new(),
            limits: Limits::DEFAULT,
            driver: driver::Settings::default(),
            telemetry: TelemetryConfig::default(),
            tls: None,
            injected_faults: Vec::new(),
        }
    }

    /// How listeners are assigned to workers.
    fn listener_layout(&self) -> ListenerLayout {
        let has = |cause| self.injected_faults.contains(&cause);
        match self.workers {
            workers if has(InjectedFault::SingleWorker) => ListenerLayout::FirstOnly(workers),
            workers if has(InjectedFault::Herd) => ListenerLayout::WakeAll(workers),
            workers => ListenerLayout::PerWorker(workers),
        }
    }
}

/// Listeners inherited from another process.
#[derive(Debug, Default)]
pub struct Sockets(Endpoints);

impl Sockets {
    /// Takes them over.
    ///
    /// # Errors
    /// The name of the first that is no listener.
    pub fn from_inherited(inherited: Vec<Inherited>) -> io::Result<Self> {
        Ok(Self(Endpoints::from_inherited(inherited)?))
    }

    /// Their addresses.
    #[must_use]
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
    /// The inherited ones, which another process may still use.
    given: Endpoints,
}

impl Server {
    /// Binds all listeners.
    ///
    /// # Errors
    /// The first endpoint that cannot be bound, and why.
    pub fn listen(settings: Settings) -> Result<Self, ListenError> {
        Self::listen_on(settings, &Sockets::default())
    }

    /// As [`Server::listen`], with inherited sockets. A socket named after an endpoint is used for
    /// it even if its address differs: port 0 was resolved to a port.
    ///
    /// # Errors
    /// The first endpoint that cannot be bound, or the first inherited socket that no endpoint
    /// names, and why.
    pub fn listen_on(settings: Settings, sockets: &Sockets) -> Result<Self, ListenError> {
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
    #[must_use]
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
    pub fn start(self, site: Content) -> io::Result<RunningServer> {
        let running = RunningServer::start(&self.settings, self.endpoints.clone(), site);
        if running.is_err() {
            self.close();
        }
        running
    }
}
