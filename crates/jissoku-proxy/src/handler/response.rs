//! Responses to clients.

use std::sync::Arc;

use jissoku_http::date;
use jissoku_server::{Progress, Response};

use super::{GatewayHandler, Reply};
use crate::Key;
use crate::client::{Client, ClientSide, ClientStep};
use crate::diagnostics;
use crate::transfer::{ResponseSink, append_from};

impl GatewayHandler {
    /// A response is wanted: writes what there is of it.
    pub(super) fn reply(
        &mut self,
        client: &Client,
        request: &mut ClientSide,
        sink: &mut impl ResponseSink,
    ) -> Reply {
        let key = match self.step(client, request) {
            ClientStep::Refuse(error, is_cut_off) => {
                if is_cut_off {
                    sink.close_after();
                }
                let error_type = Some(error.error_type()).filter(|name| !name.is_empty());
                let lines = || diagnostics::lines("", None, error_type, None);
                let fields = request.is_diagnosed.then(lines).unwrap_or_default();
                sink.write_error(error.status(), &fields);
                return Reply { progress: Progress::Complete, ended: None, refused: Some(error) };
            }
            ClientStep::Wait => {
                return Reply { progress: Progress::Pending, ended: None, refused: None };
            }
            ClientStep::Forward(key, _) | ClientStep::Continue(key) => self.resolve_hedge(key),
        };
        request.forward(key);
        let progress = if self.abort(key, sink) { Progress::Reset } else { self.write(key, sink) };
        let is_over = matches!(progress, Progress::Complete | Progress::Reset);
        Reply { progress, ended: is_over.then_some(key), refused: None }
    }

    /// Writes what there is of the response to an exchange.
    fn write(&mut self, key: Key, sink: &mut impl ResponseSink) -> Progress {
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

    fn request_id(&self) -> Option<Arc<[u8]>> {
        Response::request_id(self).cloned()
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
        diagnostics::write_error(status, fields, self);
    }
}
