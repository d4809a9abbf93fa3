//! The servers of one upstream: an immutable set, with state that all workers share.

use std::ops::Range;
use std::sync::Arc;

use crate::policy::health::{Admission, Ejection, HealthPolicy, Outcome, ServerState};
use crate::policy::random::{self, Random};

/// What the configuration says about one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its address; servers are recognised by it at a reload.
    pub endpoint: String,
    /// Its share of the requests, relative to the others; at least 1.
    pub weight: u32,
    /// Requests in flight at most, of all workers.
    pub in_flight_max: u32,
}

/// The state of a server, which all workers share. Each worker has handles of its own: what requests
/// count is that of their worker's handle, so that no other core writes there.
#[derive(Debug)]
struct StateHandle(Arc<ServerState>);

/// One server of a fleet.
#[derive(Debug, Clone)]
pub struct Server {
    spec: ServerSpec,
    /// Hash of the endpoint: its place in consistent hashing, whatever the order of servers.
    hash: u64,
    state: Arc<StateHandle>,
}

/// The servers of one upstream.
#[derive(Debug, Clone)]
pub struct Fleet {
    servers: Vec<Server>,
    /// Sums of weights up to and including each server.
    cumulative_weights: Vec<u64>,
    has_equal_weights: bool,
    policy: HealthPolicy,
}

impl Fleet {
    /// The first set. Its servers begin with their whole weight.
    pub fn new(specs: Vec<ServerSpec>, policy: HealthPolicy) -> Self {
        Self::with(specs, policy, |_| Arc::default())
    }

    /// The next set, at a reload or when a name has new addresses. A server that was there before
    /// keeps its health and requests in flight; a new one starts slowly.
    #[must_use]
    pub fn inheriting(&self, specs: Vec<ServerSpec>, policy: HealthPolicy, now_ns: u64) -> Self {
        Self::with(specs, policy, |endpoint| {
            let known = self.servers.iter().find(|server| server.spec.endpoint == endpoint);
            known.map_or_else(
                || {
                    let state = ServerState::default();
                    state.begin_slow_start(now_ns);
                    Arc::new(state)
                },
                |server| Arc::clone(&server.state.0),
            )
        })
    }

    /// The same servers, with the same state, for one worker.
    #[must_use]
    pub fn for_worker(&self) -> Self {
        let handle = |server: &Server| {
            let state = Arc::new(StateHandle(Arc::clone(&server.state.0)));
            Server { spec: server.spec.clone(), hash: server.hash, state }
        };
        let cumulative_weights = self.cumulative_weights.clone();
        Self { servers: self.servers.iter().map(handle).collect(), cumulative_weights, ..*self }
    }

    fn with(
        specs: Vec<ServerSpec>,
        policy: HealthPolicy,
        state_of: impl Fn(&str) -> Arc<ServerState>,
    ) -> Self {
        let servers: Vec<Server> = specs
            .into_iter()
            .map(|spec| Server {
                hash: random::hash(spec.endpoint.as_bytes()),
                state: Arc::new(StateHandle(state_of(&spec.endpoint))),
                spec: ServerSpec { weight: spec.weight.max(1), ..spec },
            })
            .collect();
        let mut sum = 0;
        let cumulative_weights = servers
            .iter()
            .map(|server| {
                sum += u64::from(server.spec.weight);
                sum
            })
            .collect();
        let first = servers.first().map_or(1, |server| server.spec.weight);
        let has_equal_weights = servers.iter().all(|server| server.spec.weight == first);
        Self { servers, cumulative_weights, has_equal_weights, policy }
    }

    /// The servers, in the order of the configuration.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The rules of ejection.
    pub const fn policy(&self) -> &HealthPolicy {
        &self.policy
    }

    pub(crate) const fn has_equal_weights(&self) -> bool {
        self.has_equal_weights
    }

    pub(crate) fn total_weight(&self) -> u64 {
        self.cumulative_weights.last().copied().unwrap_or_default()
    }

