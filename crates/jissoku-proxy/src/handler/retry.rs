//! Gives each exchange a server, and another one when that fails.

use jissoku_server::UpstreamCounter;

use super::GatewayHandler;
use crate::Key;
use crate::exchange::Exchange;
use crate::failure::{Fault, Verdict, decide};
use crate::policy::balance::NoServer;
use crate::policy::health::Outcome;
use crate::policy::retry::{Cause, Retry};
use crate::upstream_connection::UpstreamConnection;
use crate::worker_upstream::WorkerUpstream;

/// What is wrong with a response whose status says that its server fails.
pub(super) const ERROR_STATUS: &str = "an error status";

/// How often queues are looked at, since places become free at other workers, too.
const QUEUE_INTERVAL_NS: u64 = 5_000_000;

/// No server can be asked (RFC 9209 section 2.3.4).
const UNAVAILABLE: (u16, &str) = (503, "destination_unavailable");

/// All servers are full (RFC 9209 section 2.3.12).
const FULL: (u16, &str) = (503, "connection_limit_reached");

/// The time for the head of a response has passed (RFC 9209 section 2.3.26).
const LATE: (u16, &str) = (504, "http_response_timeout");

impl GatewayHandler {
    /// Gives an exchange a server, or a place in the queue. An unused connection is taken only if
    /// `may_reuse`.
    pub(super) fn assign(&mut self, key: Key, may_reuse: bool) {
        let Some(upstream) = self.exchanges.get_ref(key).map(Exchange::upstream) else { return };
        self.renew(upstream);
        let Some(exchange) = self.exchanges.get(key) else { return };
        let shared = &self.service.upstreams[upstream];
        let is_first = exchange.begin(self.now_ns);
        if is_first {
            shared.budget.count_request(self.worker, self.now_ns);
            shared.count(UpstreamCounter::Requests, self.worker);
            if let Some(hedge) = exchange.forwarding().hedge {
                self.service.hedges[hedge].budget.count_request(self.worker, self.now_ns);
            }
        }
        let servers = &mut self.servers[upstream];
        // Who comes first is served first, unless it waits for another server.
        let chosen = if is_first && servers.has_waiting() {
            Err(NoServer::Full)
        } else {
            servers.choose(exchange, self.now_ns)
        };
        let outcome = match chosen {
            Ok(lease) => Ok(Some(lease)),
            Err(NoServer::Full) if servers.enqueue(key, self.now_ns) => {
                exchange.queue();
                self.queues_due_ns.get_or_insert(self.now_ns + QUEUE_INTERVAL_NS);
                Ok(None)
            }
            Err(NoServer::Full) => Err(FULL),
            Err(NoServer::Unavailable) => Err(UNAVAILABLE),
        };
        match outcome {
            Ok(Some(lease)) => self.connect(key, lease, may_reuse),
            Ok(None) => {}
            Err(failure) => self.refuse(key, failure),
        }
    }

    /// No server takes an exchange; if one has failed before, that is the reason.
    fn refuse(&mut self, key: Key, failure: (u16, &'static str)) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        if !exchange.refuse(failure) {
            self.service.upstreams[exchange.upstream()].count_failure(failure.1);
        }
        self.ready.wake(key, exchange);
    }

    /// The exchange of a connection has failed; the connection is to be closed.
    pub(super) fn fail_exchange(&mut self, connection: Key, fault: Fault) {
        let upstream = self.upstreams.get_ref(connection);
        let Some(key) = upstream.and_then(UpstreamConnection::exchange) else { return };
        if matches!(fault, Fault::ConnectTimeout | Fault::HeadTimeout) {
            // It took this long at least.
            self.record_server_latency(key);
        }
        let Some(exchange) = self.exchanges.get(key) else { return };
        if exchange.is_over() {
            return self.ready.wake(key, exchange);
        }
        exchange.leave_connection();
        let now_ns = self.now_ns;
        let attempt = exchange.attempt(now_ns);
        if fault.is_closing_race(&attempt) {
            self.upstreams.record_closing(connection, now_ns);
        }
        if exchange.is_unused() {
            self.give_back(connection, key, (fault.outcome(&attempt), fault.error_type()));
            return self.end_exchange(key);
        }
        let (upstream, retry) = (exchange.upstream(), exchange.forwarding().retry);
        let shared = &self.service.upstreams[upstream];
        let verdict = decide(fault, &attempt, |cause| {
            retry.decide(cause, &attempt, &shared.budget, now_ns, &mut self.random)
        });
        if verdict != Verdict::Fresh {
            shared.count_failure(fault.error_type());
        }
        match verdict {
            Verdict::Fresh => {
                shared.count(UpstreamCounter::FreshRetries, self.worker);
                exchange.record_replacement();
                return self.move_to_new(connection, key);
            }
            Verdict::Other { after_ns } => {
                let failure = (fault.status(), fault.error_type());
                exchange.wait_for_other(Some(failure), fault.counts(&attempt));
                shared.count(UpstreamCounter::OtherRetries, self.worker);
                self.retries.set(now_ns + after_ns, key);
            }
            Verdict::Respond(status) => {
                exchange.fail(status, fault.error_type());
                self.ready.wake(key, exchange);
            }
            Verdict::Truncate => {
                exchange.truncate(fault.error_type());
                self.ready.wake(key, exchange);
            }
        }
        self.give_back(connection, key, (fault.outcome(&attempt), fault.error_type()));
        self.serve_queue(upstream);
    }

