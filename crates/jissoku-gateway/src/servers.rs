//! The servers of one upstream, as one worker uses them.

use std::borrow::Cow;
use std::sync::Arc;

use jissoku_os::socket::Endpoint;
use jissoku_upstream::balance::{Chooser, NoServer, Selection};
use jissoku_upstream::fleet::Lease;
use jissoku_upstream::health::{Admission, Outcome};
use jissoku_upstream::queue::{QueuePolicy, WaitQueue};

use crate::place::Place;
use crate::pool::Pool;
use crate::server_set::{ServerSet, Upstream};
use crate::slab::Key;

/// No request waits in this queue.
const NO_QUEUE: QueuePolicy = QueuePolicy { size_max: 0, time_ns: 0 };

/// The servers of one upstream, connections to them, and requests that wait for them.
#[derive(Debug)]
pub(crate) struct Servers {
    set: Arc<ServerSet>,
    version: u64,
    chooser: Chooser,
    pub(crate) pool: Pool,
    pub(crate) queue: WaitQueue<Key>,
}

impl Servers {
    /// Each worker has its own `seed`.
    pub(crate) fn new(upstream: &Upstream, seed: u64) -> Self {
        let version = upstream.version();
        Self {
            set: upstream.servers(),
            version,
            chooser: Chooser::new(upstream.options.balance, seed),
            pool: Pool::new(upstream.options.idle_min),
            queue: WaitQueue::new(upstream.options.queue.unwrap_or(NO_QUEUE)),
        }
    }

    /// Uses the present servers from now on. Returns unused connections to others.
    pub(crate) fn renew(&mut self, upstream: &Upstream) -> Vec<Key> {
        let version = upstream.version();
        if version == self.version {
            return Vec::new();
        }
        self.version = version;
        self.set = upstream.servers();
        let endpoints = &self.set.endpoints;
        self.pool.retain(|endpoint| endpoints.iter().any(|other| Arc::ptr_eq(other, endpoint)))
    }

    /// Chooses a server for a request, and counts the request there.
    pub(crate) fn choose(&mut self, place: &mut Place, now_ns: u64) -> Result<(), NoServer> {
        if place.version != self.version {
            place.version = self.version;
            place.tried.clear();
        }
        let selection = Selection { hash: place.hash, tried: &place.tried, now_ns };
        let lease = self.chooser.choose(&self.set.fleet, selection)?;
        place.endpoint = Some(Arc::clone(&self.set.endpoints[lease.index()]));
        place.lease = Some(lease);
        Ok(())
    }

    /// The addresses of the servers that serve.
    pub(crate) fn serving(&self, now_ns: u64) -> impl Iterator<Item = &Arc<Endpoint>> {
        let all = self.set.fleet.servers().iter().zip(&self.set.endpoints);
        all.filter(move |(server, _)| server.state().admission(now_ns) == Admission::Serving)
            .map(|(_, endpoint)| endpoint)
    }

    /// Whether a second copy of a request does not add to an outage.
    pub(crate) fn has_spare_capacity(&self, now_ns: u64) -> bool {
        self.set.fleet.has_spare_capacity(now_ns)
    }

    /// Whether another server than those that a request was sent to serves, and is not full.
    pub(crate) fn has_other(&self, place: &Place, now_ns: u64) -> bool {
        // Indices refer to the servers of the last choice.
        let tried: &[usize] = if place.version == self.version { &place.tried } else { &[] };
        let present = place.endpoint.as_ref();
        let servers = self.set.fleet.servers().iter().zip(&self.set.endpoints);
        servers.enumerate().any(|(index, (server, endpoint))| {
            let is_present = present.is_some_and(|present| Arc::ptr_eq(present, endpoint));
            let is_other = !is_present && !tried.contains(&index);
            let is_serving = server.state().admission(now_ns) == Admission::Serving;
            is_other && is_serving && !server.is_full()
        })
    }

    /// Gives a request's place at its server back.
    pub(crate) fn release(&self, lease: Lease, outcome: Outcome, now_ns: u64) {
        self.set.fleet.finish(lease, outcome, now_ns);
    }

    /// Whether an address is one of the present servers.
    pub(crate) fn has(&self, endpoint: &Arc<Endpoint>) -> bool {
        self.set.endpoints.iter().any(|other| Arc::ptr_eq(other, endpoint))
    }

    /// An address as text, for the access log.
    pub(crate) fn address(&self, endpoint: &Arc<Endpoint>) -> Cow<'_, str> {
        let place = self.set.endpoints.iter().position(|other| Arc::ptr_eq(other, endpoint));
        match place {
            Some(place) => self.set.fleet.servers()[place].endpoint().into(),
            // It is not one of the present servers.
            None => endpoint.to_string().into(),
        }
    }
}
