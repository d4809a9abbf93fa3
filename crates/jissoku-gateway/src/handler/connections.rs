//! Opens, reuses and closes connections to the server, and their deadlines.

use std::sync::Arc;

use jissoku_os::socket::Endpoint;
use jissoku_server::UpstreamCounter;

use super::GatewayHandler;
use crate::exchange::{Ending, Exchange};
use crate::failure::Fault;
use crate::pool::Taken;
use crate::slab::Key;
use crate::upstream::{State, Upstream};

/// When a Unix socket with a full queue is tried again.
pub(super) const QUEUE_RETRY_NS: u64 = 2_000_000;

impl GatewayHandler {
    /// Finds a connection to the server of an exchange, or has one opened.
    pub(super) fn connect(&mut self, key: Key, may_reuse: bool) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        let Some(endpoint) = exchange.place.endpoint.clone() else { return };
        let upstream = exchange.place.forwarding.upstream;
        let may_be_old = exchange.is_repeatable();
        let reused = if may_reuse { self.take_idle(upstream, &endpoint, may_be_old) } else { None };
        let Some(exchange) = self.exchanges.get(key) else { return };
        exchange.is_reused = reused.is_some();
        exchange.place.connections += 1;
        exchange.place.phases.connect(self.now_ns);
        self.service.upstreams[upstream].count(match reused {
            Some(_) => UpstreamCounter::ReusedConnections,
            None => UpstreamCounter::NewConnections,
        });
        match reused {
            None => self.open(key, endpoint),
            Some(taken) => {
                exchange.upstream = Some(taken.key);
                let deadline_ns = exchange.place.head_deadline_ns(self.now_ns);
                self.upstreams.begin(taken.key, (key, exchange.method.is_head), deadline_ns);
                if let Some(upstream) = self.upstreams.get(taken.key) {
                    upstream.is_busy = true;
                    upstream.idle_age_ns = self.now_ns.saturating_sub(taken.since_ns);
                    self.ready.extend(upstream.id);
                }
            }
        }
        self.watch_lateness(key);
    }

    /// Takes an unused connection whose time is not over: the wake-up that brings a request may be the
    /// one in which it ends.
    fn take_idle(
        &mut self,
        upstream: usize,
        endpoint: &Arc<Endpoint>,
        may_be_old: bool,
    ) -> Option<Taken> {
        loop {
            let pool = &mut self.servers[upstream].pool;
            let since_ns = if may_be_old { 0 } else { pool.fresh_since_ns(endpoint, self.now_ns) };
            let taken = pool.take(endpoint, since_ns, self.now_ns)?;
            if self.upstreams.deadline_ns(taken.key).is_some_and(|until_ns| until_ns > self.now_ns)
            {
                return Some(taken);
            }
            pool.end(endpoint, self.now_ns);
            self.close(taken.key);
        }
    }

    fn open(&mut self, exchange: Key, endpoint: Arc<Endpoint>) {
        let Some(asking) = self.exchanges.get(exchange) else { return };
        let connect_until_ns = self.now_ns + self.service.timeouts.connect_ns;
        let open_until_ns = connect_until_ns.min(asking.place.until_ns);
        let upstream = asking.place.forwarding.upstream;
        self.servers[upstream].pool.begin(&endpoint, self.now_ns);
        let place = (upstream, endpoint);
        let state = State::Connecting(exchange);
        let connection = Upstream::new(state, place, open_until_ns);
        let key = self.upstreams.insert(connection, open_until_ns);
        asking.upstream = Some(key);
        self.openings.push_back((key, None));
    }

    /// The time of a connection's state is over.
    pub(super) fn end_state(&mut self, key: Key) {
        let Some(upstream) = self.upstreams.get(key) else { return };
        match upstream.state() {
            State::Reopening(exchange) => {
                let until_ns = upstream.open_until_ns.max(self.now_ns + QUEUE_RETRY_NS);
                self.openings.push_back((key, None));
                self.upstreams.enter(key, State::Connecting(exchange), until_ns);
            }
            State::Connecting(exchange) => {
                let asking = self.exchanges.get_ref(exchange);
                let is_due = asking.is_some_and(|asking| asking.place.until_ns <= self.now_ns);
                let fault = if is_due { Fault::HeadTimeout } else { Fault::ConnectTimeout };
                self.give_up(key, fault);
            }
            State::Busy(exchange, _) => {
                let is_in_head = upstream.is_in_head();
                let orphan = self.exchanges.get(exchange).filter(|one| one.is_orphan());
                if orphan.is_some_and(|one| !is_in_head || one.unused_until_ns.is_some()) {
                    // Its server is not to blame.
                    return self.end_exchange(exchange);
                }
                if let Some(tunnel) = self.exchanges.get(exchange).filter(|one| one.is_tunnel()) {
                    tunnel.ending = Some(Ending::Complete);
                    self.end_upload(exchange);
                    return self.close(key);
                }
                // A server that waits for its client is not late.
                if self.exchanges.get(exchange).is_some_and(|exchange| exchange.is_client_awaited())
                {
                    let deadline_ns = self.now_ns + self.service.timeouts.read_ns;
                    return self.upstreams.extend(key, deadline_ns);
                }
                let fault = if is_in_head { Fault::HeadTimeout } else { Fault::BodyTimeout };
                self.give_up(key, fault);
            }
            State::Finishing(exchange) => {
                let is_awaited = |exchange: &mut Exchange| exchange.is_client_awaited();
                if self.exchanges.get(exchange).is_some_and(is_awaited) {
                    let deadline_ns = self.now_ns + self.service.timeouts.read_ns;
                    return self.upstreams.extend(key, deadline_ns);
                }
                self.end_upload(exchange);
                self.close(key);
            }
            State::Idle => {
                self.servers[upstream.pool].pool.remove(key, &upstream.endpoint);
                self.close(key);
            }
            State::Spare | State::Ending => self.close(key),
            State::Closing => {}
        }
    }

    /// Ends an exchange because of a fault, and closes its connection.
    pub(super) fn give_up(&mut self, key: Key, fault: Fault) {
        self.fail_exchange(key, fault);
        self.close(key);
    }

    /// Has the driver close a connection.
    pub(super) fn close(&mut self, key: Key) {
        self.end_busy(key);
        match self.upstreams.get_ref(key).map(|upstream| upstream.id) {
            Some(Some(id)) => {
                self.upstreams.enter_closing(key);
                self.ready.push_back(id);
            }
            Some(None) => self.upstreams.remove(key),
            None => {}
        }
    }

    /// A connection that may be busy is of no use any more.
    pub(super) fn end_busy(&mut self, key: Key) {
        if let Some(upstream) = self.upstreams.get(key)
            && std::mem::take(&mut upstream.is_busy)
        {
            self.servers[upstream.pool].pool.end(&upstream.endpoint, self.now_ns);
        }
    }

    /// Takes the unused connection that is so for longest, of all upstreams.
    pub(super) fn take_oldest(&mut self) -> Option<Key> {
        let pools = self.servers.iter_mut().map(|servers| &mut servers.pool);
        let unused = pools.filter_map(|pool| Some((pool.oldest_since_ns()?, pool)));
        unused.min_by_key(|(since_ns, _)| *since_ns)?.1.take_oldest()
    }

    /// Closes the unused connections to a server that are not worth keeping.
    pub(super) fn trim(&mut self, upstream: usize, endpoint: &Arc<Endpoint>) {
        while let Some(surplus) = self.servers[upstream].pool.take_surplus(endpoint, self.now_ns) {
            self.close(surplus);
        }
    }
}
