//! The servers of one upstream, as one worker uses them.

use std::borrow::Cow;
use std::sync::Arc;

use jissoku_os::socket::Endpoint;
use jissoku_server::TlsName;

use crate::Key;
use crate::exchange::Exchange;
use crate::policy::balance::{Chooser, NoServer};
use crate::policy::fleet::{Fleet, Lease, Server};
use crate::policy::health::{Admission, Outcome};
use crate::policy::queue::{QueuePolicy, WaitQueue};
use crate::server_set::UpstreamGroup;

/// No request waits in this queue.
const NO_QUEUE: QueuePolicy = QueuePolicy { size_max: 0, time_ns: 0 };

/// The servers of one upstream, connections to them, and requests that wait for them.
#[derive(Debug)]
pub(crate) struct WorkerUpstream {
    fleet: Fleet,
    /// In the order of the fleet. Other workers do not use these values, nor count their uses.
    endpoints: Vec<Arc<Endpoint>>,
    /// In the same order.
    tls_names: Vec<Option<TlsName>>,
    version: u64,
    chooser: Chooser,
    queue: WaitQueue<Key>,
}

impl WorkerUpstream {
    /// Each worker has its own `seed`.
    pub(crate) fn new(upstream: &UpstreamGroup, seed: u64) -> Self {
        let version = upstream.version();
        let set = upstream.servers();
        Self {
            fleet: set.fleet.for_worker(),
            endpoints: own_endpoints(&set.endpoints, &[]),
            tls_names: set.tls_names.clone(),
            version,
            chooser: Chooser::new(upstream.options.policy.balance, seed),
            queue: WaitQueue::new(upstream.options.policy.queue.unwrap_or(NO_QUEUE)),
        }
    }

    /// Uses the present servers from now on. Returns whether these are others than before.
    pub(crate) fn renew(&mut self, upstream: &UpstreamGroup) -> bool {
        let version = upstream.version();
        let has_changed = version != self.version;
        if has_changed {
            self.version = version;
            let set = upstream.servers();
            self.fleet = set.fleet.for_worker();
            self.endpoints = own_endpoints(&set.endpoints, &self.endpoints);
            self.tls_names.clone_from(&set.tls_names);
        }
        has_changed
    }

    /// Chooses a server for a request, and counts the request there.
    pub(crate) fn choose(
        &mut self,
        exchange: &mut Exchange,
        now_ns: u64,
    ) -> Result<Lease, NoServer> {
        let selection = exchange.selection(self.version, now_ns);
        let lease = self.chooser.choose(&self.fleet, selection)?;
        let endpoint = Arc::clone(&self.endpoints[lease.index()]);
        exchange.set_server(lease.index(), endpoint);
        Ok(lease)
    }

    /// Adds an exchange to the queue. Returns whether there was room.
    pub(crate) fn enqueue(&mut self, exchange: Key, now_ns: u64) -> bool {
        self.queue.push(exchange, now_ns).is_ok()
    }

    /// Whether an exchange waits for its turn.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The exchange that is served next. The caller removes those that waited too long first.
    pub(crate) fn next_waiting(&self) -> Option<Key> {
        self.queue.first().copied()
    }

    /// Removes an exchange that waited too long.
    pub(crate) fn take_expired(&mut self, now_ns: u64) -> Option<Key> {
        self.queue.expired(now_ns)
    }

    /// An exchange does not wait any more.
    pub(crate) fn dequeue(&mut self, exchange: Key) {
        self.queue.remove(&exchange);
    }

    /// The addresses of the servers that serve.
    pub(crate) fn serving(&self, now_ns: u64) -> impl Iterator<Item = &Arc<Endpoint>> {
        let all = self.fleet.servers().iter().zip(&self.endpoints);
        all.filter(move |(server, _)| server.state().admission(now_ns) == Admission::Serving)
            .map(|(_, endpoint)| endpoint)
    }

    /// Whether a second copy of a request does not add to an outage.
    pub(crate) fn has_spare_capacity(&self, now_ns: u64) -> bool {
        self.fleet.has_spare_capacity(now_ns)
    }

    /// Whether another server than those that a request was sent to serves, and is not full.
    pub(crate) fn has_other(&self, exchange: &Exchange, now_ns: u64) -> bool {
        let present = exchange.endpoint();
        let servers = self.fleet.servers().iter().zip(&self.endpoints);
        servers.enumerate().any(|(index, (server, endpoint))| {
            let is_present = present.is_some_and(|present| Arc::ptr_eq(present, endpoint));
            let is_other = !is_present && !exchange.has_tried(index, self.version);
            let is_serving = server.state().admission(now_ns) == Admission::Serving;
            is_other && is_serving && !server.is_full()
        })
    }

    /// Gives a request's place at its server back. Returns the server if there may be something
    /// to report about how it is used.
    pub(crate) fn release(&self, lease: Lease, outcome: Outcome, now_ns: u64) -> Option<&Server> {
        let index = lease.index();
        let has_changed = self.fleet.finish(lease, outcome, now_ns);
        has_changed.then(|| self.fleet.servers().get(index)).flatten()
    }

    /// Whether an address is one of the present servers.
    pub(crate) fn has(&self, endpoint: &Arc<Endpoint>) -> bool {
        self.endpoints.iter().any(|other| Arc::ptr_eq(other, endpoint))
    }

    /// The name that the certificate of a server is to have, if it has TLS.
    pub(crate) fn tls_name(&self, endpoint: &Arc<Endpoint>) -> Option<&TlsName> {
        let place = self.endpoints.iter().position(|other| Arc::ptr_eq(other, endpoint))?;
        self.tls_names.get(place)?.as_ref()
    }

    /// An address as text, for the access log.
    pub(crate) fn address(&self, endpoint: &Arc<Endpoint>) -> Cow<'_, str> {
        let place = self.endpoints.iter().position(|other| Arc::ptr_eq(other, endpoint));
        match place {
            Some(place) => self.fleet.servers()[place].endpoint().into(),
            // It is not one of the present servers.
            None => endpoint.to_string().into(),
        }
    }
}

/// Values of a worker's own for these addresses. One that is in `known` is the same value again: by that,
/// connections are recognised.
fn own_endpoints(endpoints: &[Arc<Endpoint>], known: &[Arc<Endpoint>]) -> Vec<Arc<Endpoint>> {
    let own = |endpoint: &Arc<Endpoint>| {
        let same = known.iter().find(|other| *other == endpoint);
        same.map_or_else(|| Arc::new(Endpoint::clone(endpoint)), Arc::clone)
    };
    endpoints.iter().map(own).collect()
}
