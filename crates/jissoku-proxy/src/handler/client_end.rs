//! Requests whose clients have left, or have the response to another copy: they end, or their
//! responses are received and dropped.

use jissoku_os::driver::ConnectionId;
use jissoku_server::{LogRecord, UpstreamCounter};

use super::GatewayHandler;
use crate::Key;
use crate::client::ClientSide;
use crate::exchange::{Exchange, OrphanStep};
use crate::failure::CLIENT_GONE;
use crate::gather::LostGathering;
use crate::policy::rate::Permit;
use crate::transfer::ResponseSink;

impl GatewayHandler {
    /// The client of a request has shut down its side. Returns its connection, if that ends the
    /// request.
    pub(super) fn record_hangup(&mut self, request: &ClientSide) -> Option<ConnectionId> {
        self.exchanges.get(request.exchange()?)?.record_client_end()
    }

    /// Ends an exchange whose client has shut down its side, if its route says so. Returns whether it
    /// does.
    pub(super) fn abort(&mut self, key: Key, sink: &mut impl ResponseSink) -> bool {
        let Some(exchange) = self.exchanges.get(key) else { return false };
        let Some((status, body_size)) = exchange.abort() else { return false };
        sink.set_sent(status, body_size);
        self.service.upstreams[exchange.upstream()]
            .count(UpstreamCounter::ClientsGone, self.worker);
        true
    }

    /// The client of a request is gone. `permit` counts the request at its route.
    pub(crate) fn lose_client(
        &mut self,
        request: &ClientSide,
        permit: Option<Permit>,
        log: &mut LogRecord<'_>,
    ) {
        self.record_end(request, CLIENT_GONE, log);
        let Some(key) = request.exchange() else { return };
        let key = self.resolve_hedge(key);
        let Some(exchange) = self.exchanges.get(key).filter(|exchange| exchange.is_finishable())
        else {
            return self.end_exchange(key);
        };
        exchange.hold(permit);
        if let Some(copy) = exchange.take_copy() {
            self.end_exchange(copy);
        }
        self.detach_client(key);
    }

    /// Ends the exchanges of requests that were dropped, and not ended.
    pub(super) fn end_lost(&mut self) {
        while let Some(key) = self.lost.pop() {
            if self.exchanges.get_ref(key).is_some_and(|exchange| !exchange.is_orphan()) {
                self.end_exchange(key);
            }
        }
        while let Some((running, held)) = self.lost_gatherings.pop().map(LostGathering::into_held) {
            for key in running {
                self.end_exchange(key);
            }
            self.gather.change(held, 0);
        }
    }

    /// Has the response to an exchange received and dropped.
    pub(super) fn detach_client(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.get(key) else { return };
        exchange.detach_client();
        let connection = exchange.connection();
        self.orphans += 1;
        if let Some(connection) = connection {
            self.limit_orphan(connection, key);
        }
        self.continue_orphan(key);
    }

    /// The response to an exchange without a client is received for a limited time.
    pub(super) fn limit_orphan(&mut self, connection: Key, key: Key) {
        let read_ns = self.service.timeouts.read_ns;
        let orphan = self.exchanges.get_ref(key);
        if let Some(until_ns) = orphan.and_then(|orphan| orphan.orphan_until_ns(read_ns)) {
            self.upstreams.extend(connection, until_ns);
        }
    }

    /// Drops what was received of the response to an exchange without a client.
    pub(super) fn continue_orphan(&mut self, key: Key) {
        let orphan = self.exchanges.get(key).filter(|exchange| exchange.is_orphan());
        match orphan.map(Exchange::drop_output) {
            Some(OrphanStep::End) => self.end_exchange(key),
            Some(OrphanStep::Resume) => self.resume_upstream(key),
            Some(OrphanStep::Wait) | None => {}
        }
    }
}