    /// The queue of a server's Unix socket is full: has the exchange of a connection sent to another
    /// server, if one serves. Returns whether it is.
    pub(super) fn leave_full_queue(&mut self, connection: Key) -> bool {
        let upstream = self.upstreams.get_ref(connection);
        let Some(key) = upstream.and_then(UpstreamConnection::exchange) else { return false };
        let Some(retry_ns) = self.retry_elsewhere(key, Cause::Connect) else { return false };
        let Some(exchange) = self.exchanges.get(key) else { return false };
        let attempt = exchange.attempt(self.now_ns);
        let upstream = exchange.upstream();
        let shared = &self.service.upstreams[upstream];
        let fault = Fault::QueueFull;
        shared.count_failure(fault.error_type());
        shared.count(UpstreamCounter::OtherRetries, self.worker);
        exchange.wait_for_other(Some((fault.status(), fault.error_type())), false);
        self.retries.set(retry_ns, key);
        self.give_back(connection, key, (fault.outcome(&attempt), fault.error_type()));
        self.serve_queue(upstream);
        true
    }

    /// When an exchange that ended with `cause` is sent to another server; `None` if it is not, since
    /// no other one serves or a repetition is not permitted. Spends one of the retry budget.
    pub(super) fn retry_elsewhere(&mut self, key: Key, cause: Cause) -> Option<u64> {
        let exchange = self.exchanges.get(key)?;
        let (now_ns, attempt) = (self.now_ns, exchange.attempt(self.now_ns));
        let (upstream, retry) = (exchange.upstream(), exchange.forwarding().retry);
        if !self.servers[upstream].has_other(exchange, now_ns) {
            return None;
        }
        let budget = &self.service.upstreams[upstream].budget;
        match retry.decide(cause, &attempt, budget, now_ns, &mut self.random) {
            Retry::Other { after_ns } => Some(now_ns + after_ns),
            _ => None,
        }
    }

    /// A kept connection has ended before the request of an exchange was sent on it, which gets a new
    /// one: that does no harm, whatever the method.
    pub(super) fn replace(&mut self, connection: Key, key: Key) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        let shared = &self.service.upstreams[exchange.upstream()];
        shared.count(UpstreamCounter::FreshRetries, self.worker);
        self.upstreams.record_closing(connection, self.now_ns);
        self.move_to_new(connection, key);
    }

    /// Gives an exchange a new connection to the server that it is at, instead of one that has ended.
    fn move_to_new(&mut self, connection: Key, key: Key) {
        let lease = self.upstreams.take_lease(connection);
        self.upstreams.enter_closing(connection, self.now_ns);
        if let Some(lease) = lease {
            self.connect(key, lease, false);
        }
    }

    /// Sends exchanges again whose time has come.
    pub(super) fn retry_due(&mut self) {
        while let Some(key) = self.retries.take_due(self.now_ns) {
            if self.exchanges.get(key).is_some_and(Exchange::end_waiting) {
                self.assign(key, true);
            }
        }
    }

    /// The server of an exchange has ended with it, and has room for the next request in the queue.
    /// `error` is the error type of a failure, if it is not the status of the response.
    pub(super) fn give_back(
        &mut self,
        connection: Key,
        key: Key,
        (outcome, error): (Outcome, &'static str),
    ) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        let (upstream, outcome) = (exchange.upstream(), exchange.server_outcome(outcome));
        if let Some(lease) = self.upstreams.take_lease(connection) {
            let changed = self.servers[upstream].release(lease, outcome, self.now_ns);
            if let Some(server) = changed {
                self.service.upstreams[upstream].report_use(server, self.now_ns, || {
                    format!("its requests fail, the last one with {error}")
                });
            }
        }
    }

    /// The client of an exchange has its response, or is gone.
    pub(super) fn end_exchange(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.remove(key) else { return };
        self.retries.cancel(key);
        self.hedges.cancel(key);
        self.orphans -= usize::from(exchange.is_orphan());
        if let Some(connection) = exchange.connection() {
            self.close(connection);
        }
        if let Some(copy) = exchange.copy() {
            self.end_exchange(copy);
        }
        let upstream = exchange.upstream();
        if exchange.is_queued() {
            self.servers[upstream].dequeue(key);
        }
        drop(exchange);
        self.serve_queue(upstream);
    }

    /// Looks at all queues, if it is time.
    pub(super) fn serve_queues(&mut self) {
        if self.queues_due_ns.is_none_or(|due_ns| due_ns > self.now_ns) {
            return;
        }
        for upstream in 0..self.servers.len() {
            self.serve_queue(upstream);
        }
        let is_waiting = self.servers.iter().any(WorkerUpstream::has_waiting);
        self.queues_due_ns = is_waiting.then_some(self.now_ns + QUEUE_INTERVAL_NS);
    }

    /// Gives requests in a queue the places that are free, and gives up those that waited too long.
    pub(super) fn serve_queue(&mut self, upstream: usize) {
        loop {
            let servers = &mut self.servers[upstream];
            if let Some(late) = servers.take_expired(self.now_ns) {
                self.refuse(late, FULL);
                continue;
            }
            let Some(key) = servers.next_waiting() else { return };
            let exchange = self.exchanges.get(key);
            if exchange.as_ref().is_some_and(|exchange| exchange.is_late(self.now_ns)) {
                servers.dequeue(key);
                self.refuse(key, LATE);
                continue;
            }
            let chosen = exchange.map(|exchange| servers.choose(exchange, self.now_ns));
            match chosen {
                Some(Err(NoServer::Full)) => return,
                Some(Ok(lease)) => {
                    servers.dequeue(key);
                    self.connect(key, lease, true);
                }
                Some(Err(NoServer::Unavailable)) => {
                    servers.dequeue(key);
                    self.refuse(key, UNAVAILABLE);
                }
                None => {
                    servers.dequeue(key);
                }
            }
        }
    }
}
