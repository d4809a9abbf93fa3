//! Events of connections to the server.

use std::io;
use std::sync::Arc;

use jissoku_os::descriptors::is_resource_exhausted;
use jissoku_os::driver::{Next, SendBuffer};
use jissoku_server::{ForwardedNotes, UpstreamCounter};
use jissoku_upstream::health;

use super::GatewayHandler;
use super::connections::QUEUE_RETRY_NS;
use super::response::diagnostics;
use crate::exchange::Ending;
use crate::failure::{Fault, Received};
use crate::slab::Key;
use crate::transfer::append_from;
use crate::upstream::{Outcome, Sending, State, Upstream};

impl GatewayHandler {
    /// Sends the request of a connection that is established.
    pub(super) fn send(&mut self, key: Key, output: &mut SendBuffer) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        let State::Busy(exchange_key, _) = upstream.state() else { return Next::Close };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return Next::Close };
        exchange.place.phases.sent_ns = self.now_ns;
        match exchange.place.forwarding.deadline_field {
            None => exchange.write_request(output),
            Some(field) => {
                let name = &self.service.deadline_fields[field];
                exchange.write_request_until(name, self.now_ns, output);
            }
        }
        if let Some(upload) = &mut exchange.upload {
            if upload.is_held() {
                self.ready.push_back(exchange.client);
            }
            let mut bytes = upload.take();
            append_from(0, &mut bytes, output);
        }
        let deadline_ns = exchange.place.head_deadline_ns(self.now_ns);
        self.upstreams.enter(key, State::Busy(exchange_key, Sending::Done), deadline_ns);
        Next::Receive
    }

    /// Sends what has been received of a request, of which the start was sent.
    fn send_more(&mut self, key: Key, exchange_key: Key, output: &mut SendBuffer) {
        let Some(exchange) = self.exchanges.get(exchange_key) else { return };
        let Some(upload) = &mut exchange.upload else { return };
        if upload.is_empty() {
            return;
        }
        if upload.is_held() {
            self.ready.push_back(exchange.client);
        }
        let mut bytes = upload.take();
        append_from(0, &mut bytes, output);
        let tunnel_ns = self.service.timeouts.tunnel_ns;
        let limit_ns =
            if exchange.is_tunnel() { tunnel_ns } else { exchange.place.forwarding.head_ns };
        self.upstreams.extend(key, self.now_ns + limit_ns);
    }

    pub(super) fn on_connected(&mut self, key: Key, output: &mut SendBuffer) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        let exchange_key = match upstream.state() {
            State::Connecting(exchange_key) => exchange_key,
            State::Spare => return self.keep(key),
            _ => return Next::Close,
        };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return Next::Close };
        let deadline_ns = exchange.place.head_deadline_ns(self.now_ns);
        let request = (exchange_key, exchange.method.is_head);
        self.upstreams.begin(key, request, deadline_ns);
        self.send(key, output)
    }

    pub(super) fn on_resumed(&mut self, key: Key, unsent: usize, output: &mut SendBuffer) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        match upstream.state() {
            State::Connecting(_) | State::Reopening(_) | State::Spare => Next::Receive,
            State::Idle => {
                // A second has passed.
                let (upstream, endpoint) = (upstream.pool, Arc::clone(&upstream.endpoint));
                self.trim(upstream, &endpoint);
                Next::Receive
            }
            State::Ending => Next::Close,
            // What was not sent is of no use any more.
            State::Closing => Next::Abort,
            State::Busy(_, Sending::Pending) => self.send(key, output),
            State::Busy(exchange_key, Sending::Done) => {
                if unsent == 0 {
                    self.send_more(key, exchange_key, output);
                }
                match self.exchanges.get(exchange_key) {
                    Some(exchange) if exchange.is_tunnel() => {
                        self.next_of_tunnel(key, exchange_key)
                    }
                    Some(exchange) if exchange.is_held() => Next::Suspend,
                    Some(_) => Next::Receive,
                    None => Next::Abort,
                }
            }
            State::Finishing(exchange_key) => {
                if unsent == 0 {
                    self.send_more(key, exchange_key, output);
                }
                let Some(exchange) = self.exchanges.get(exchange_key) else { return Next::Abort };
                if !exchange.is_handed_over() {
                    return Next::Receive;
                }
                self.end_upload(exchange_key);
                self.end(key)
            }
        }
    }

    /// What is next for the connection of a tunnel.
    fn next_of_tunnel(&mut self, key: Key, exchange_key: Key) -> Next {
        let Some(exchange) = self.exchanges.get(exchange_key) else { return Next::Abort };
        match (exchange.server_has_ended, exchange.is_handed_over()) {
            (true, true) => {
                exchange.ending = Some(Ending::Complete);
                self.end_upload(exchange_key);
                self.end(key)
            }
            (true, false) => Next::Suspend,
            (false, _) if exchange.is_held() => Next::Suspend,
            (false, true) => Next::ShutdownWrite,
            (false, false) => Next::Receive,
        }
    }

    /// The client of a complete response has sent its request to the end, or need not.
    pub(super) fn end_upload(&mut self, exchange_key: Key) {
        if let Some(exchange) = self.exchanges.get(exchange_key) {
            if let Some(upload) = &mut exchange.upload {
                upload.stop();
            }
            exchange.upstream = None;
            self.ready.wake(exchange_key, exchange);
        }
        self.release(exchange_key, health::Outcome::Success);
    }

    pub(super) fn on_data(&mut self, key: Key, bytes: &[u8], unsent: usize) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        let exchange_key = match upstream.state() {
            State::Busy(exchange_key, Sending::Done) => exchange_key,
            // Bytes that were not asked for: they must not become the next response.
            State::Busy(exchange_key, Sending::Pending) => {
                self.count_unsolicited(key);
                self.replace(key, exchange_key);
                return self.forget(key);
            }
            State::Finishing(exchange_key) => {
                if let Some(exchange) = self.exchanges.get(exchange_key) {
                    exchange.place.notes.add(ForwardedNotes::EXCESS);
                }
                self.count_excess(exchange_key, true);
                self.end_upload(exchange_key);
                return self.forget(key);
            }
            State::Idle => {
                self.count_unsolicited(key);
                return self.forget(key);
            }
            State::Connecting(_)
            | State::Reopening(_)
            | State::Spare
            | State::Ending
            | State::Closing => return self.forget(key),
        };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return self.forget(key) };
        let is_sent = unsent == 0 && exchange.is_handed_over();
        let retried = &self.service.upstreams[upstream.pool].options.retry_statuses;
        let outcome = upstream.read(bytes, is_sent, exchange, retried);
        if exchange.received == Received::Head && exchange.place.phases.head_ns == 0 {
            self.on_response(exchange_key);
        }
        self.conclude(key, exchange_key, outcome)
    }

    /// The head of the response to an exchange was written.
    pub(super) fn on_response(&mut self, exchange_key: Key) {
        let Some(exchange) = self.exchanges.get(exchange_key) else { return };
        exchange.place.phases.head_ns = self.now_ns;
        let upstream = &self.service.upstreams[exchange.place.forwarding.upstream];
        exchange.place.is_failure |= upstream.options.is_failure(exchange.output.status);
        if exchange.place.notes.has(ForwardedNotes::EARLY) {
            upstream.count(UpstreamCounter::Early);
        }
        if exchange.place.is_diagnosed {
            let lines = diagnostics(&self.service, exchange, None, self.now_ns);
            exchange.output.add_fields(&lines);
        }
        self.record_latency(exchange_key);
    }

    pub(super) fn on_eof(&mut self, key: Key) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        let Some(exchange_key) = upstream.exchange() else { return self.forget(key) };
        match upstream.state() {
            State::Finishing(_) => {
                self.end_upload(exchange_key);
                return self.forget(key);
            }
            State::Busy(_, Sending::Pending) => {
                self.replace(key, exchange_key);
                return self.forget(key);
            }
            _ => {}
        }
        let Some(exchange) = self.exchanges.get(exchange_key) else { return self.forget(key) };
        if exchange.is_tunnel() {
            exchange.server_has_ended = true;
            self.ready.push_back(exchange.client);
            return self.next_of_tunnel(key, exchange_key);
        }
        let outcome = upstream.finish(exchange);
        self.conclude(key, exchange_key, outcome);
        if self.upstreams.get(key).is_some_and(|one| matches!(one.state(), State::Finishing(_))) {
            self.end_upload(exchange_key);
        }
        self.forget(key)
    }

    /// Applies the outcome of received bytes.
    pub(super) fn conclude(&mut self, key: Key, exchange_key: Key, outcome: Outcome) -> Next {
        let Some(exchange) = self.exchanges.get(exchange_key) else { return self.forget(key) };
        match outcome {
            Outcome::Partial => {
                let is_held = exchange.is_held();
                // A client that uploads may have been asked to continue.
                if !exchange.output.bytes.is_empty() || exchange.upload.is_some() {
                    self.ready.wake(exchange_key, exchange);
                }
                let timeouts = &self.service.timeouts;
                let limit_ns =
                    if exchange.is_tunnel() { timeouts.tunnel_ns } else { timeouts.read_ns };
                let (is_orphan, is_tunnel) = (exchange.is_orphan(), exchange.is_tunnel());
                // A head that comes in small parts, or after interim responses, has no more time.
                if is_tunnel || !self.upstreams.get_ref(key).is_some_and(Upstream::is_in_head) {
                    self.upstreams.extend(key, self.now_ns + limit_ns);
                }
                if is_orphan {
                    self.limit_orphan(key, exchange_key);
                }
                if is_held { Next::Suspend } else { Next::Receive }
            }
            Outcome::Complete { is_reusable, has_excess } => {
                self.count_excess(exchange_key, has_excess);
                let Some(exchange) = self.exchanges.get(exchange_key) else {
                    return self.forget(key);
                };
                self.ready.wake(exchange_key, exchange);
                let upload = exchange.upload.as_ref();
                if upload.is_some_and(|upload| upload.is_receiving() || !upload.is_empty()) {
                    // The server has responded early, and takes the rest.
                    let until_ns = self.now_ns + self.service.timeouts.read_ns;
                    self.upstreams.enter(key, State::Finishing(exchange_key), until_ns);
                    self.ready.extend(self.upstreams.get(key).and_then(|upstream| upstream.id));
                    return Next::Receive;
                }
                exchange.upstream = None;
                let next = if is_reusable { self.keep(key) } else { self.forget(key) };
                // Last, since the next request in the queue can use this connection.
                self.release(exchange_key, health::Outcome::Success);
                next
            }
            Outcome::Undecided { status, is_sent } => {
                exchange.place.is_failure = self.service.upstreams
                    [exchange.place.forwarding.upstream]
                    .options
                    .is_failure(status);
                self.decide_status(key, exchange_key, is_sent)
            }
            Outcome::Failed(fault) => {
                self.fail_exchange(key, fault);
                self.forget(key)
            }
        }
    }

    /// A connection becomes idle.
    pub(super) fn keep(&mut self, key: Key) -> Next {
        let Some(connection) = self.upstreams.get(key) else { return Next::Close };
        let (upstream, endpoint) = (connection.pool, Arc::clone(&connection.endpoint));
        let servers = &mut self.servers[upstream];
        if !servers.has(&endpoint) || self.is_retired {
            return self.forget(key);
        }
        connection.is_busy = false;
        let kept_ns = connection.kept_ns;
        servers.pool.add(key, &endpoint, self.now_ns);
        let idle_ns = self.service.upstreams[upstream].options.idle_ns;
        let until_ns = self.now_ns + kept_ns.map_or(idle_ns, |ns| ns.min(idle_ns));
        self.upstreams.enter(key, State::Idle, until_ns);
        self.trim(upstream, &endpoint);
        Next::Receive
    }

    /// A connection is of no use when its output is sent.
    fn end(&mut self, key: Key) -> Next {
        self.end_busy(key);
        let until_ns = self.now_ns + self.service.timeouts.read_ns;
        self.upstreams.enter(key, State::Ending, until_ns);
        Next::Close
    }

    /// A connection is of no use any more. An idle one was ended by its server.
    pub(super) fn forget(&mut self, key: Key) -> Next {
        self.end_busy(key);
        if let Some(upstream) = self.upstreams.get(key)
            && upstream.state() == State::Idle
        {
            let pool = &mut self.servers[upstream.pool].pool;
            pool.remove_closed(key, &upstream.endpoint, self.now_ns);
        }
        self.upstreams.enter_closing(key);
        // What was not sent is of no use any more.
        Next::Abort
    }

    /// A connection has failed while it was being opened.
    pub(super) fn on_connect_error(&mut self, key: Key, error: &io::Error) {
        let is_queue_full = error.kind() == io::ErrorKind::WouldBlock;
        let is_shortage =
            is_resource_exhausted(error) || error.kind() == io::ErrorKind::AddrNotAvailable;
        let Some(upstream) = self.upstreams.get(key) else { return };
        let State::Connecting(exchange) = upstream.state() else { return };
        upstream.id = None;
        let again_ns = self.now_ns + QUEUE_RETRY_NS;
        if is_queue_full && again_ns < upstream.open_until_ns {
            if self.leave_full_queue(key) {
                return self.close(key);
            }
            return self.upstreams.enter(key, State::Reopening(exchange), again_ns);
        }
        if is_shortage && let Some(oldest) = self.take_oldest() {
            self.close(oldest);
            return self.upstreams.enter(key, State::Reopening(exchange), again_ns);
        }
        let fault = match error.kind() {
            io::ErrorKind::WouldBlock => Fault::QueueFull,
            io::ErrorKind::TimedOut => Fault::ConnectTimeout,
            _ if is_shortage => Fault::Shortage,
            _ => Fault::Refused,
        };
        self.fail_exchange(key, fault);
        self.end_busy(key);
        self.upstreams.remove(key);
    }
}
