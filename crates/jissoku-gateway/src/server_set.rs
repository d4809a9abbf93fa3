//! The servers of one upstream, as all workers share them.

#![expect(
    clippy::disallowed_types,
    reason = "locked when the servers change, which a worker sees by an atomic"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use jissoku_os::socket::Endpoint;
use jissoku_upstream::balance::Balance;
use jissoku_upstream::fleet::{Fleet, ServerSpec};
use jissoku_upstream::health::HealthPolicy;
use jissoku_upstream::queue::QueuePolicy;
use jissoku_upstream::retry::{Budget, BudgetPolicy};

use crate::target::Target;

/// Where requests are forwarded to.
#[derive(Debug)]
pub struct Upstream {
    /// Its host and port as written, for requests without Host.
    pub(crate) host: Box<str>,
    pub(crate) options: UpstreamOptions,
    pub(crate) budget: Budget,
    published: RwLock<Arc<ServerSet>>,
    /// Changes with each publication.
    version: AtomicU64,
}

/// How the servers of an upstream are used.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// How one is chosen.
    pub balance: Balance,
    /// When one is ejected.
    pub ejection: HealthPolicy,
    /// Where requests wait when all servers are full; `None`: they get 503.
    pub queue: Option<QueuePolicy>,
    /// How long an unused connection is kept, in nanoseconds.
    pub idle_ns: u64,
}

/// Servers, and their state. It does not change; another set replaces it.
#[derive(Debug)]
pub(crate) struct ServerSet {
    pub(crate) fleet: Fleet,
    /// In the order of the fleet.
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
}

impl UpstreamOptions {
    /// Of an upstream without more in the configuration.
    #[must_use]
    pub fn new(idle_ns: u64) -> Self {
        let (balance, ejection) = (Balance::default(), HealthPolicy::default());
        Self { balance, ejection, queue: None, idle_ns }
    }
}

impl Upstream {
    /// One server without a limit on its requests.
    #[must_use]
    pub fn single(target: Target, idle_ns: u64) -> Self {
        let host = target.host.clone();
        Self::new(&host, vec![(target, 1, u32::MAX)], UpstreamOptions::new(idle_ns))
    }

    /// Several servers, each with its weight and the number of its requests in flight at most.
    #[must_use]
    pub fn new(host: &str, servers: Vec<(Target, u32, u32)>, options: UpstreamOptions) -> Self {
        let (specs, endpoints) = parts(servers);
        let fleet = Fleet::new(specs, options.ejection);
        Self {
            host: host.into(),
            options,
            budget: Budget::new(BudgetPolicy::default()),
            published: RwLock::new(Arc::new(ServerSet { fleet, endpoints })),
            version: AtomicU64::new(0),
        }
    }

    /// The present servers.
    pub(crate) fn servers(&self) -> Arc<ServerSet> {
        Arc::clone(&self.published.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes when [`Upstream::servers`] does.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

/// What the fleet knows of servers, and their addresses; an address that is there twice once.
fn parts(servers: Vec<(Target, u32, u32)>) -> (Vec<ServerSpec>, Vec<Arc<Endpoint>>) {
    let (mut specs, mut endpoints) = (Vec::<ServerSpec>::new(), Vec::new());
    for (target, weight, in_flight_max) in servers {
        let endpoint = target.endpoint.to_string();
        if specs.iter().all(|spec| spec.endpoint != endpoint) {
            specs.push(ServerSpec { endpoint, weight, in_flight_max });
            endpoints.push(target.endpoint);
        }
    }
    (specs, endpoints)
}
