//! Connections of a worker to upstream servers.
//!
//! Each is an owner: of its phase, and with it of its one timer, of its entry in the pool, and of its
//! place at a server. [`UpstreamConnections`] alone changes a phase, and ends there what the phase
//! before had: no timer of an unused connection can end a request, and no place at a server outlives
//! the use of its connection.

mod response;

use std::sync::Arc;

use jissoku_http::response_reader::{ResponseHead, ResponseReader};
use jissoku_os::driver::ConnectionId;
use jissoku_os::socket::Endpoint;
use jissoku_server::Timers;

use crate::failure::Fault;
use crate::policy::fleet::Lease;
use crate::pool::{Pool, Use};
use crate::{Key, Slab};

/// A connection to an upstream server.
#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    /// None until the driver has started to open it.
    id: Option<ConnectionId>,
    phase: Phase,
    /// Counts the request that it serves at its server.
    lease: Option<Lease>,
    /// The index of its upstream, and of the pool that it belongs to.
    upstream: usize,
    endpoint: Arc<Endpoint>,
    /// How long it is tried to open it.
    open_until_ns: u64,
    /// When it became idle, if it ever was.
    idle_since_ns: Option<u64>,
    /// For how long it was idle before the present request, if it was.
    idle_age_ns: Option<u64>,
    reader: ResponseReader,
    /// The start of a head.
    input: Vec<u8>,
    /// The head at the start of `input`, if it is not decided whether the response is passed on.
    undecided: Option<ResponseHead>,
    /// Trailer lines of the response.
    trailers: Vec<u8>,
    /// Whether the server keeps the connection after this response.
    is_kept: bool,
    /// For how long at most, if it says so.
    kept_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is being opened for an exchange.
    Connecting(Key),
    /// It could not be opened for an exchange, and is soon tried again.
    Reopening(Key),
    /// It is being opened for the pool.
    Preconnect,
    /// It serves an exchange, whose request was handed to the driver or not.
    Busy(Key, Sending),
    /// The response of an exchange is complete, whose request is still being sent.
    Finishing(Key),
    /// It is in the pool.
    Idle,
    /// It closes after flushing.
    Ending,
    /// The driver closes it.
    Closing,
}

/// Whether a request was handed to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// No byte of it was: it can be sent on another connection, whatever its method.
    Pending,
    Done,
}

/// What the bytes of a server have led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The response continues.
    Partial,
    /// It is complete. Whether the connection can be used again, and whether bytes followed.
    Complete {
        is_reusable: bool,
        has_excess: bool,
    },
    /// Its head has this status, for which the request may be sent to another server: it is to be
    /// passed on or discarded. Whether the request has gone out as a whole.
    Undecided {
        status: u16,
        is_sent: bool,
    },
    Failed(Fault),
}

impl Phase {
    const fn exchange(self) -> Option<Key> {
        match self {
            Self::Connecting(exchange)
            | Self::Reopening(exchange)
            | Self::Busy(exchange, _)
            | Self::Finishing(exchange) => Some(exchange),
            Self::Preconnect | Self::Idle | Self::Ending | Self::Closing => None,
        }
    }

    /// What it is to the pool.
    const fn pool_use(self) -> Use {
        match self {
            Self::Connecting(_)
            | Self::Reopening(_)
            | Self::Preconnect
            | Self::Busy(..)
            | Self::Finishing(_) => Use::Busy,
            Self::Idle => Use::Idle,
            Self::Ending | Self::Closing => Use::None,
        }
    }
}

impl UpstreamConnection {
    fn new(phase: Phase, (upstream, endpoint): (usize, Arc<Endpoint>), open_until_ns: u64) -> Self {
        Self {
            id: None,
            phase,
            lease: None,
            upstream,
            endpoint,
            open_until_ns,
            idle_since_ns: None,
            idle_age_ns: None,
            reader: ResponseReader::new(false),
            input: Vec::new(),
            undecided: None,
            trailers: Vec::new(),
            is_kept: false,
            kept_ns: None,
        }
    }

    /// The driver's connection, once that is being opened.
    pub(crate) const fn id(&self) -> Option<ConnectionId> {
        self.id
    }

    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) const fn exchange(&self) -> Option<Key> {
        self.phase.exchange()
    }

    /// The index of its upstream, and its server.
    pub(crate) const fn server(&self) -> (usize, &Arc<Endpoint>) {
        (self.upstream, &self.endpoint)
    }

    /// How long it is tried to open it.
    pub(crate) const fn open_until_ns(&self) -> u64 {
        self.open_until_ns
    }

    /// The place at its server of the request that it serves.
    pub(crate) const fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Whether the head of the response is incomplete.
    pub(crate) const fn is_in_head(&self) -> bool {
        self.reader.is_in_head()
    }
}

