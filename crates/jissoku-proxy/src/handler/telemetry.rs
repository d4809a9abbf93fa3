//! What the access log and the metrics record of exchanges.

use jissoku_http::forward::ForwardError;
use jissoku_os::clock;
use jissoku_server::{CertificateFault, Forwarded, ForwardedOutcome, LogRecord, UpstreamCounter};

use super::GatewayHandler;
use crate::Key;
use crate::client::ClientSide;
use crate::exchange::Exchange;
use crate::failure::CLIENT_GONE;
use crate::gather::Gathering;

impl GatewayHandler {
    /// Records that a request exceeds the rate of its route, which is a dry run. Returns whether the
    /// access log will show it: not if the request is refused, which has no exchange.
    pub(crate) fn record_rate(&mut self, request: &ClientSide) -> bool {
        let exchange = request.exchange().and_then(|key| self.exchanges.get(key));
        exchange.map(Exchange::record_rate).is_some()
    }

    /// Counts bytes that a server has sent without a request.
    pub(super) fn count_unsolicited(&self, connection: Key) {
        if let Some(upstream) = self.upstreams.get_ref(connection) {
            self.service.upstreams[upstream.server().0]
                .count(UpstreamCounter::Unsolicited, self.worker);
        }
    }

    /// Reports that the certificate of the server of a connection is not accepted.
    pub(super) fn report_certificate(&self, connection: Key, fault: CertificateFault) {
        if let Some(connection) = self.upstreams.get_ref(connection) {
            let (upstream, endpoint) = connection.server();
            let server = (&**endpoint, self.servers[upstream].tls_name(endpoint));
            self.service.upstreams[upstream].report_certificate(server, fault, self.now_ns);
        }
    }

    /// Counts a response that was followed by excess bytes, if `has_excess`.
    pub(super) fn count_excess(&self, exchange: Key, has_excess: bool) {
        if has_excess && let Some(exchange) = self.exchanges.get_ref(exchange) {
            self.service.upstreams[exchange.upstream()].count(UpstreamCounter::Excess, self.worker);
        }
    }

    /// Adds an exchange that is over to the access log, if there is one.
    pub(super) fn log_exchange(&self, key: Key, log: &mut LogRecord<'_>) {
        let Some(exchange) = self.exchanges.get_ref(key) else { return };
        self.log(key, ("", exchange.error()), self.now_ns, log);
    }

    /// Adds a part of a gathered response that is over to the access log, if there is one.
    pub(super) fn log_part(&self, gathering: &Gathering, part: usize, log: &mut LogRecord<'_>) {
        if let Some((_, exchange)) = gathering.running().find(|(other, _)| *other == part) {
            self.log(exchange, gathering.part_outcome(part), self.now_ns, log);
        }
    }

    pub(super) fn count_refusal(&self, upstream: usize, error: ForwardError) {
        if !error.error_type().is_empty() {
            self.service.upstreams[upstream].count_failure(error.error_type());
        }
    }

    /// Adds a request that was not forwarded to the access log, if there is one.
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
        let upstream = exchange.upstream();
        let server = exchange.endpoint().map(|endpoint| self.servers[upstream].address(endpoint));
        // A second copy that still runs: the client has left before it had a response.
        let copy = exchange.copy().and_then(|copy| self.exchanges.get_ref(copy));
        log.add_forwarded(&Forwarded {
            part,
            upstream: self.service.upstreams[upstream].label(),
            server: server.as_deref().unwrap_or_default(),
            ..exchange.logged(copy, error, end_ns)
        });
    }

    /// Adds a request to the access log and the metrics that ends before its response because of its
    /// client. An exchange that has ended otherwise before keeps its own error.
    pub(super) fn record_end(
        &self,
        request: &ClientSide,
        error: &'static str,
        log: &mut LogRecord<'_>,
    ) {
        let Some(key) = request.exchange() else { return };
        let Some(exchange) = self.exchanges.get_ref(key) else { return };
        if exchange.is_over() {
            return self.log_exchange(key, log);
        }
        let upstream = &self.service.upstreams[exchange.upstream()];
        match error {
            // It was still being received.
            _ if !exchange.has_begun() => {}
            CLIENT_GONE => upstream.count(UpstreamCounter::ClientsGone, self.worker),
            error => upstream.count_failure(error),
        }
        self.log(key, ("", Some(error)), clock::monotonic_ns(), log);
    }

    /// Adds the parts of a gathered response that run to the access log; its client is gone.
    pub(crate) fn log_gone_parts(&self, gathering: &Gathering, log: &mut LogRecord<'_>) {
        for (part, exchange) in gathering.running() {
            let (id, _) = gathering.part_outcome(part);
            self.log(exchange, (id, Some(CLIENT_GONE)), clock::monotonic_ns(), log);
        }
    }
}
