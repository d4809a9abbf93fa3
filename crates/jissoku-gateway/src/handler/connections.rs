//! Opens, reuses and closes connections to the server, and their deadlines.

use super::GatewayHandler;
use crate::exchange::Exchange;
use crate::failure::Fault;
use crate::slab::Key;
use crate::upstream::{State, Upstream};

/// A connection that was idle for longer is not used for a request that must not be repeated.
const FRESH_NS: u64 = 1_000_000_000;

/// When a Unix socket with a full queue is tried again.
pub(super) const QUEUE_RETRY_NS: u64 = 2_000_000;

impl GatewayHandler {
    /// Finds a connection for an exchange, or has one opened.
    pub(super) fn assign(&mut self, key: Key, may_reuse: bool) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        let is_idempotent = exchange.method.is_idempotent;
        let oldest_ns = if is_idempotent { 0 } else { self.now_ns.saturating_sub(FRESH_NS) };
        let reused =
            if may_reuse { self.pools[exchange.forwarding.upstream].take(oldest_ns) } else { None };
        exchange.is_reused = reused.is_some();
        let Some(upstream_key) = reused else { return self.open(key) };
        exchange.upstream = Some(upstream_key);
        if let Some(upstream) = self.upstreams.get(upstream_key) {
            upstream.begin(key, exchange.method.is_head);
            self.ready.extend(upstream.id);
        }
    }

    pub(super) fn open(&mut self, exchange: Key) {
        let open_until_ns = self.now_ns + self.service.timeouts.connect_ns;
        let Some(asking) = self.exchanges.get(exchange) else { return };
        let connection = Upstream::new(exchange, asking.forwarding.upstream, open_until_ns);
        let key = self.upstreams.insert(connection);
        asking.upstream = Some(key);
        self.set_deadline(key, open_until_ns);
        self.openings.push_back(key);
    }

    /// Sets when a connection is looked at at the latest.
    pub(super) fn set_deadline(&mut self, key: Key, deadline_ns: u64) {
        let Some(upstream) = self.upstreams.get(key) else { return };
        upstream.deadline_ns = deadline_ns;
        if upstream.timer_ns == 0 || deadline_ns < upstream.timer_ns {
            upstream.timer_ns = deadline_ns;
            self.deadlines.add(deadline_ns, key);
        }
    }

    /// A deadline may be over.
    pub(super) fn check_deadline(&mut self, key: Key) {
        let Some(upstream) = self.upstreams.get(key) else { return };
        upstream.timer_ns = 0;
        if upstream.deadline_ns > self.now_ns {
            let deadline_ns = upstream.deadline_ns;
            return self.set_deadline(key, deadline_ns);
        }
        match upstream.state {
            State::Connecting(_) if upstream.id.is_none() => {
                // It waited for room in the queue of a Unix socket.
                let until_ns = upstream.open_until_ns.max(self.now_ns + QUEUE_RETRY_NS);
                self.openings.push_back(key);
                self.set_deadline(key, until_ns);
            }
            State::Connecting(_) => self.give_up(key, Fault::ConnectTimeout),
            State::Busy(..) if upstream.is_in_head() => self.give_up(key, Fault::HeadTimeout),
            State::Busy(exchange, _) => {
                // A server that is held back because of its client is not late.
                let is_held = |exchange: &mut Exchange| exchange.is_held();
                if self.exchanges.get(exchange).is_some_and(is_held) {
                    let deadline_ns = self.now_ns + self.service.timeouts.read_ns;
                    return self.set_deadline(key, deadline_ns);
                }
                self.give_up(key, Fault::BodyTimeout);
            }
            State::Idle => {
                self.pools[upstream.pool].remove(key);
                self.close(key);
            }
            State::Closing => {}
        }
    }

    /// Ends an exchange because of a fault, and closes its connection.
    pub(super) fn give_up(&mut self, key: Key, fault: Fault) {
        self.fail_exchange(key, fault);
        self.close(key);
    }

    /// The exchange of a connection has failed.
    pub(super) fn fail_exchange(&mut self, key: Key, fault: Fault) {
        let Some(exchange_key) = self.upstreams.get(key).and_then(|upstream| upstream.exchange())
        else {
            return;
        };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return };
        if exchange.fail(fault) {
            self.assign(exchange_key, false);
        } else {
            self.ready.push_back(exchange.client);
        }
    }

    /// Has the driver close a connection.
    pub(super) fn close(&mut self, key: Key) {
        if let Some(upstream) = self.upstreams.get(key) {
            upstream.state = State::Closing;
            self.ready.extend(upstream.id);
            if upstream.id.is_none() {
                self.upstreams.remove(key);
            }
        }
    }
}