/// The connections of a worker by key, and the pools of those that are unused.
///
/// INVARIANT: each has one timer, which is that of its present phase, unless the driver is to close it
/// or its timer has just been taken. It is in its pool if its phase is [`Phase::Idle`], and has a
/// lease only if it serves an exchange.
#[derive(Debug)]
pub(crate) struct UpstreamConnections {
    slab: Slab<UpstreamConnection>,
    timers: Timers<Key>,
    pools: Vec<Pool>,
    /// Maximum number of fields of a response.
    fields_max: u32,
}

impl UpstreamConnections {
    /// None, of upstreams with these pools.
    pub(crate) fn new(pools: Vec<Pool>, fields_max: u32) -> Self {
        Self { slab: Slab::default(), timers: Timers::default(), pools, fields_max }
    }

    /// Adds one that is opened for an exchange until `until_ns`, which has this place at the server.
    pub(crate) fn open(
        &mut self,
        (exchange, lease): (Key, Lease),
        server: (usize, Arc<Endpoint>),
        until_ns: u64,
        now_ns: u64,
    ) -> Key {
        let key = self.insert(Phase::Connecting(exchange), server, until_ns, now_ns);
        if let Some(connection) = self.slab.get(key) {
            connection.lease = Some(lease);
        }
        key
    }

    /// Adds one that is opened for the pool until `until_ns`.
    pub(crate) fn open_spare(
        &mut self,
        server: (usize, Arc<Endpoint>),
        until_ns: u64,
        now_ns: u64,
    ) -> Key {
        self.insert(Phase::Preconnect, server, until_ns, now_ns)
    }

