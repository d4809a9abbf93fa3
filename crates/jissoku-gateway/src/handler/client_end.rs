//! Requests whose clients have left, or have the response to another copy: they end, or their
//! responses are received and dropped.

use jissoku_os::driver::ConnectionId;
use jissoku_server::{LogRecord, Progress, Response, UpstreamCounter};
use jissoku_upstream::rate::Permit;
use jissoku_upstream::retry::RetryPolicy;

use super::GatewayHandler;
use crate::exchange::{ClientState, Ending};
use crate::failure::CLIENT_GONE;
use crate::gather::{LostGathering, PartState};
use crate::request::Request;
use crate::slab::Key;

/// The status of a response that was not sent because the client had left, in the access log.
const CLOSED: u16 = 499;

impl GatewayHandler {
    /// The client of a request has shut down its side. Returns its connection, if that ends the
    /// request.
    pub(super) fn note_hangup(&mut self, request: &Request) -> Option<ConnectionId> {
        let exchange = request.exchange().and_then(|key| self.exchanges.get(key))?;
        exchange.client_state = ClientState::Ended;
        exchange.is_aborted().then_some(exchange.client)
    }

    /// Ends an exchange whose client has shut down its side, if its route says so.
    pub(super) fn abort(&mut self, key: Key, response: &mut Response<'_>) -> Option<Progress> {
        let exchange = self.exchanges.get(key).filter(|exchange| exchange.is_aborted())?;
        exchange.ending = Some(Ending::Truncated);
        exchange.place.error = Some(CLIENT_GONE);
        let status = if exchange.output.status == 0 { CLOSED } else { exchange.output.status };
        response.set_sent(status, exchange.output.body_size);
        let upstream = exchange.place.forwarding.upstream;
        self.service.upstreams[upstream].count(UpstreamCounter::ClientsGone);
        self.log_exchange(key, response.log_record());
        self.end_exchange(key);
        Some(Progress::Reset)
    }

    /// The client of a request is gone. `permit` counts the request at its route.
    pub(crate) fn lose_client(
        &mut self,
        request: &Request,
        permit: Option<Permit>,
        log: &mut LogRecord<'_>,
    ) {
        self.record_end(request, CLIENT_GONE, log);
        let Some(key) = request.exchange() else { return };
        let key = self.settle(key);
        let Some(exchange) = self.exchanges.get(key).filter(|exchange| exchange.is_finishable())
        else {
            return self.end_exchange(key);
        };
        exchange.permit = permit;
        let copy = exchange.copy.take();
        if let Some(copy) = copy {
            self.end_exchange(copy);
        }
        self.go_on_without_client(key);
    }

    /// Ends the exchanges of requests that were dropped, and not ended.
    pub(super) fn end_lost(&mut self) {
        while let Some(key) = self.lost.pop() {
            if self.exchanges.get_ref(key).is_some_and(|exchange| !exchange.is_orphan()) {
                self.end_exchange(key);
            }
        }
        while let Some(LostGathering { parts, held }) = self.lost_gatherings.pop() {
            for part in parts {
                if let PartState::Running(key) = part {
                    self.end_exchange(key);
                }
            }
            self.gather.change(held, 0);
        }
    }

    /// Has the response to an exchange received and dropped.
    pub(super) fn go_on_without_client(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        exchange.client_state = ClientState::Gone;
        // No client waits for another server.
        exchange.place.forwarding.retry = RetryPolicy::NONE;
        exchange.place.forwarding.hedge = None;
        let upstream = exchange.upstream;
        self.orphans += 1;
        if let Some(upstream) = upstream {
            self.limit_orphan(upstream, key);
        }
        self.continue_orphan(key);
    }

    /// The response to an exchange without a client is received for a limited time, once it has
    /// begun: it may have no end.
    pub(super) fn limit_orphan(&mut self, upstream: Key, key: Key) {
        let Some(orphan) = self.exchanges.get_ref(key) else { return };
        let head_ns = orphan.place.phases.head_ns;
        let begun_until_ns = (head_ns != 0).then(|| head_ns + self.service.timeouts.read_ns);
        if let Some(until_ns) = orphan.unused_until_ns.or(begun_until_ns) {
            self.upstreams.extend(upstream, until_ns);
        }
    }

    /// Drops what was received of the response to an exchange without a client.
    pub(super) fn continue_orphan(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.get(key).filter(|exchange| exchange.is_orphan()) else {
            return;
        };
        let was_held = exchange.is_held();
        exchange.output.bytes = Vec::new();
        // Its request may still be being sent.
        let is_finishing = exchange.upstream.is_some() && exchange.ending == Some(Ending::Complete);
        if exchange.ending.is_some() && !is_finishing {
            self.end_exchange(key);
        } else if was_held {
            self.resume_upstream(key);
        }
    }
}
