//! Events of connections to the server.

use std::io;
use std::sync::Arc;

use jissoku_os::descriptors::is_resource_exhausted;
use jissoku_os::driver::{Next, SendBuffer};
use jissoku_upstream::health;

use super::GatewayHandler;
use super::connections::QUEUE_RETRY_NS;
use crate::failure::Fault;
use crate::pool::Pool;
use crate::slab::Key;
use crate::upstream::{Outcome, Sending, State};

impl GatewayHandler {
    /// Sends the request of a connection that is established.
    pub(super) fn send(&mut self, key: Key, output: &mut SendBuffer) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        let State::Busy(exchange_key, _) = upstream.state else { return Next::Close };
        upstream.state = State::Busy(exchange_key, Sending::Done);
        let Some(exchange) = self.exchanges.get(exchange_key) else { return Next::Close };
        output.append(&exchange.request);
        let deadline_ns = exchange.place.head_deadline_ns(self.now_ns);
        self.set_deadline(key, deadline_ns);
        Next::Receive
    }

    pub(super) fn on_connected(&mut self, key: Key, output: &mut SendBuffer) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        let State::Connecting(exchange_key) = upstream.state else { return Next::Close };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return Next::Close };
        upstream.begin(exchange_key, exchange.method.is_head);
        self.send(key, output)
    }

    pub(super) fn on_resumed(&mut self, key: Key, output: &mut SendBuffer) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        match upstream.state {
            State::Connecting(_) | State::Idle => Next::Receive,
            State::Closing => Next::Close,
            State::Busy(_, Sending::Pending) => self.send(key, output),
            State::Busy(exchange, Sending::Done) => match self.exchanges.get(exchange) {
                Some(exchange) if exchange.is_held() => Next::Suspend,
                Some(_) => Next::Receive,
                None => Next::Close,
            },
        }
    }

    pub(super) fn on_data(&mut self, key: Key, bytes: &[u8], unsent: usize) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        let exchange_key = match upstream.state {
            State::Busy(exchange_key, Sending::Done) => exchange_key,
            // Bytes that were not asked for: they must not become the next response.
            State::Busy(..) => {
                self.fail_exchange(key, Fault::Closed);
                return self.forget(key);
            }
            State::Idle | State::Connecting(_) | State::Closing => return self.forget(key),
        };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return self.forget(key) };
        let outcome = upstream.read(bytes, unsent == 0, exchange);
        self.conclude(key, exchange_key, outcome)
    }

    pub(super) fn on_eof(&mut self, key: Key) -> Next {
        let Some(upstream) = self.upstreams.get(key) else { return Next::Close };
        let Some(exchange_key) = upstream.exchange() else { return self.forget(key) };
        let Some(exchange) = self.exchanges.get(exchange_key) else { return self.forget(key) };
        let outcome = upstream.finish(exchange);
        self.conclude(key, exchange_key, outcome);
        self.forget(key)
    }

    /// Applies the outcome of received bytes.
    pub(super) fn conclude(&mut self, key: Key, exchange_key: Key, outcome: Outcome) -> Next {
        let Some(exchange) = self.exchanges.get(exchange_key) else { return self.forget(key) };
        match outcome {
            Outcome::Partial => {
                let is_held = exchange.is_held();
                if !exchange.output.bytes.is_empty() {
                    self.ready.push_back(exchange.client);
                }
                self.set_deadline(key, self.now_ns + self.service.timeouts.read_ns);
                if is_held { Next::Suspend } else { Next::Receive }
            }
            Outcome::Complete { is_reusable } => {
                self.ready.push_back(exchange.client);
                let next = if is_reusable { self.keep(key) } else { self.forget(key) };
                // Last, since the next request in the queue can use this connection.
                self.release(exchange_key, health::Outcome::Success);
                next
            }
            Outcome::Failed(fault) => {
                self.fail_exchange(key, fault);
                self.forget(key)
            }
        }
    }

    /// A connection becomes idle.
    fn keep(&mut self, key: Key) -> Next {
        let Some(connection) = self.upstreams.get(key) else { return Next::Close };
        let (upstream, endpoint) = (connection.pool, Arc::clone(&connection.endpoint));
        let servers = &mut self.servers[upstream];
        if !servers.has(&endpoint) {
            return self.forget(key);
        }
        connection.state = State::Idle;
        let idle_max = servers.idle_max();
        let oldest = servers.pool.add(key, endpoint, self.now_ns, idle_max);
        let idle_ns = self.service.upstreams[upstream].options.idle_ns;
        self.set_deadline(key, self.now_ns + idle_ns);
        if let Some(oldest) = oldest {
            self.close(oldest);
        }
        Next::Receive
    }

    /// A connection is of no use any more.
    pub(super) fn forget(&mut self, key: Key) -> Next {
        if let Some(upstream) = self.upstreams.get(key) {
            if upstream.state == State::Idle {
                self.servers[upstream.pool].pool.remove(key);
            }
            upstream.state = State::Closing;
        }
        Next::Close
    }

    /// A connection has failed while it was being opened.
    pub(super) fn on_connect_error(&mut self, key: Key, error: &io::Error) {
        let is_queue_full = error.kind() == io::ErrorKind::WouldBlock;
        let is_shortage =
            is_resource_exhausted(error) || error.kind() == io::ErrorKind::AddrNotAvailable;
        let Some(upstream) = self.upstreams.get(key) else { return };
        if is_queue_full && self.now_ns + QUEUE_RETRY_NS < upstream.open_until_ns {
            upstream.id = None;
            return self.set_deadline(key, self.now_ns + QUEUE_RETRY_NS);
        }
        let mut pools = self.servers.iter_mut().map(|servers| &mut servers.pool);
        if is_shortage && let Some(oldest) = pools.find_map(Pool::take_oldest) {
            upstream.id = None;
            self.close(oldest);
            return self.set_deadline(key, self.now_ns + QUEUE_RETRY_NS);
        }
        let fault = match error.kind() {
            io::ErrorKind::WouldBlock => Fault::QueueFull,
            io::ErrorKind::TimedOut => Fault::ConnectTimeout,
            _ if is_shortage => Fault::Shortage,
            _ => Fault::Refused,
        };
        self.fail_exchange(key, fault);
        self.upstreams.remove(key);
    }
}