    fn insert(
        &mut self,
        phase: Phase,
        (upstream, endpoint): (usize, Arc<Endpoint>),
        until_ns: u64,
        now_ns: u64,
    ) -> Key {
        let pool = &mut self.pools[upstream];
        let connection = UpstreamConnection::new(phase, (upstream, endpoint), until_ns);
        let key = self.slab.insert(connection);
        if let Some(connection) = self.slab.get_ref(key) {
            pool.change(key, &connection.endpoint, (Use::None, phase.pool_use()), now_ns);
        }
        self.timers.set(until_ns, key);
        key
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<&mut UpstreamConnection> {
        self.slab.get(key)
    }

    pub(crate) fn get_ref(&self, key: Key) -> Option<&UpstreamConnection> {
        self.slab.get_ref(key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &UpstreamConnection> {
        self.slab.values()
    }

    /// The driver opens a connection under this id; without one, it could not.
    pub(crate) fn set_id(&mut self, key: Key, id: Option<ConnectionId>) {
        if let Some(connection) = self.slab.get(key) {
            connection.id = id;
        }
    }

    /// The only place in which a phase changes.
    fn change(&mut self, key: Key, phase: Phase, now_ns: u64) {
        let Some(connection) = self.slab.get(key) else { return };
        let before = std::mem::replace(&mut connection.phase, phase);
        if phase.exchange().is_none() {
            connection.lease = None;
        }
        let uses = (before.pool_use(), phase.pool_use());
        if uses.0 != uses.1 {
            self.pools[connection.upstream].change(key, &connection.endpoint, uses, now_ns);
        }
    }

    /// A connection gets another phase, which something has to end before `deadline_ns`.
    pub(crate) fn enter(&mut self, key: Key, phase: Phase, deadline_ns: u64, now_ns: u64) {
        if self.slab.get_ref(key).is_some() {
            self.change(key, phase, now_ns);
            self.timers.set(deadline_ns, key);
        }
    }

    /// A connection is unused from now on, for `idle_ns` at most.
    pub(crate) fn keep(&mut self, key: Key, idle_ns: u64, now_ns: u64) {
        if let Some(connection) = self.slab.get(key) {
            let kept_ns = connection.kept_ns.map_or(idle_ns, |ns| ns.min(idle_ns));
            connection.idle_since_ns = Some(now_ns);
            self.enter(key, Phase::Idle, now_ns + kept_ns, now_ns);
        }
    }

    /// A connection that is open gets the request of an exchange, to be handed to the driver.
    pub(crate) fn begin(&mut self, key: Key, exchange: Key, is_head: bool, times_ns: (u64, u64)) {
        let (deadline_ns, now_ns) = times_ns;
        self.enter(key, Phase::Busy(exchange, Sending::Pending), deadline_ns, now_ns);
        if let Some(connection) = self.slab.get(key) {
            connection.reader = ResponseReader::new(is_head).with_fields_max(self.fields_max);
            connection.input = Vec::new();
            connection.undecided = None;
            connection.trailers = Vec::new();
        }
    }

    /// Has an unused connection serve an exchange, which has this place at the server.
    pub(crate) fn reuse(
        &mut self,
        key: Key,
        (exchange, lease): (Key, Lease),
        is_head: bool,
        times_ns: (u64, u64),
    ) {
        self.begin(key, exchange, is_head, times_ns);
        if let Some(connection) = self.slab.get(key) {
            let age_ns = |since_ns| times_ns.1.saturating_sub(since_ns);
            connection.idle_age_ns = connection.idle_since_ns.map(age_ns);
            connection.lease = Some(lease);
        }
    }

    /// The place at its server of the exchange that a connection served until now.
    pub(crate) fn take_lease(&mut self, key: Key) -> Option<Lease> {
        self.slab.get(key)?.lease.take()
    }

    /// A connection keeps its phase, and has until `deadline_ns` from now on.
    pub(crate) fn extend(&mut self, key: Key, deadline_ns: u64) {
        if self.slab.get_ref(key).is_some_and(|connection| connection.phase != Phase::Closing) {
            self.timers.set(deadline_ns, key);
        }
    }

    /// A connection is of no use any more. Returns the driver's connection, which is to be closed.
    pub(crate) fn close(&mut self, key: Key, now_ns: u64) -> Option<ConnectionId> {
        let id = self.slab.get_ref(key)?.id;
        if id.is_some() {
            self.enter_closing(key, now_ns);
        } else {
            self.remove(key, now_ns);
        }
        id
    }

    /// The driver closes a connection at once: nothing is waited for.
    pub(crate) fn enter_closing(&mut self, key: Key, now_ns: u64) {
        self.change(key, Phase::Closing, now_ns);
        self.timers.cancel(key);
    }

    /// A connection is closed.
    pub(crate) fn remove(&mut self, key: Key, now_ns: u64) {
        self.enter_closing(key, now_ns);
        self.slab.remove(key);
    }

    /// The server has closed a connection that was idle, or that was idle before the present request.
    pub(crate) fn record_closing(&mut self, key: Key, now_ns: u64) {
        let Some(connection) = self.slab.get_ref(key) else { return };
        let age_ns = match connection.phase {
            Phase::Idle => connection.idle_since_ns.map(|since_ns| now_ns.saturating_sub(since_ns)),
            _ => connection.idle_age_ns,
        };
        if let Some(age_ns) = age_ns {
            self.pools[connection.upstream].record_closing(&connection.endpoint, age_ns, now_ns);
        }
    }

    /// The unused connection to a server that was used last. `may_be_old` if it may be one that the
    /// server is about to close.
    pub(crate) fn newest_idle(
        &self,
        upstream: usize,
        endpoint: &Arc<Endpoint>,
        may_be_old: bool,
        now_ns: u64,
    ) -> Option<Key> {
        let pool = &self.pools[upstream];
        let since_ns = if may_be_old { 0 } else { pool.fresh_since_ns(endpoint, now_ns) };
        pool.newest(endpoint, since_ns)
    }

    /// The unused connection, of all upstreams, that was used least recently.
    pub(crate) fn oldest_idle(&self) -> Option<Key> {
        let oldest = self.pools.iter().filter_map(Pool::oldest);
        oldest.min_by_key(|(since_ns, _)| *since_ns).map(|(_, key)| key)
    }

    /// An unused connection to a server that is not worth keeping.
    pub(crate) fn surplus(
        &mut self,
        upstream: usize,
        endpoint: &Arc<Endpoint>,
        now_ns: u64,
    ) -> Option<Key> {
        self.pools[upstream].surplus(endpoint, now_ns)
    }

    /// How many connections to a server are idle, or are being opened to be idle.
    pub(crate) fn spare_count(&self, upstream: usize, endpoint: &Arc<Endpoint>) -> usize {
        let is_opening = |other: &&UpstreamConnection| {
            other.phase == Phase::Preconnect && Arc::ptr_eq(&other.endpoint, endpoint)
        };
        self.pools[upstream].idle_count(endpoint) + self.values().filter(is_opening).count()
    }

    /// Forgets servers that are not to be kept. Returns the unused connections to them.
    pub(crate) fn retain(
        &mut self,
        upstream: usize,
        is_kept: impl Fn(&Arc<Endpoint>) -> bool,
    ) -> Vec<Key> {
        self.pools[upstream].retain(is_kept)
    }

    /// When the phase of a connection ends.
    pub(crate) fn deadline_ns(&self, key: Key) -> Option<u64> {
        self.timers.due_ns(key)
    }

    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.timers.earliest_ns()
    }

    /// A connection whose time is over; its phase is to be ended or extended.
    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Key> {
        self.timers.take_due(now_ns)
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &UpstreamConnection)> {
        self.slab.iter()
    }

    #[cfg(test)]
    pub(crate) const fn timer_count(&self) -> usize {
        self.timers.count()
    }
}

#[cfg(test)]
mod tests;
