//! Gives each exchange a server, and another one when that fails.

use jissoku_server::UpstreamCounter;
use jissoku_upstream::balance::NoServer;
use jissoku_upstream::health::Outcome;
use jissoku_upstream::retry::{Cause, Retry};

use super::GatewayHandler;
use crate::exchange::{Ending, Exchange};
use crate::failure::{Fault, Verdict, decide};
use crate::place::Wait;
use crate::slab::Key;
use crate::upstream::Upstream;

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
        let Some(exchange) = self.exchanges.get(key) else { return };
        let upstream = exchange.place.forwarding.upstream;
        let shared = &self.service.upstreams[upstream];
        let servers = &mut self.servers[upstream];
        let place = &mut exchange.place;
        let is_first = place.until_ns == 0;
        if is_first {
            place.until_ns = self.now_ns + place.forwarding.head_ns;
            place.phases.begun_ns = self.now_ns;
            shared.budget.count_request(self.now_ns);
            shared.count(UpstreamCounter::Requests);
            if let Some(hedge) = place.forwarding.hedge {
                self.service.hedges[hedge].budget.count_request(self.now_ns);
            }
        }
        let gone = servers.renew(shared);
        // Who comes first is served first, unless it waits for another server.
        let chosen = if is_first && !servers.queue.is_empty() {
            Err(NoServer::Full)
        } else {
            servers.choose(place, self.now_ns)
        };
        let outcome = match chosen {
            Ok(()) => Ok(true),
            Err(NoServer::Full) if servers.queue.push(key, self.now_ns).is_ok() => {
                place.wait = Wait::Queue;
                self.queues_due_ns.get_or_insert(self.now_ns + QUEUE_INTERVAL_NS);
                Ok(false)
            }
            Err(NoServer::Full) => Err(FULL),
            Err(NoServer::Unavailable) => Err(UNAVAILABLE),
        };
        for idle in gone {
            self.close(idle);
        }
        match outcome {
            Ok(true) => self.connect(key, may_reuse),
            Ok(false) => {}
            Err(failure) => self.refuse(key, failure),
        }
    }

    /// No server takes an exchange; if one has failed before, that is the reason.
    fn refuse(&mut self, key: Key, failure: (u16, &'static str)) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        if exchange.place.failure.is_none() {
            self.service.upstreams[exchange.place.forwarding.upstream].count_failure(failure.1);
        }
        let (status, error_type) = exchange.place.failure.unwrap_or(failure);
        exchange.place.wait = Wait::No;
        exchange.ending = Some(Ending::Failed(status, error_type));
        self.ready.wake(key, exchange);
    }

    /// The exchange of a connection has failed.
    pub(super) fn fail_exchange(&mut self, connection: Key, fault: Fault) {
        let upstream = self.upstreams.get_ref(connection);
        let Some(key) = upstream.and_then(Upstream::exchange) else { return };
        if matches!(fault, Fault::ConnectTimeout | Fault::HeadTimeout) {
            // It took this long at least.
            self.note_latency(key);
        }
        let Some(upstream) = self.upstreams.get(connection) else { return };
        let Some(exchange) = self.exchanges.get(key) else { return };
        if exchange.ending.is_some() {
            return self.ready.wake(key, exchange);
        }
        exchange.upstream = None;
        let now_ns = self.now_ns;
        let attempt = exchange.attempt(now_ns);
        if attempt.is_closing_race(fault) {
            let pool = &mut self.servers[upstream.pool].pool;
            pool.record_closing(&upstream.endpoint, upstream.idle_age_ns, now_ns);
        }
        if exchange.unused_until_ns.is_some() {
            self.release(key, attempt.outcome(fault));
            return self.end_exchange(key);
        }
        let Exchange { place, .. } = exchange;
        let shared = &self.service.upstreams[place.forwarding.upstream];
        let verdict = decide(fault, attempt, |tried| {
            place.forwarding.retry.decide(tried, &shared.budget, now_ns, &mut self.random)
        });
        if verdict != Verdict::Fresh {
            shared.count_failure(fault.error_type());
        }
        match verdict {
            Verdict::Fresh => {
                shared.count(UpstreamCounter::FreshRetries);
                place.was_replaced = true;
                return self.connect(key, false);
            }
            Verdict::Other { after_ns } => {
                place.tries += u32::from(attempt.counts(fault));
                place.failure = Some((fault.status(), fault.error_type()));
                place.retry_at(now_ns + after_ns);
                shared.count(UpstreamCounter::OtherRetries);
                self.retries.set(now_ns + after_ns, key);
            }
            Verdict::Respond(status) => {
                exchange.ending = Some(Ending::Failed(status, fault.error_type()));
                self.ready.wake(key, exchange);
            }
            Verdict::Truncate => {
                place.error = Some(fault.error_type());
                exchange.ending = Some(Ending::Truncated);
                self.ready.wake(key, exchange);
            }
        }
        self.release(key, attempt.outcome(fault));
    }

    /// The queue of a server's Unix socket is full: has the exchange of a connection sent to another
    /// server, if one serves. Returns whether it is.
    pub(super) fn leave_full_queue(&mut self, connection: Key) -> bool {
        let upstream = self.upstreams.get_ref(connection);
        let Some(key) = upstream.and_then(Upstream::exchange) else { return false };
        let Some(retry_ns) = self.permit_other(key, Cause::Connect) else { return false };
        let Some(exchange) = self.exchanges.get(key) else { return false };
        let attempt = exchange.attempt(self.now_ns);
        let place = &mut exchange.place;
        let shared = &self.service.upstreams[place.forwarding.upstream];
        let fault = Fault::QueueFull;
        shared.count_failure(fault.error_type());
        shared.count(UpstreamCounter::OtherRetries);
        place.failure = Some((fault.status(), fault.error_type()));
        place.retry_at(retry_ns);
        exchange.upstream = None;
        self.retries.set(retry_ns, key);
        self.release(key, attempt.outcome(fault));
        true
    }

    /// When an exchange that ended with `cause` is sent to another server; `None` if it is not, since
    /// no other one serves or a repetition is not permitted. Spends one of the retry budget.
    pub(super) fn permit_other(&mut self, key: Key, cause: Cause) -> Option<u64> {
        let exchange = self.exchanges.get(key)?;
        let (now_ns, attempt) = (self.now_ns, exchange.attempt(self.now_ns));
        let place = &mut exchange.place;
        let upstream = place.forwarding.upstream;
        if !self.servers[upstream].has_other(place, now_ns) {
            return None;
        }
        let budget = &self.service.upstreams[upstream].budget;
        let ended = attempt.ended(cause);
        match place.forwarding.retry.decide(&ended, budget, now_ns, &mut self.random) {
            Retry::Other { after_ns } => Some(now_ns + after_ns),
            _ => None,
        }
    }

    /// A kept connection has ended before the request of an exchange was sent on it, which gets a new
    /// one: that does no harm, whatever the method.
    pub(super) fn replace(&mut self, connection: Key, key: Key) {
        let Some(upstream) = self.upstreams.get(connection) else { return };
        let Some(exchange) = self.exchanges.get(key) else { return };
        let pool = &mut self.servers[upstream.pool].pool;
        pool.record_closing(&upstream.endpoint, upstream.idle_age_ns, self.now_ns);
        exchange.upstream = None;
        let shared = &self.service.upstreams[exchange.place.forwarding.upstream];
        shared.count(UpstreamCounter::FreshRetries);
        self.connect(key, false);
    }

    /// Sends exchanges again whose time has come.
    pub(super) fn retry_due(&mut self) {
        while let Some(key) = self.retries.take_due(self.now_ns) {
            let Some(exchange) = self.exchanges.get(key) else { continue };
            if matches!(exchange.place.wait, Wait::Retry(_)) {
                exchange.place.wait = Wait::No;
                self.assign(key, true);
            }
        }
    }

    /// The server of an exchange has ended with it; the next request in the queue gets the place.
    pub(super) fn release(&mut self, key: Key, outcome: Outcome) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        let upstream = exchange.place.forwarding.upstream;
        let is_failure = std::mem::take(&mut exchange.place.is_failure);
        let outcome = match outcome {
            Outcome::Success if is_failure => Outcome::Failure,
            other => other,
        };
        if let Some(lease) = exchange.place.lease.take() {
            self.servers[upstream].release(lease, outcome, self.now_ns);
        }
        self.serve_queue(upstream);
    }

    /// The client of an exchange has its response, or is gone.
    pub(super) fn end_exchange(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.remove(key) else { return };
        self.retries.cancel(key);
        self.hedges.cancel(key);
        self.orphans -= usize::from(exchange.is_orphan());
        if let Some(upstream) = exchange.upstream {
            self.close(upstream);
        }
        if let Some(copy) = exchange.copy {
            self.end_exchange(copy);
        }
        let upstream = exchange.place.forwarding.upstream;
        if exchange.place.wait == Wait::Queue {
            self.servers[upstream].queue.remove(&key);
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
        let is_waiting = self.servers.iter().any(|servers| !servers.queue.is_empty());
        self.queues_due_ns = is_waiting.then_some(self.now_ns + QUEUE_INTERVAL_NS);
    }

    /// Gives requests in a queue the places that are free, and gives up those that waited too long.
    fn serve_queue(&mut self, upstream: usize) {
        loop {
            let servers = &mut self.servers[upstream];
            if let Some(late) = servers.queue.expired(self.now_ns) {
                self.refuse(late, FULL);
                continue;
            }
            let Some(&key) = servers.queue.first() else { return };
            let exchange = self.exchanges.get(key);
            if exchange.as_ref().is_some_and(|exchange| exchange.place.until_ns <= self.now_ns) {
                servers.queue.remove(&key);
                self.refuse(key, LATE);
                continue;
            }
            let chosen = exchange
                .map(|exchange| (servers.choose(&mut exchange.place, self.now_ns), exchange));
            match chosen {
                Some((Err(NoServer::Full), _)) => return,
                Some((Ok(()), exchange)) => {
                    exchange.place.wait = Wait::No;
                    servers.queue.remove(&key);
                    self.connect(key, true);
                }
                Some((Err(NoServer::Unavailable), _)) => {
                    servers.queue.remove(&key);
                    self.refuse(key, UNAVAILABLE);
                }
                None => {
                    servers.queue.remove(&key);
                }
            }
        }
    }
}
