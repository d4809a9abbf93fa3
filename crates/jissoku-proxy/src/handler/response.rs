//! Responses to clients.

use jissoku_http::date;
use jissoku_server::{Progress, Response};

use super::GatewayHandler;
use crate::diagnostics::write_error;
use crate::slab::Key;
use crate::transfer::{ResponseSink, append_from};

impl GatewayHandler {
    /// Writes what there is of a response.
    pub(super) fn write(&mut self, key: Key, sink: &mut impl ResponseSink) -> Progress {
        let Some(exchange) = self.exchanges.get(key) else {
            sink.close_after();
            return Progress::Complete;
        };
        let was_held = exchange.is_held();
        let next_hop = self.service.upstreams[exchange.upstream()].label();
        let progress = exchange.respond(next_hop, self.now_ns, sink);
        if was_held && !exchange.is_over() {
            self.resume_upstream(key);
        }
        progress
    }
}

impl ResponseSink for Response<'_> {
    fn append(&mut self, bytes: &[u8]) {
        Response::append(self, bytes);
    }

    fn append_from(&mut self, start: usize, bytes: &mut Vec<u8>) {
        append_from(start, bytes, self.output());
    }

    fn date(&self) -> [u8; date::SIZE] {
        *Response::date(self)
    }

    fn keeps_alive(&self) -> bool {
        Response::keeps_alive(self)
    }

    fn close_after(&mut self) {
        Response::close_after(self);
    }

    fn upgrade(&mut self) {
        Response::upgrade(self);
    }

    fn set_sent(&mut self, status: u16, body_size: u64) {
        Response::set_sent(self, status, body_size);
    }

    fn write_error(&mut self, status: u16, fields: &str) {
        write_error(status, fields, self);
    }
}
