//! The configuration of a server.

use jissoku_http::forwarded::ForwardedFields;
use jissoku_os::driver;
use jissoku_os::socket::Endpoint;

use crate::hang_watch::HangWatch;
use crate::limits::Limits;
use crate::listener_options::{ListenerOptions, SecureListeners};
use crate::request_id::RequestIdName;
use crate::telemetry::TelemetryConfig;
use crate::tls::Tls;
use crate::trusted_proxies::TrustedProxies;
use crate::worker_message::ParentPipe;

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses to listen on; port 0 selects a free port.
    pub endpoints: Vec<Endpoint>,
    /// The protocol of the peers of each endpoint, in the order of the endpoints; the default for
    /// those without.
    pub listener_options: Vec<ListenerOptions>,
    /// Peers that may identify the client of a request; `None` if the user has named none.
    pub trusted_proxies: Option<TrustedProxies>,
    /// The fields that trusted proxies set.
    pub forwarded_fields: ForwardedFields,
    /// Mode of Unix sockets (`chmod(2)`); `None` for that of the umask.
    pub socket_mode: Option<u32>,
    /// How workers share the listeners of an endpoint.
    pub listener_sharing: ListenerSharing,
    /// Number of worker threads; at least one.
    pub workers: usize,
    /// Cores to pin the workers to, round-robin; empty for no pinning.
    pub cores: Vec<usize>,
    /// Timeouts and limits.
    pub limits: Limits,
    /// Settings of the drivers. The number of connections is set by [`Limits::connections_max`].
    pub driver: driver::Settings,
    /// The field for the id of each request, if it gets one.
    pub request_id: Option<RequestIdName>,
    /// Metrics and the access log.
    pub telemetry: TelemetryConfig,
    /// TLS for TCP listeners whose options do not exclude it; Unix sockets never use it.
    pub tls: Option<Tls>,
    /// Whether and when a worker counts as hung.
    pub hang_watch: Option<HangWatch>,
    /// The number of responses after which a worker asks its parent process to be replaced.
    pub replace_after: Option<u64>,
    /// Whether worker processes pass idle connections on to those that replace them; with epoll.
    pub moves_connections: bool,
    /// The parent process, if the workers are those of a worker process.
    pub parent: Option<ParentPipe>,
}

/// How workers share the listeners of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListenerSharing {
    /// Each worker has a socket of its own (`SO_REUSEPORT`). Where there can be only one, as for a
    /// Unix socket, it is shared and one worker is woken for a connection (`EPOLLEXCLUSIVE`).
    #[default]
    PerWorker,
    /// One socket, which other processes may share, and one worker is woken for a connection
    /// (`EPOLLEXCLUSIVE`). A worker that is busy delays no connection.
    Exclusive,
    /// One socket, and all workers are woken for a connection. With io_uring, one is.
    WakeAll,
}

impl Settings {
    /// One worker on `endpoint`, with default limits.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoints: vec![endpoint],
            listener_options: Vec::new(),
            trusted_proxies: None,
            forwarded_fields: ForwardedFields::default(),
            socket_mode: None,
            listener_sharing: ListenerSharing::PerWorker,
            workers: 1,
            cores: Vec::new(),
            limits: Limits::DEFAULT,
            driver: driver::Settings::default(),
            request_id: None,
            telemetry: TelemetryConfig::default(),
            tls: None,
            hang_watch: None,
            replace_after: None,
            moves_connections: false,
            parent: None,
        }
    }

    /// Which listeners use TLS.
    pub fn secure_listeners(&self) -> SecureListeners {
        let uses_tls = |(index, endpoint): (usize, &Endpoint)| {
            let options = self.listener_options.get(index).copied().unwrap_or_default();
            self.tls.is_some() && options.use_tls(endpoint)
        };
        self.endpoints.iter().enumerate().map(uses_tls).collect()
    }

    /// The number of sockets per endpoint, where there can be several.
    pub(crate) const fn sockets(&self) -> usize {
        match self.listener_sharing {
            ListenerSharing::PerWorker => self.workers,
            ListenerSharing::Exclusive | ListenerSharing::WakeAll => 1,
        }
    }
}
