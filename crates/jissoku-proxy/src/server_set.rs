//! The servers of one upstream, as all workers share them.

#![expect(
    clippy::disallowed_types,
    reason = "locked when the servers change, which a worker sees by an atomic, and for reports"
)]

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use jissoku_http::Head;
use jissoku_os::clock;
use jissoku_os::socket::Endpoint;
use jissoku_server::{
    CertificateFault, Metrics, TlsClient, TlsName, TlsOpening, UpstreamCounter, UpstreamCounters,
    UpstreamServer, UpstreamState,
};

use crate::policy::balance::Balance;
use crate::policy::configuration::{HashKey, Protocol, UpstreamPolicy};
use crate::policy::fleet::{Fleet, Server, ServerSpec};
use crate::policy::health::{Admission, HealthPolicy};
use crate::policy::random;
use crate::policy::retry::{Budget, BudgetPolicy};
use crate::target::Resolution;
use crate::target::Target;
use crate::use_report::UseReports;

/// Time between two reports of the same certificate.
const REPORT_NS: u64 = 60_000_000_000;

/// Where requests are forwarded to. Handlers read its fields; what changes has methods.
#[derive(Debug)]
pub struct UpstreamGroup {
    /// By which it is recognised at a reload.
    name: Box<str>,
    /// The Host of requests, if that is not the one of the client.
    pub(crate) host: Box<str>,
    pub(crate) options: UpstreamOptions,
    pub(crate) budget: Budget,
    /// The servers of the configuration.
    entries: Vec<ServerEntry>,
    published: RwLock<Published>,
    /// Changes with each publication.
    version: AtomicU64,
    /// Whether the servers of another upstream are used.
    is_replaced: AtomicBool,
    /// Set if there are metrics.
    counters: OnceLock<Arc<UpstreamCounters>>,
    /// Which certificates were reported less than a minute ago, and when.
    reported: RwLock<Vec<(Endpoint, CertificateFault, u64)>>,
    use_reports: UseReports,
}

/// How the servers of an upstream are used.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// How they are chosen, asked and queued for.
    pub policy: UpstreamPolicy,
    /// How long an unused connection is kept, in nanoseconds.
    pub idle_ns: u64,
    /// When and how names of servers are resolved again.
    pub resolution: Resolution,
    /// Which certificates are accepted, if they speak TLS.
    pub tls: Option<TlsClient>,
    /// The name of their certificates, instead of that of each.
    pub tls_name: Option<TlsName>,
}

/// A server of the configuration.
#[derive(Clone, Debug)]
pub struct ServerEntry {
    /// Its address; or its name, each address of which is a server.
    pub target: Target,
    /// The share of each in the requests, relative to the others.
    pub weight: u32,
    /// Requests in flight at each at most.
    pub in_flight_max: u32,
}

/// The servers that workers use.
#[derive(Debug)]
struct Published {
    set: Arc<ServerSet>,
    /// Upstreams before a reload, whose last workers use these servers, too.
    followers: Vec<Weak<UpstreamGroup>>,
}

/// Servers, and their state. Its fields are read, and do not change: another set replaces it.
#[derive(Debug)]
pub(crate) struct ServerSet {
    pub(crate) fleet: Fleet,
    /// In the order of the fleet.
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    /// The names of their certificates, in the same order.
    pub(crate) tls_names: Vec<Option<TlsName>>,
}

impl ServerSet {
    /// Servers at the addresses of these entries. What is known of those that are in `known` is kept.
    fn new(entries: &[ServerEntry], ejection: HealthPolicy, known: Option<&Self>) -> Self {
        let (specs, mut endpoints, tls_names) = parts(entries);
        for endpoint in &mut endpoints {
            let same = known.iter().flat_map(|set| &set.endpoints).find(|other| *other == endpoint);
            // By the address of the value, connections are recognised.
            *endpoint = same.map_or_else(|| Arc::clone(endpoint), Arc::clone);
        }
        let fleet = match known {
            Some(set) => set.fleet.inheriting(specs, ejection, clock::monotonic_ns()),
            None => Fleet::new(specs, ejection),
        };
        Self { fleet, endpoints, tls_names }
    }
}

