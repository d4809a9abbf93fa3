//! What the access log and the metrics record of exchanges.

use jissoku_http::forward::ForwardError;
use jissoku_os::clock;
use jissoku_server::{
    Forwarded, ForwardedNotes, ForwardedOutcome, HedgeResult, LogRecord, UpstreamCounter,
};
use jissoku_upstream::fan_out::PartResult;

use super::GatewayHandler;
use crate::exchange::Ending;
use crate::failure::CLIENT_GONE;
use crate::gather::Gathering;
use crate::request::Request;
use crate::slab::Key;

impl GatewayHandler {
    /// A request is beyond the rate of its route, which is a dry run. Returns whether that will be in
    /// the access log: not if the request is refused.
    pub(crate) fn note_rate(&mut self, request: &Request) -> bool {
        let exchange = request.exchange().and_then(|key| self.exchanges.get(key));
        let is_there = exchange.is_some();
        if let Some(exchange) = exchange {
            exchange.place.notes.add(ForwardedNotes::OVER_RATE);
        }
        is_there
    }

    /// A connection on which nothing was asked has received bytes.
    pub(super) fn count_unsolicited(&self, connection: Key) {
        if let Some(upstream) = self.upstreams.get_ref(connection) {
            self.service.upstreams[upstream.pool].count(UpstreamCounter::Unsolicited);
        }
    }

    /// Bytes have followed the response to an exchange, or not.
    pub(super) fn count_excess(&self, exchange: Key, has_excess: bool) {
        if has_excess && let Some(exchange) = self.exchanges.get_ref(exchange) {
            let upstream = exchange.place.forwarding.upstream;
            self.service.upstreams[upstream].count(UpstreamCounter::Excess);
        }
    }

    /// Adds an exchange that is over to the access log, if there is one.
    pub(super) fn log_exchange(&self, key: Key, log: &mut LogRecord<'_>) {
        let Some(exchange) = self.exchanges.get_ref(key) else { return };
        let error = match exchange.ending {
            Some(Ending::Failed(_, error)) => Some(error),
            Some(Ending::Truncated) => exchange.place.error,
            Some(Ending::Complete) | None => None,
        };
        self.log(key, ("", error), self.now_ns, log);
    }

    /// Adds a part of a gathered response that is over to the access log, if there is one.
    pub(super) fn log_part(&self, gathering: &Gathering, part: usize, log: &mut LogRecord<'_>) {
        let Some(exchange) = gathering.exchange(part) else { return };
        let error = match gathering.collection.result(part) {
            Some((PartResult::Error(error), _)) => Some(error.name()),
            _ => None,
        };
        let id = &gathering.route.plan.parts[part].id;
        self.log(exchange, (id, error), self.now_ns, log);
    }

    /// A request for an upstream is not forwarded.
    pub(super) fn count_refusal(&self, upstream: usize, error: ForwardError) {
        if !error.error_type().is_empty() {
            self.service.upstreams[upstream].count_failure(error.error_type());
        }
    }

    /// Adds a request that is not forwarded to the access log, if there is one.
    pub(super) fn log_refusal(error: ForwardError, log: &mut LogRecord<'_>) {
        let error = Some(error.error_type()).filter(|name| !name.is_empty());
        let outcome = ForwardedOutcome { error, ..ForwardedOutcome::default() };
        log.add_forwarded(&Forwarded { outcome, ..Forwarded::default() });
    }

    fn log(
        &self,
        key: Key,
        (part, error): (&str, Option<&'static str>),
        end_ns: u64,
        log: &mut LogRecord<'_>,
    ) {
        let Some(exchange) = self.exchanges.get_ref(key).filter(|_| log.is_there()) else {
            return;
        };
        let place = &exchange.place;
        let upstream = place.forwarding.upstream;
        let endpoint = place.endpoint.as_ref();
        let server = endpoint.map(|endpoint| self.servers[upstream].address(endpoint));
        // The client has left before a copy had a response.
        let copy = exchange.copy.and_then(|copy| self.exchanges.get_ref(copy));
        let outcome = ForwardedOutcome {
            status: exchange.output.status,
            tries: place.connections + copy.map_or(0, |copy| copy.place.connections),
            is_reused: exchange.is_reused,
            phases_ns: place.phases.durations_ns(end_ns),
            hedge: exchange.hedge.or_else(|| copy.map(|_| HedgeResult::Lost)),
            notes: place.notes,
            error,
        };
        log.add_forwarded(&Forwarded {
            part,
            upstream: self.service.upstreams[upstream].label(),
            server: server.as_deref().unwrap_or_default(),
            response: place.malformed.as_deref().unwrap_or_default(),
            outcome,
        });
    }

    /// Adds a request to the access log and the metrics that ends before its response because of its
    /// client. An exchange that has ended otherwise before keeps its own error.
    pub(super) fn record_end(
        &self,
        request: &Request,
        error: &'static str,
        log: &mut LogRecord<'_>,
    ) {
        let Some(key) = request.exchange() else { return };
        let Some(exchange) = self.exchanges.get_ref(key) else { return };
        if exchange.ending.is_some() {
            return self.log_exchange(key, log);
        }
        let place = &exchange.place;
        let upstream = &self.service.upstreams[place.forwarding.upstream];
        match error {
            // It was still being received.
            _ if place.phases.begun_ns == 0 => {}
            CLIENT_GONE => upstream.count(UpstreamCounter::ClientsGone),
            error => upstream.count_failure(error),
        }
        self.log(key, ("", Some(error)), clock::monotonic_ns(), log);
    }

    /// Adds the parts of a gathered response that run to the access log; its client is gone.
    pub(crate) fn log_gone_parts(&self, gathering: &Gathering, log: &mut LogRecord<'_>) {
        for (part, plan) in gathering.route.plan.parts.iter().enumerate() {
            if let Some(exchange) = gathering.exchange(part) {
                self.log(exchange, (&plan.id, Some(CLIENT_GONE)), clock::monotonic_ns(), log);
            }
        }
    }
}
