//! What the access log and the metrics get to know of exchanges.

use jissoku_http::forward::ForwardError;
use jissoku_server::{Forwarded, ForwardedOutcome, Response, UpstreamCounter};
use jissoku_upstream::fan_out::PartResult;

use super::GatewayHandler;
use crate::exchange::Ending;
use crate::gather::Gathering;
use crate::request::Request;
use crate::slab::Key;

impl GatewayHandler {
    /// Adds an exchange that is over to the access log, if there is one.
    pub(super) fn log_exchange(&self, key: Key, response: &mut Response<'_>) {
        let Some(exchange) = self.exchanges.get_ref(key) else { return };
        let error = match exchange.ending {
            Some(Ending::Failed(_, error)) => Some(error),
            Some(Ending::Truncated) => exchange.place.error,
            Some(Ending::Complete) | None => None,
        };
        self.log(key, ("", error), response);
    }

    /// Adds a part of a gathered response that is over to the access log, if there is one.
    pub(super) fn log_part(&self, gathering: &Gathering, part: usize, response: &mut Response<'_>) {
        let Some(key) = gathering.running(part) else { return };
        let error = match gathering.collection.result(part) {
            Some((PartResult::Error(error), _)) => Some(error.name()),
            _ => None,
        };
        let id = &gathering.route.plan.parts[part].id;
        self.log(key, (id, error), response);
    }

    /// Adds a request that is not forwarded to the access log, if there is one.
    pub(super) fn log_refusal(error: ForwardError, response: &mut Response<'_>) {
        let error = Some(error.error_type()).filter(|name| !name.is_empty());
        let outcome = ForwardedOutcome { error, ..ForwardedOutcome::default() };
        response.log_forwarded(&Forwarded { outcome, ..Forwarded::default() });
    }

    fn log(
        &self,
        key: Key,
        (part, error): (&str, Option<&'static str>),
        response: &mut Response<'_>,
    ) {
        let Some(exchange) = self.exchanges.get_ref(key).filter(|_| response.is_logged()) else {
            return;
        };
        let place = &exchange.place;
        let upstream = place.forwarding.upstream;
        let endpoint = place.endpoint.as_ref();
        let server = endpoint.map(|endpoint| self.servers[upstream].address(endpoint));
        let outcome = ForwardedOutcome {
            status: exchange.output.status,
            tries: place.connections,
            is_reused: exchange.is_reused,
            phases_ns: place.phases.durations_ns(self.now_ns),
            error,
        };
        response.log_forwarded(&Forwarded {
            part,
            upstream: self.service.upstreams[upstream].label(),
            server: server.as_deref().unwrap_or_default(),
            outcome,
        });
    }

    /// Counts a client that is gone before the response to its forwarded request is complete.
    pub(super) fn count_gone(&self, request: &Request) {
        let exchange = request.exchange().and_then(|key| self.exchanges.get_ref(key));
        if let Some(exchange) = exchange
            && exchange.ending.is_none()
            && exchange.place.phases.begun_ns != 0
        {
            let upstream = &self.service.upstreams[exchange.place.forwarding.upstream];
            upstream.count(UpstreamCounter::ClientsGone);
        }
    }
}
