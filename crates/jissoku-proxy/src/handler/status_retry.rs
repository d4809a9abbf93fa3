//! Responses with a status for which an upstream asks to retry: the request is sent to another
//! server, or the response is passed on.

use jissoku_os::driver::Action;
use jissoku_server::UpstreamCounter;

use super::GatewayHandler;
use super::retry::ERROR_STATUS;
use crate::Key;
use crate::policy::health;
use crate::policy::retry::Cause;
use crate::upstream_connection::Outcome;

impl GatewayHandler {
    /// The head of a response has such a status, and nothing of the response was passed on.
    /// `is_sent`: the request has gone out as a whole.
    pub(super) fn decide_status(&mut self, key: Key, exchange_key: Key, is_sent: bool) -> Action {
        let is_retried = self.retry_status(exchange_key);
        let Some(upstream) = self.upstreams.get(key) else { return Action::Close };
        let Some(exchange) = self.exchanges.get(exchange_key) else {
            return self.abort_connection(key);
        };
        if !is_retried {
            let outcome = upstream.pass_on(is_sent, exchange);
            self.on_response(exchange_key);
            return self.conclude(key, exchange_key, outcome);
        }
        let outcome = upstream.discard(is_sent, exchange);
        let group = exchange.upstream();
        self.give_back(key, exchange_key, (health::Outcome::Success, ERROR_STATUS));
        let next = match outcome {
            Outcome::Complete { is_reusable: true, .. } => self.keep(key),
            Outcome::Complete { has_excess, .. } => {
                self.count_excess(exchange_key, has_excess);
                self.abort_connection(key)
            }
            _ => self.abort_connection(key),
        };
        // Last, since the next request in the queue can use this connection.
        self.serve_queue(group);
        next
    }

    /// Has a request sent to another server, if that does no harm and another one serves. Returns
    /// whether it is.
    fn retry_status(&mut self, key: Key) -> bool {
        let Some(retry_ns) = self.retry_elsewhere(key, Cause::Status) else { return false };
        let Some(exchange) = self.exchanges.get(key) else { return false };
        // If no server is left after all, that is the reason of the failure.
        exchange.wait_for_other(None, true);
        self.service.upstreams[exchange.upstream()]
            .count(UpstreamCounter::StatusRetries, self.worker);
        self.retries.set(retry_ns, key);
        true
    }
}
