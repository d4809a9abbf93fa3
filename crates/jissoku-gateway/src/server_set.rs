//! The servers of one upstream, as all workers share them.

#![expect(
    clippy::disallowed_types,
    reason = "locked when the servers change, which a worker sees by an atomic"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use jissoku_os::clock;
use jissoku_os::socket::Endpoint;
use jissoku_server::{Metrics, UpstreamCounter, UpstreamCounters, UpstreamServer, UpstreamState};
use jissoku_upstream::balance::Balance;
use jissoku_upstream::configuration::HealthCheck;
use jissoku_upstream::fleet::{Fleet, Server, ServerSpec};
use jissoku_upstream::health::{Admission, HealthPolicy};
use jissoku_upstream::queue::QueuePolicy;
use jissoku_upstream::retry::{Budget, BudgetPolicy};

use crate::target::Target;

/// Where requests are forwarded to.
#[derive(Debug)]
pub struct Upstream {
    /// By which it is recognised at a reload.
    name: Box<str>,
    /// Its host and port as written, for requests without Host.
    pub(crate) host: Box<str>,
    pub(crate) options: UpstreamOptions,
    pub(crate) budget: Budget,
    published: RwLock<Arc<ServerSet>>,
    /// Changes with each publication.
    version: AtomicU64,
    /// Set if there are metrics.
    counters: OnceLock<Arc<UpstreamCounters>>,
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
    /// How servers are asked whether they serve, if they are.
    pub health: Option<HealthCheck>,
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

impl ServerSet {
    /// These servers are not checked any more: what checks have said is void.
    pub(crate) fn forget_probes(&self) {
        for server in self.fleet.servers() {
            server.state().set_probe(true, clock::monotonic_ns());
        }
    }
}

impl UpstreamOptions {
    /// Of an upstream without more in the configuration.
    #[must_use]
    pub fn new(idle_ns: u64) -> Self {
        let (balance, ejection) = (Balance::default(), HealthPolicy::default());
        Self { balance, ejection, queue: None, health: None, idle_ns }
    }
}

impl Upstream {
    /// One server without a limit on its requests.
    #[must_use]
    pub fn single(target: Target, idle_ns: u64) -> Self {
        let host = target.host.clone();
        let servers = vec![(target, 1, u32::MAX)];
        Self::new(("", &host), servers, UpstreamOptions::new(idle_ns), None)
    }

    /// Several servers, each with its weight and the number of its requests in flight at most.
    /// `host` is for requests without Host. What is known of servers of `previous`, the upstream of
    /// this name before a reload, is kept.
    #[must_use]
    pub fn new(
        (name, host): (&str, &str),
        servers: Vec<(Target, u32, u32)>,
        options: UpstreamOptions,
        previous: Option<&Self>,
    ) -> Self {
        let (specs, mut endpoints) = parts(servers);
        let known = previous.map(Self::servers);
        for endpoint in &mut endpoints {
            let same = known.iter().flat_map(|set| &set.endpoints).find(|other| *other == endpoint);
            // By the address of the value, connections are recognised.
            *endpoint = same.map_or_else(|| Arc::clone(endpoint), Arc::clone);
        }
        let fleet = match &known {
            Some(set) => set.fleet.inheriting(specs, options.ejection, clock::monotonic_ns()),
            None => Fleet::new(specs, options.ejection),
        };
        Self {
            name: name.into(),
            host: host.into(),
            options,
            budget: Budget::new(BudgetPolicy::default()),
            published: RwLock::new(Arc::new(ServerSet { fleet, endpoints })),
            version: AtomicU64::new(0),
            counters: OnceLock::new(),
        }
    }

    /// Its name for people: that of the configuration, or else its address.
    pub(crate) fn label(&self) -> &str {
        if self.name.is_empty() { &self.host } else { &self.name }
    }

    /// Counts in `metrics` from now on, and shows its servers there.
    pub(crate) fn report_to(self: &Arc<Self>, metrics: &Metrics) {
        let counters = self.counters.get_or_init(|| metrics.upstream(self.label()));
        let this: Arc<dyn UpstreamState> = Arc::<Self>::clone(self);
        counters.show(Arc::downgrade(&this));
    }

    /// Counts something, if there are metrics.
    pub(crate) fn count(&self, counter: UpstreamCounter) {
        if let Some(counters) = self.counters.get() {
            counters.count(counter);
        }
    }

    /// Counts a failure by its error type (RFC 9209 section 2.3), if there are metrics.
    pub(crate) fn count_failure(&self, error_type: &str) {
        if let Some(counters) = self.counters.get() {
            let is_known = counters.count_failure(error_type);
            debug_assert!(is_known, "{error_type}");
        }
    }

    /// By which it is recognised at a reload.
    #[must_use]
    pub const fn name(&self) -> &str {
        &self.name
    }

    /// Lets all workers use these servers from their next request on.
    pub(crate) fn publish(&self, servers: Arc<ServerSet>) {
        *self.published.write().unwrap_or_else(PoisonError::into_inner) = servers;
        self.version.fetch_add(1, Ordering::Release);
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

impl UpstreamState for Upstream {
    fn servers(&self) -> Vec<UpstreamServer> {
        let now_ns = clock::monotonic_ns();
        let servers = Self::servers(self);
        let state_of = |server: &Server| UpstreamServer {
            address: server.endpoint().to_owned(),
            in_flight: server.state().in_flight(),
            is_serving: server.state().admission(now_ns) == Admission::Serving,
        };
        servers.fleet.servers().iter().map(state_of).collect()
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