impl UpstreamOptions {
    /// Key for hash balancing; 0 otherwise.
    pub(crate) fn hash_of(&self, (head, bytes): (&Head, &[u8]), client: Option<SocketAddr>) -> u64 {
        if self.policy.balance != Balance::Hash {
            return 0;
        }
        let field = match &self.policy.hash_key {
            HashKey::Target => return random::hash(head.path_and_query(bytes)),
            HashKey::Address => None,
            HashKey::Field(wanted) => head
                .fields(bytes)
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()))
                .map(|(_, value)| random::hash(value)),
        };
        field.unwrap_or_else(|| match client.map(|address| address.ip().to_canonical()) {
            Some(IpAddr::V4(address)) => random::hash(&address.octets()),
            Some(IpAddr::V6(address)) => random::hash(&address.octets()),
            // All clients of a Unix socket.
            None => 0,
        })
    }

    /// TLS with a server whose certificate is to have this name, unless all have another.
    pub(crate) fn tls_with(&self, name: Option<&TlsName>) -> Option<TlsOpening> {
        let client = self.tls.clone()?;
        let name = self.tls_name.as_ref().or(name).cloned();
        // A server that is not known any more has no certificate that fits.
        Some(TlsOpening { client, name: name.unwrap_or_else(TlsName::unknown) })
    }

    /// Whether a response with this status is a failure of its server: if it says that a server is
    /// not there, or asks to retry, and the statuses that pass the checks are given without it.
    pub(crate) fn is_failure(&self, status: u16) -> bool {
        let given = self.policy.health.as_ref().and_then(|check| check.statuses);
        let is_outage =
            (502..=504).contains(&status) || self.policy.retry_statuses.contains(status);
        is_outage && given.is_some_and(|statuses| !statuses.contains(status))
    }

    /// The options of an upstream for which nothing else is configured.
    pub fn new(idle_ns: u64) -> Self {
        let (policy, resolution) = (UpstreamPolicy::default(), Resolution::DEFAULT);
        Self { policy, idle_ns, resolution, tls: None, tls_name: None }
    }
}

impl UpstreamGroup {
    /// Servers of equal weight without a limit on their requests. The first one is for requests
    /// without Host, and says what all of them speak.
    pub fn unnamed(targets: Vec<Target>, mut options: UpstreamOptions) -> Self {
        let host = targets.first().map(|target| target.host.clone()).unwrap_or_default();
        options.policy.protocol = targets.first().map_or(Protocol::Http, |it| it.protocol);
        let entry = |target| ServerEntry { target, weight: 1, in_flight_max: u32::MAX };
        Self::new(("", &host), targets.into_iter().map(entry).collect(), options, None)
    }

