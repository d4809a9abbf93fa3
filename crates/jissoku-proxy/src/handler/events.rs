//! Events of connections to the server.

use std::io;
use std::sync::Arc;

use jissoku_os::driver::{Action, SendBuffer};
use jissoku_os::socket::is_resource_exhausted;
use jissoku_server::{TlsFailure, UpstreamCounter};

use super::GatewayHandler;
use super::connections::QUEUE_RETRY_NS;
use super::retry::ERROR_STATUS;
use crate::Key;
use crate::failure::Fault;
use crate::policy::health;
use crate::upstream_connection::{Outcome, Phase, Sending, UpstreamConnection};

impl GatewayHandler {
    /// Sends the request of a connection that is established.
    pub(super) fn send(&mut self, key: Key, output: &mut SendBuffer) -> Action {
        let Some(upstream) = self.upstreams.get(key) else { return Action::Close };
        let Phase::Busy(exchange_key, _) = upstream.phase() else { return Action::Close };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return Action::Close };
        let field = exchange.forwarding().deadline_field;
        let field = field.map(|field| &*self.service.deadline_fields[field]);
        if exchange.send(field, self.now_ns, output) {
            self.ready.push_back(exchange.client());
        }
        let deadline_ns = exchange.head_deadline_ns(self.now_ns);
        let phase = Phase::Busy(exchange_key, Sending::Done);
        self.upstreams.enter(key, phase, deadline_ns, self.now_ns);
        Action::Receive
    }

    /// Sends what has been received of a request, of which the start was sent.
    fn send_more(&mut self, key: Key, exchange_key: Key, output: &mut SendBuffer) {
        let Some(exchange) = self.exchanges.get(exchange_key) else { return };
        match exchange.send_more(output) {
            None => return,
            Some(true) => self.ready.push_back(exchange.client()),
            Some(false) => {}
        }
        let tunnel_ns = self.service.timeouts.tunnel_ns;
        let limit_ns = if exchange.is_tunnel() { tunnel_ns } else { exchange.forwarding().head_ns };
        self.upstreams.extend(key, self.now_ns + limit_ns);
    }

    pub(super) fn on_connected(&mut self, key: Key, output: &mut SendBuffer) -> Action {
        let Some(upstream) = self.upstreams.get(key) else { return Action::Close };
        let exchange_key = match upstream.phase() {
            Phase::Connecting(exchange_key) => exchange_key,
            Phase::Preconnect => return self.keep(key),
            _ => return Action::Close,
        };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return Action::Close };
        let times_ns = (exchange.head_deadline_ns(self.now_ns), self.now_ns);
        self.upstreams.begin(key, exchange_key, exchange.is_head(), times_ns);
        self.send(key, output)
    }

    pub(super) fn on_resumed(
        &mut self,
        key: Key,
        unsent: usize,
        output: &mut SendBuffer,
    ) -> Action {
        let Some(upstream) = self.upstreams.get(key) else { return Action::Close };
        match upstream.phase() {
            Phase::Connecting(_) | Phase::Reopening(_) | Phase::Preconnect => Action::Receive,
            Phase::Idle => {
                // A second has passed.
                let (upstream, endpoint) = upstream.server();
                let endpoint = Arc::clone(endpoint);
                self.trim(upstream, &endpoint);
                Action::Receive
            }
            Phase::Ending => Action::Close,
            // What was not sent is of no use any more.
            Phase::Closing => Action::Abort,
            Phase::Busy(_, Sending::Pending) => self.send(key, output),
            Phase::Busy(exchange_key, Sending::Done) => {
                if unsent == 0 {
                    self.send_more(key, exchange_key, output);
                }
                match self.exchanges.get(exchange_key) {
                    Some(exchange) if exchange.is_tunnel() => {
                        self.next_of_tunnel(key, exchange_key)
                    }
                    Some(exchange) if exchange.is_held() => Action::Suspend,
                    Some(_) => Action::Receive,
                    None => Action::Abort,
                }
            }
            Phase::Finishing(exchange_key) => {
                if unsent == 0 {
                    self.send_more(key, exchange_key, output);
                }
                let Some(exchange) = self.exchanges.get(exchange_key) else { return Action::Abort };
                if !exchange.is_handed_over() {
                    return Action::Receive;
                }
                self.end_upload(key, exchange_key);
                self.close_flushed(key)
            }
        }
    }

    fn next_of_tunnel(&mut self, key: Key, exchange_key: Key) -> Action {
        let Some(exchange) = self.exchanges.get(exchange_key) else { return Action::Abort };
        match (exchange.server_has_ended(), exchange.is_handed_over()) {
            (true, true) => {
                exchange.end_tunnel();
                self.end_upload(key, exchange_key);
                self.close_flushed(key)
            }
            (true, false) => Action::Suspend,
            (false, _) if exchange.is_held() => Action::Suspend,
            (false, true) => Action::ShutdownWrite,
            (false, false) => Action::Receive,
        }
    }

    /// The client of a complete response has sent its request to the end, or need not.
    pub(super) fn end_upload(&mut self, key: Key, exchange_key: Key) {
        self.give_back(key, exchange_key, (health::Outcome::Success, ERROR_STATUS));
        if let Some(exchange) = self.exchanges.get(exchange_key) {
            exchange.end_upload();
            self.ready.wake(exchange_key, exchange);
            let upstream = exchange.upstream();
            self.serve_queue(upstream);
        }
    }

    pub(super) fn on_data(&mut self, key: Key, bytes: &[u8], unsent: usize) -> Action {
        let Some(upstream) = self.upstreams.get(key) else { return Action::Close };
        let exchange_key = match upstream.phase() {
            Phase::Busy(exchange_key, Sending::Done) => exchange_key,
            // Bytes that were not asked for: they must not become the next response.
            Phase::Busy(exchange_key, Sending::Pending) => {
                self.count_unsolicited(key);
                self.replace(key, exchange_key);
                return Action::Abort;
            }
            Phase::Finishing(exchange_key) => {
                if let Some(exchange) = self.exchanges.get(exchange_key) {
                    exchange.record_excess();
                }
                self.count_excess(exchange_key, true);
                self.end_upload(key, exchange_key);
                return self.abort_connection(key);
            }
            Phase::Idle => {
                self.count_unsolicited(key);
                return self.abort_connection(key);
            }
            Phase::Connecting(_)
            | Phase::Reopening(_)
            | Phase::Preconnect
            | Phase::Ending
            | Phase::Closing => return self.abort_connection(key),
        };
        let Some(exchange) = self.exchanges.get(exchange_key) else {
            return self.abort_connection(key);
        };
        let is_sent = unsent == 0 && exchange.is_handed_over();
        let retried = &self.service.upstreams[upstream.server().0].options.policy.retry_statuses;
        let outcome = upstream.read(bytes, is_sent, exchange, retried);
        if exchange.has_new_head() {
            self.on_response(exchange_key);
        }
        self.conclude(key, exchange_key, outcome)
    }

    /// The head of the response to an exchange was written.
    pub(super) fn on_response(&mut self, exchange_key: Key) {
        let Some(exchange) = self.exchanges.get(exchange_key) else { return };
        let upstream = &self.service.upstreams[exchange.upstream()];
        let is_failure = upstream.options.is_failure(exchange.status());
        if exchange.begin_response(is_failure, self.now_ns) {
            upstream.count(UpstreamCounter::Early, self.worker);
        }
        exchange.add_diagnostics(upstream.label(), self.now_ns);
        self.record_latency(exchange_key);
    }

    /// The server has closed its side; `is_clean` unless bytes may be missing.
    pub(super) fn on_eof(&mut self, key: Key, is_clean: bool) -> Action {
        let Some(upstream) = self.upstreams.get(key) else { return Action::Close };
        let Some(exchange_key) = upstream.exchange() else { return self.abort_connection(key) };
        match upstream.phase() {
            Phase::Finishing(_) => {
                self.end_upload(key, exchange_key);
                return self.abort_connection(key);
            }
            Phase::Busy(_, Sending::Pending) => {
                self.replace(key, exchange_key);
                return Action::Abort;
            }
            _ => {}
        }
        let Some(exchange) = self.exchanges.get(exchange_key) else {
            return self.abort_connection(key);
        };
        if exchange.is_tunnel() {
            exchange.end_server_side();
            self.ready.push_back(exchange.client());
            return self.next_of_tunnel(key, exchange_key);
        }
        let outcome = if is_clean {
            upstream.finish(exchange)
        } else {
            Outcome::Failed(upstream.reset_fault())
        };
        self.conclude(key, exchange_key, outcome);
        if self.upstreams.get(key).is_some_and(|one| matches!(one.phase(), Phase::Finishing(_))) {
            self.end_upload(key, exchange_key);
        }
        self.abort_connection(key)
    }

    /// Applies the outcome of received bytes.
    pub(super) fn conclude(&mut self, key: Key, exchange_key: Key, outcome: Outcome) -> Action {
        let Some(exchange) = self.exchanges.get(exchange_key) else {
            return self.abort_connection(key);
        };
        match outcome {
            Outcome::Partial => {
                let is_held = exchange.is_held();
                // A client that uploads may have been asked to continue.
                if exchange.has_news() {
                    self.ready.wake(exchange_key, exchange);
                }
                let timeouts = &self.service.timeouts;
                let limit_ns =
                    if exchange.is_tunnel() { timeouts.tunnel_ns } else { timeouts.read_ns };
                let (is_orphan, is_tunnel) = (exchange.is_orphan(), exchange.is_tunnel());
                // A head that comes in small parts, or after interim responses, has no more time.
                if is_tunnel
                    || !self.upstreams.get_ref(key).is_some_and(UpstreamConnection::is_in_head)
                {
                    self.upstreams.extend(key, self.now_ns + limit_ns);
                }
                if is_orphan {
                    self.limit_orphan(key, exchange_key);
                }
                if is_held { Action::Suspend } else { Action::Receive }
            }
            Outcome::Complete { is_reusable, has_excess } => {
                self.count_excess(exchange_key, has_excess);
                let Some(exchange) = self.exchanges.get(exchange_key) else {
                    return self.abort_connection(key);
                };
                self.ready.wake(exchange_key, exchange);
                if exchange.is_uploading() {
                    // The server has responded early, and takes the rest.
                    let until_ns = self.now_ns + self.service.timeouts.read_ns;
                    let phase = Phase::Finishing(exchange_key);
                    self.upstreams.enter(key, phase, until_ns, self.now_ns);
                    self.resume(key);
                    return Action::Receive;
                }
                exchange.leave_connection();
                let upstream = exchange.upstream();
                self.give_back(key, exchange_key, (health::Outcome::Success, ERROR_STATUS));
                let next = if is_reusable { self.keep(key) } else { self.abort_connection(key) };
                // Last, since the next request in the queue can use this connection.
                self.serve_queue(upstream);
                next
            }
            Outcome::Undecided { status, is_sent } => {
                let options = &self.service.upstreams[exchange.upstream()].options;
                exchange.record_failure(options.is_failure(status));
                self.decide_status(key, exchange_key, is_sent)
            }
            Outcome::Failed(fault) => {
                self.fail_exchange(key, fault);
                self.abort_connection(key)
            }
        }
    }

    /// A connection has failed while it was being opened.
    pub(super) fn on_connect_error(&mut self, key: Key, error: &io::Error) {
        let is_queue_full = error.kind() == io::ErrorKind::WouldBlock;
        let is_shortage =
            is_resource_exhausted(error) || error.kind() == io::ErrorKind::AddrNotAvailable;
        let Some(upstream) = self.upstreams.get(key) else { return };
        let Phase::Connecting(exchange) = upstream.phase() else { return };
        let (again_ns, open_until_ns) = (self.now_ns + QUEUE_RETRY_NS, upstream.open_until_ns());
        self.upstreams.set_id(key, None);
        if is_queue_full && again_ns < open_until_ns {
            if self.leave_full_queue(key) {
                return self.close(key);
            }
            return self.upstreams.enter(key, Phase::Reopening(exchange), again_ns, self.now_ns);
        }
        if is_shortage && let Some(oldest) = self.upstreams.oldest_idle() {
            self.close(oldest);
            return self.upstreams.enter(key, Phase::Reopening(exchange), again_ns, self.now_ns);
        }
        let fault = match error.kind() {
            io::ErrorKind::WouldBlock => Fault::QueueFull,
            io::ErrorKind::TimedOut => Fault::ConnectTimeout,
            _ if is_shortage => Fault::Shortage,
            _ => TlsFailure::of(error).map_or(Fault::Refused, Fault::TlsHandshake),
        };
        self.fail_exchange(key, fault);
        self.upstreams.remove(key, self.now_ns);
    }
}
