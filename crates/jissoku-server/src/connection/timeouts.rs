//! Timeouts of a connection.

use jissoku_http::Reject;
use jissoku_os::driver::SendBuffer;

use super::Connection;
use super::state::Reading;
use crate::context::WorkerContext;
use crate::handler::Handler;
use crate::metrics::Counter;

impl<H: Handler> Connection<H> {
    /// Enforces timeouts: closes idle connections silently, and answers 408 to an incomplete
    /// request.
    pub(super) fn check_timeouts(
        &mut self,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        let limits = context.limits;
        let elapsed_ns = self.state.elapsed_ns(context.now_ns);
        let pause_ns = self.state.pause_ns(context.now_ns);
        self.state.forget_early_bytes(limits.counted_size_max(elapsed_ns));
        let awaits_continue = self.request.as_ref().is_some_and(|request| request.awaits_continue);
        match self.state.reading() {
            Reading::First | Reading::Idle if context.may_close_idle(elapsed_ns) => {
                self.state.close();
            }
            Reading::First if elapsed_ns > limits.head_ns_max => {
                self.expire(Counter::HeadDeadline, context);
            }
            Reading::Idle if elapsed_ns > limits.idle_ns_max => {
                self.expire(Counter::IdleDeadline, context);
            }
            Reading::Head if elapsed_ns > limits.head_ns_max => {
                context.telemetry.count(Counter::HeadDeadline, 1);
                let begun = std::mem::take(&mut self.input);
                self.reject(Reject::Timeout, &begun, context, output);
            }
            Reading::Body(size)
                if !awaits_continue
                    && (pause_ns > limits.pause_ns_max || limits.is_too_slow(size, elapsed_ns)) =>
            {
                context.telemetry.count(Counter::BodyDeadline, 1);
                self.reject(Reject::Timeout, &[], context, output);
            }
            Reading::Drain(_) | Reading::Linger(_)
                if elapsed_ns > limits.linger_ns_max || pause_ns > limits.linger_pause_ns_max =>
            {
                context.telemetry.count(Counter::LingerDeadline, 1);
                self.state.cut();
            }
            _ => {}
        }
    }

    /// Whether a shutdown does not wait any longer. A response that has begun, and an upgraded
    /// connection, have more time than a request without one.
    pub(super) fn is_out_of_time(&self, unsent: usize, context: &WorkerContext<H>) -> bool {
        let request = self.request.as_ref();
        if unsent > 0 || request.is_some_and(|request| request.response.status != 0) {
            context.streams_deadline_passed()
        } else {
            context.shutdown_deadline_passed()
        }
    }

    fn expire(&mut self, kind: Counter, context: &mut WorkerContext<H>) {
        context.telemetry.count(kind, 1);
        self.state.close();
    }
}
