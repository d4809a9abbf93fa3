//! Requests between their head and the end of their response: calls of the handler.

use jissoku_http::Head;
use jissoku_os::driver::SendBuffer;

use super::Connection;
use super::phase::{Phase, Request};
use crate::context::WorkerContext;
use crate::handler::{Handler, Progress, RequestHead};
use crate::response::{RequestTimes, Response, ResponseState};

impl<H: Handler> Connection<H> {
    /// Passes a head to the handler.
    #[inline]
    pub(super) fn begin(
        &mut self,
        head: &Head,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
    ) -> Request<H::Request> {
        self.record_head(head, bytes, context);
        let request_head = RequestHead { head, bytes, now_ns: context.now_ns };
        let state = context.handler.on_head(&mut self.state, &request_head);
        Request { state, response: ResponseState::new(head) }
    }

    /// Has the handler write the response to a complete request, or the next part of it. `is_last`:
    /// no bytes of a later request were received.
    #[inline]
    pub(super) fn respond(
        &mut self,
        mut request: Request<H::Request>,
        is_last: bool,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        if is_last && context.is_stopping() && request.response.status == 0 {
            request.response.keeps_alive = false;
        }
        let times = RequestTimes { now_ns: context.now_ns, received_ns: self.arrived_ns };
        let WorkerContext { handler, status_lines, .. } = context;
        let mut response = Response { output, status_lines, state: &mut request.response, times };
        match handler.respond(&mut self.state, &mut request.state, &mut response) {
            Progress::Complete => {
                self.record_response(&request.response, context);
                self.finish_response(request.response.keeps_alive, context);
            }
            progress => self.await_handler(request, progress, context),
        }
    }

    /// Keeps a request whose response is not complete.
    fn await_handler(
        &mut self,
        request: Request<H::Request>,
        progress: Progress,
        context: &mut WorkerContext<H>,
    ) {
        if let Progress::Until(due_ns) = progress {
            context.timers.add(due_ns, self.id);
        }
        self.request = Some(request);
        self.phase = Phase::Responding(progress);
    }

    /// Continues a response, and after its end the requests behind it.
    pub(super) fn continue_response(
        &mut self,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        let Some(request) = self.request.take() else { return };
        self.respond(request, self.input.is_empty(), context, output);
        if self.phase == Phase::Idle && !self.input.is_empty() {
            self.set_phase(Phase::Yielded, context);
        }
    }

    #[inline]
    fn finish_response(&mut self, persists: bool, context: &WorkerContext<H>) {
        self.phase = if persists { Phase::Idle } else { Phase::Closing };
        self.since_ns = context.now_ns;
    }
}