    /// Several servers. `host` is for requests that do not have the Host of their client. What is known of servers of `previous`,
    /// the upstream of this name before a reload, is kept.
    pub fn new(
        (name, host): (&str, &str),
        servers: Vec<ServerEntry>,
        options: UpstreamOptions,
        previous: Option<&Self>,
    ) -> Self {
        let known = previous.map(Self::servers);
        let set = Arc::new(ServerSet::new(&servers, options.policy.ejection, known.as_deref()));
        Self {
            name: name.into(),
            host: host.into(),
            options,
            budget: Budget::new(BudgetPolicy::default()),
            entries: servers,
            published: RwLock::new(Published { set, followers: Vec::new() }),
            version: AtomicU64::new(0),
            is_replaced: AtomicBool::new(false),
            counters: OnceLock::new(),
            reported: RwLock::default(),
            use_reports: UseReports::default(),
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

    /// Counts something of the worker of this number, if there are metrics.
    pub(crate) fn count(&self, counter: UpstreamCounter, worker: usize) {
        if let Some(counters) = self.counters.get() {
            counters.count(counter, worker);
        }
    }

    /// Counts a failure by its error type (RFC 9209 section 2.3), if there are metrics.
    pub(crate) fn count_failure(&self, error_type: &str) {
        if let Some(counters) = self.counters.get() {
            let is_known = counters.count_failure(error_type);
            debug_assert!(is_known, "{error_type}");
        }
    }

    /// Reports that the certificate of a server is not accepted, for each reason once a minute.
    pub(crate) fn report_certificate(
        &self,
        (endpoint, name): (&Endpoint, Option<&TlsName>),
        fault: CertificateFault,
        now_ns: u64,
    ) {
        let mut reported = self.reported.write().unwrap_or_else(PoisonError::into_inner);
        reported.retain(|(_, _, then_ns)| now_ns.saturating_sub(*then_ns) < REPORT_NS);
        if reported.iter().any(|(server, same, _)| server == endpoint && *same == fault) {
            return;
        }
        reported.push((endpoint.clone(), fault, now_ns));
        drop(reported);
        let name = self.options.tls_name.as_ref().or(name);
        let host = name.map(|name| format!(" for {name}")).unwrap_or_default();
        let sentence =
            format!("upstream {:?}: certificate of {endpoint}{host}: {fault}", self.label());
        (self.options.resolution.report)(&sentence);
    }

    /// Reports how a server is used from now on, and `why` if not as usual, unless that is known or
    /// there were too many changes.
    pub(crate) fn report_use(&self, server: &Server, now_ns: u64, why: impl FnOnce() -> String) {
        if let Some(sentence) = self.use_reports.sentence(server, now_ns, why) {
            let label = self.label();
            (self.options.resolution.report)(&format!("upstream {label:?}: {sentence}"));
        }
    }

    /// The servers are not checked any more: what checks have said is void.
    pub(crate) fn forget_probes(&self) {
        for server in Self::servers(self).fleet.servers() {
            let now_ns = clock::monotonic_ns();
            server.state().set_probe(true, now_ns);
            self.report_use(server, now_ns, String::new);
        }
    }

    /// By which it is recognised at a reload.
    pub const fn name(&self) -> &str {
        &self.name
    }

    /// The servers of the configuration, as they were resolved first.
    pub(crate) fn entries(&self) -> &[ServerEntry] {
        &self.entries
    }

    /// Lets all workers use servers at these addresses from their next request on. What is known of
    /// those that stay is kept. Without effect, and `false`, if another upstream has replaced this
    /// one.
    pub(crate) fn publish_entries(&self, entries: &[ServerEntry]) -> bool {
        let mut published = self.published.write().unwrap_or_else(PoisonError::into_inner);
        if self.is_replaced() {
            return false;
        }
        let set = ServerSet::new(entries, self.options.policy.ejection, Some(&published.set));
        self.publish(&mut published, Arc::new(set));
        true
    }

    /// Lets the workers of `old`, an upstream before a reload, use the servers of this one, now and
    /// when they change.
    pub(crate) fn replace(&self, old: &Arc<Self>) {
        let mut published = self.published.write().unwrap_or_else(PoisonError::into_inner);
        published.followers.retain(|follower| follower.strong_count() > 0);
        published.followers.push(Arc::downgrade(old));
        old.follow(&published.set);
    }

    fn follow(&self, set: &Arc<ServerSet>) {
        let mut published = self.published.write().unwrap_or_else(PoisonError::into_inner);
        self.is_replaced.store(true, Ordering::Release);
        self.publish(&mut published, Arc::clone(set));
    }

    /// Locks are taken from the newest upstream to the oldest.
    fn publish(&self, published: &mut Published, set: Arc<ServerSet>) {
        for follower in published.followers.iter().filter_map(Weak::upgrade) {
            follower.follow(&set);
        }
        published.set = set;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Whether another upstream has replaced this one at a reload.
    pub(crate) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }

    pub(crate) fn servers(&self) -> Arc<ServerSet> {
        Arc::clone(&self.published.read().unwrap_or_else(PoisonError::into_inner).set)
    }

    /// Changes when [`UpstreamGroup::servers`] does.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

impl UpstreamState for UpstreamGroup {
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
fn parts(entries: &[ServerEntry]) -> (Vec<ServerSpec>, Vec<Arc<Endpoint>>, Vec<Option<TlsName>>) {
    let (mut specs, mut endpoints) = (Vec::<ServerSpec>::new(), Vec::new());
    let mut tls_names = Vec::new();
    for ServerEntry { target, weight, in_flight_max } in entries {
        for endpoint in &target.endpoints {
            let (address, weight, in_flight_max) = (endpoint.to_string(), *weight, *in_flight_max);
            if specs.iter().all(|spec| spec.endpoint != address) {
                specs.push(ServerSpec { endpoint: address, weight, in_flight_max });
                endpoints.push(Arc::clone(endpoint));
                tls_names.push(target.tls_name.clone());
            }
        }
    }
    (specs, endpoints, tls_names)
}
