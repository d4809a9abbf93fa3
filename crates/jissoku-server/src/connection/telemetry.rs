//! Reports requests and responses to telemetry.

use std::net::SocketAddr;

use jissoku_http::Head;

use super::Connection;
use crate::context::WorkerContext;
use crate::handler::Handler;
use crate::log::ResponseInfo;
use crate::response::ResponseState;
use crate::telemetry::LogSlot;

impl<H: Handler> Connection<H> {
    /// Attaches the log slot of the connection.
    pub(crate) fn with_log_slot(self, log_slot: LogSlot) -> Self {
        Self { log_slot, ..self }
    }

    /// Records the address of the client, if the peer is not the client.
    pub(super) fn record_client(&mut self, client: Option<SocketAddr>) {
        if let Some(entry) = &mut self.log_slot {
            entry.set_peer(client);
        }
    }

    /// Records a parsed request, whose head is at the front of `bytes`.
    #[inline]
    pub(super) fn record_head(
        &mut self,
        head: &Head,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
    ) {
        context.telemetry.begin(&mut self.log_slot, self.arrived_ns, head, bytes);
    }

    /// Records its response.
    #[inline]
    pub(super) fn record_response(
        &mut self,
        response: &ResponseState,
        context: &mut WorkerContext<H>,
    ) {
        context.response_count += 1;
        if context.telemetry.is_on() {
            let ResponseState { status, body_size, .. } = *response;
            let info = ResponseInfo { status, body_size, now_ns: context.now_ns };
            context.telemetry.finish(&mut self.log_slot, info);
        }
    }

    /// Records an error response; `bytes` is the input that was rejected, as far as it is
    /// available.
    pub(super) fn record_rejection(
        &mut self,
        status: u16,
        body_size: u64,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
    ) {
        let answer = ResponseInfo { status, body_size, now_ns: context.now_ns };
        context.telemetry.reject(&mut self.log_slot, answer, bytes);
    }
}