    /// A random server by the weights, but not `except`; `None` if there is no other.
    pub(crate) fn draw(&self, except: Option<usize>, random: &mut Random) -> Option<usize> {
        let total = self.total_weight();
        let skipped = except.map_or(0..0, |index| self.share(index));
        let size = skipped.end - skipped.start;
        if size == total {
            return None;
        }
        let position = random.below(total - size);
        Some(self.at_weight(if position < skipped.start { position } else { position + size }))
    }

    /// The part of the sum of weights that is a server's.
    fn share(&self, index: usize) -> Range<u64> {
        let end = self.cumulative_weights.get(index).copied().unwrap_or_default();
        let weight = self.servers.get(index).map_or(0, |server| server.spec.weight);
        end - u64::from(weight)..end
    }

    /// The server in whose share of the weights `position` lies.
    fn at_weight(&self, position: u64) -> usize {
        self.cumulative_weights.partition_point(|&sum| sum <= position)
    }

    /// A request's place at a server; `None` if the server is full, or the trial is taken.
    pub(crate) fn acquire(&self, index: usize, as_a: Admission, now_ns: u64) -> Option<Lease> {
        let server = self.servers.get(index)?;
        if !server.state().begin(server.spec.in_flight_max) {
            return None;
        }
        if as_a == Admission::Trial && !server.state().claim_trial(now_ns, &self.policy) {
            server.state().end();
            return None;
        }
        let proves = as_a != Admission::Serving;
        let is_trial = as_a == Admission::Trial;
        Some(Lease { index, state: Arc::clone(&server.state), proves, is_trial })
    }

    /// Gives a place back, with what the request says about the server. The fleet may be a
    /// later set than the one that the place is from. Returns whether the server was ejected, or its
    /// ejection prolonged or ended; or its requests begin or cease to fail while it serves.
    pub fn finish(&self, mut lease: Lease, outcome: Outcome, now_ns: u64) -> bool {
        if outcome != Outcome::Neutral {
            lease.is_trial = false;
        }
        lease.state.0.note(outcome, now_ns, &self.policy, (lease.proves, || self.may_eject()))
    }

    /// Whether all servers serve, with at most 70 % of the requests in flight that they take: a
    /// second copy of a request does not add to an outage.
    pub fn has_spare_capacity(&self, now_ns: u64) -> bool {
        self.servers.iter().all(|server| {
            let in_flight = u64::from(server.state().in_flight());
            server.state().admission(now_ns) == Admission::Serving
                && in_flight * 10 <= u64::from(server.spec.in_flight_max) * 7
        })
    }

    /// Whether one more ejection stays within the permitted share. Two workers that ask at once may
    /// exceed it by one; when none is left, ejected servers are used (`Chooser`).
    fn may_eject(&self) -> bool {
        let is_ejected = |server: &&Server| server.state().passive().ejection != Ejection::Serving;
        let ejected = self.servers.iter().filter(is_ejected).count() + 1;
        let percent = usize::try_from(self.policy.ejected_percent_max).unwrap_or(100);
        ejected * 100 <= self.servers.len() * percent
    }
}

impl Server {
    /// Its address.
    pub fn endpoint(&self) -> &str {
        &self.spec.endpoint
    }

    /// The hash of the endpoint: its place in every hash, whatever the order of servers.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// Its configured weight.
    pub const fn weight(&self) -> u32 {
        self.spec.weight
    }

    /// Whether as many requests are in flight as it takes.
    pub fn is_full(&self) -> bool {
        self.state().in_flight() >= self.spec.in_flight_max
    }

    /// What workers share about it.
    pub fn state(&self) -> &ServerState {
        &self.state.0
    }
}

/// A request's place at a server, counted until it is given back or dropped.
#[derive(Debug)]
pub struct Lease {
    index: usize,
    state: Arc<StateHandle>,
    proves: bool,
    is_trial: bool,
}

impl Lease {
    /// The server's index in the fleet that gave this place.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Notes for [`crate::policy::balance::Balance::Ewma`] how long the server took.
    pub fn record_latency(&self, latency_ns: u64, now_ns: u64) {
        self.state.0.record_latency(latency_ns, now_ns);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_trial {
            self.state.0.release_trial();
        }
        self.state.0.end();
    }
}
