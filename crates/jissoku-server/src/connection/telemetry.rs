//! Reports requests and responses to telemetry.

use std::net::SocketAddr;

use jissoku_http::Head;

use super::Connection;
use super::state::Request;
use crate::context::WorkerContext;
use crate::handler::{AbandonReason, Handler};
use crate::log::{LogRecord, ResponseInfo};
use crate::response::ResponseState;
use crate::telemetry::LogSlot;

impl<H: Handler> Connection<H> {
    /// Attaches the log slot of the connection.
    pub(crate) fn with_log_slot(self, log_slot: LogSlot) -> Self {
        Self { log_slot, ..self }
    }

    /// Records that the connection was closed.
    pub(crate) fn end(self, context: &mut WorkerContext<H>) {
        let Self { id, mut handler_state, request, mut log_slot, is_lingering, .. } = self;
        context.lingering -= usize::from(is_lingering);
        context.timers.cancel(id);
        if let Some(Request { state: request, response, .. }) = request {
            let mut log_record = LogRecord::new(log_slot.as_deref_mut());
            let reason = AbandonReason::Closed;
            context.handler.on_abandon(&mut handler_state, request, reason, &mut log_record);
            let ResponseState { status, body_size, .. } = response;
            let info = ResponseInfo { status, body_size, now_ns: context.now_ns };
            context.telemetry.abandon(&mut log_slot, info);
        }
        context.telemetry.close(log_slot);
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
        context.telemetry.begin(&mut self.log_slot, self.state.arrived_ns(), head, bytes);
    }

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

    /// The server has rejected the request, if there is one.
    pub(super) fn abandon_request(&mut self, context: &mut WorkerContext<H>) {
        if let Some(Request { state, response, .. }) = self.request.take() {
            context.timers.cancel(self.id);
            let mut log_record = LogRecord::new(self.log_slot.as_deref_mut());
            let reason = AbandonReason::Rejected;
            context.handler.on_abandon(&mut self.handler_state, state, reason, &mut log_record);
            if response.status != 0 {
                self.record_response(&response, context);
            }
        }
    }
}
