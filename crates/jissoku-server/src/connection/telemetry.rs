//! Reports requests and responses to telemetry.

use jissoku_http::Head;

use super::Connection;
use crate::handler::ResponsePlan;
use crate::log::ResponseInfo;
use crate::telemetry::LogSlot;
use crate::worker::WorkerContext;

impl Connection {
    /// Attaches the log slot of the connection.
    pub(crate) fn with_log_slot(self, log_slot: LogSlot) -> Self {
        Self { log_slot, ..self }
    }

    /// Returns the log slot.
    pub(crate) fn into_log_slot(self) -> LogSlot {
        self.log_slot
    }

    /// Records a parsed request, whose head is at the front of `bytes`.
    #[inline]
    pub(super) fn record_head(&mut self, head: &Head, bytes: &[u8], context: &mut WorkerContext) {
        context.telemetry().begin(&mut self.log_slot, self.arrived_ns, head, bytes);
    }

    /// Records its response.
    #[inline]
    pub(super) fn record_response(&mut self, plan: &ResponsePlan, context: &mut WorkerContext) {
        if context.telemetry().is_on() {
            let reply = context.service().reply(&plan.kind);
            let body_size = if plan.is_head_only { 0 } else { reply.body_size() };
            let answer =
                ResponseInfo { status: reply.status(), body_size, now_ns: context.now_ns() };
            context.telemetry().finish(&mut self.log_slot, answer);
        }
    }

    /// Records an error response; `bytes` is the input that was rejected, as far as it is
    /// available.
    pub(super) fn record_rejection(
        &mut self,
        status: u16,
        body_size: u64,
        bytes: &[u8],
        context: &mut WorkerContext,
    ) {
        let answer = ResponseInfo { status, body_size, now_ns: context.now_ns() };
        context.telemetry().reject(&mut self.log_slot, answer, bytes);
    }
}
