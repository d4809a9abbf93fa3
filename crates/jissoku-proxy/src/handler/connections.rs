//! Opens, reuses and closes connections to servers, and ends their phases.

use std::sync::Arc;

use jissoku_os::driver::Action;
use jissoku_os::socket::Endpoint;
use jissoku_server::UpstreamCounter;

use super::GatewayHandler;
use crate::Key;
use crate::exchange::Exchange;
use crate::failure::Fault;
use crate::policy::fleet::Lease;
use crate::upstream_connection::{Phase, UpstreamConnection};

/// When a Unix socket with a full queue is tried again.
pub(super) const QUEUE_RETRY_NS: u64 = 2_000_000;

impl GatewayHandler {
    /// Finds a connection to the server at which an exchange has this place, or has one opened.
    pub(super) fn connect(&mut self, key: Key, lease: Lease, may_reuse: bool) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        let Some(endpoint) = exchange.endpoint().cloned() else { return };
        let upstream = exchange.upstream();
        let may_be_old = exchange.is_repeatable();
        let reused = if may_reuse { self.find_idle(upstream, &endpoint, may_be_old) } else { None };
        let Some(exchange) = self.exchanges.get(key) else { return };
        let counter = match reused {
            Some(_) => UpstreamCounter::ReusedConnections,
            None => UpstreamCounter::NewConnections,
        };
        self.service.upstreams[upstream].count(counter, self.worker);
        match reused {
            None => {
                let connect_until_ns = self.now_ns + self.service.timeouts.connect_ns;
                let until_ns = connect_until_ns.min(exchange.until_ns());
                let server = (upstream, endpoint);
                let connection = self.upstreams.open((key, lease), server, until_ns, self.now_ns);
                exchange.enter_connection(connection, false, self.now_ns);
                self.openings.push_back((connection, None));
            }
            Some(connection) => {
                exchange.enter_connection(connection, true, self.now_ns);
                let times_ns = (exchange.head_deadline_ns(self.now_ns), self.now_ns);
                let is_head = exchange.is_head();
                self.upstreams.reuse(connection, (key, lease), is_head, times_ns);
                self.resume(connection);
            }
        }
        self.watch_lateness(key);
    }

    /// Finds an unused connection whose time is not over: the wake-up that brings a request may be the
    /// one in which it ends.
    fn find_idle(
        &mut self,
        upstream: usize,
        endpoint: &Arc<Endpoint>,
        may_be_old: bool,
    ) -> Option<Key> {
        loop {
            let key = self.upstreams.newest_idle(upstream, endpoint, may_be_old, self.now_ns)?;
            if self.upstreams.deadline_ns(key).is_some_and(|until_ns| until_ns > self.now_ns) {
                return Some(key);
            }
            self.close(key);
        }
    }

    /// The time of a connection's phase is over.
    pub(super) fn end_phase(&mut self, key: Key) {
        let Some(connection) = self.upstreams.get_ref(key) else { return };
        match connection.phase() {
            Phase::Reopening(exchange) => {
                let until_ns = connection.open_until_ns().max(self.now_ns + QUEUE_RETRY_NS);
                self.openings.push_back((key, None));
                self.upstreams.enter(key, Phase::Connecting(exchange), until_ns, self.now_ns);
            }
            Phase::Connecting(exchange) => {
                let asking = self.exchanges.get_ref(exchange);
                let is_due = asking.is_some_and(|asking| asking.is_late(self.now_ns));
                let fault = if is_due { Fault::HeadTimeout } else { Fault::ConnectTimeout };
                self.fail_exchange(key, fault);
                self.close(key);
            }
            Phase::Busy(exchange, _) => self.end_busy(key, exchange),
            Phase::Finishing(exchange) => {
                if self.exchanges.get_ref(exchange).is_some_and(Exchange::is_client_awaited) {
                    let deadline_ns = self.now_ns + self.service.timeouts.read_ns;
                    return self.upstreams.extend(key, deadline_ns);
                }
                self.end_upload(key, exchange);
                self.close(key);
            }
            Phase::Idle | Phase::Preconnect | Phase::Ending => self.close(key),
            Phase::Closing => {}
        }
    }

    /// The time of a connection is over that serves an exchange.
    fn end_busy(&mut self, key: Key, exchange_key: Key) {
        let is_in_head = self.upstreams.get_ref(key).is_some_and(UpstreamConnection::is_in_head);
        let Some(exchange) = self.exchanges.get(exchange_key) else { return self.close(key) };
        if exchange.is_orphan() && (!is_in_head || exchange.is_unused()) {
            // Its server is not to blame.
            return self.end_exchange(exchange_key);
        }
        if exchange.is_tunnel() {
            exchange.end_tunnel();
            self.end_upload(key, exchange_key);
            return self.close(key);
        }
        // A server that waits for its client is not late.
        if exchange.is_client_awaited() {
            let deadline_ns = self.now_ns + self.service.timeouts.read_ns;
            return self.upstreams.extend(key, deadline_ns);
        }
        let fault = if is_in_head { Fault::HeadTimeout } else { Fault::BodyTimeout };
        self.fail_exchange(key, fault);
        self.close(key);
    }

    /// A connection becomes idle, unless its server is not one of its upstream any more.
    pub(super) fn keep(&mut self, key: Key) -> Action {
        let Some(connection) = self.upstreams.get_ref(key) else { return Action::Close };
        let (upstream, endpoint) = connection.server();
        let endpoint = Arc::clone(endpoint);
        if !self.servers[upstream].has(&endpoint) || self.is_retired {
            return self.abort_connection(key);
        }
        let idle_ns = self.service.upstreams[upstream].options.idle_ns;
        self.upstreams.keep(key, idle_ns, self.now_ns);
        self.trim(upstream, &endpoint);
        Action::Receive
    }

    /// A connection closes after flushing.
    pub(super) fn close_flushed(&mut self, key: Key) -> Action {
        let until_ns = self.now_ns + self.service.timeouts.read_ns;
        self.upstreams.enter(key, Phase::Ending, until_ns, self.now_ns);
        Action::Close
    }

    /// A connection closes at once, with an event of its own: what was not sent is dropped. An idle one
    /// was ended by its server.
    pub(super) fn abort_connection(&mut self, key: Key) -> Action {
        if self.upstreams.get_ref(key).is_some_and(|one| one.phase() == Phase::Idle) {
            self.upstreams.record_closing(key, self.now_ns);
        }
        self.upstreams.enter_closing(key, self.now_ns);
        Action::Abort
    }

    /// Has the driver close a connection.
    pub(super) fn close(&mut self, key: Key) {
        let id = self.upstreams.close(key, self.now_ns);
        self.ready.extend(id);
    }

    /// Closes the unused connections to a server that are not worth keeping.
    pub(super) fn trim(&mut self, upstream: usize, endpoint: &Arc<Endpoint>) {
        while let Some(surplus) = self.upstreams.surplus(upstream, endpoint, self.now_ns) {
            self.close(surplus);
        }
    }

    pub(super) fn resume(&mut self, connection: Key) {
        let connection = self.upstreams.get_ref(connection);
        self.ready.extend(connection.and_then(UpstreamConnection::id));
    }

    /// Uses the present servers of an upstream, and closes the unused connections to others.
    #[inline]
    pub(super) fn renew(&mut self, upstream: usize) {
        let servers = &mut self.servers[upstream];
        if servers.renew(&self.service.upstreams[upstream]) {
            for gone in self.upstreams.retain(upstream, |endpoint| servers.has(endpoint)) {
                self.close(gone);
            }
        }
    }
}
