//! Requests between their head and the end of their response: calls of the handler.

use jissoku_http::framing::Body;
use jissoku_http::{Head, Method, response};
use jissoku_os::driver::SendBuffer;

use super::Connection;
use super::rejection::write_last;
use super::state::{CallInfo, Intake, Request};
use crate::client_identity::ClientIdentity;
use crate::context::WorkerContext;
use crate::handler::{Handler, Progress, RequestHead};
use crate::head_check::HeadCheck;
use crate::log::LogRecord;
use crate::request_id;
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
        if self.intermediary.is_some() {
            return self.begin_of_intermediary(head, bytes, context);
        }
        self.begin_with_identity(head, bytes, None, context)
    }

    /// As [`Connection::begin`]; `bytes` are those that `head` was parsed from.
    #[inline]
    pub(super) fn begin_with_identity(
        &mut self,
        head: &Head,
        bytes: &[u8],
        identity: Option<&ClientIdentity<'_>>,
        context: &mut WorkerContext<H>,
    ) -> Request<H::Request> {
        if let Some(identity) = identity {
            self.record_client(identity.client);
        }
        if context.request_ids.is_some() {
            return self.begin_with_id(head, bytes, identity, context);
        }
        self.record_head(head, bytes, context);
        self.pass_head(head, bytes, identity, context)
    }

    /// As [`Connection::begin_with_identity`], with an id: that of a trusted proxy, or a new one.
    #[cold]
    fn begin_with_id(
        &mut self,
        head: &Head,
        bytes: &[u8],
        identity: Option<&ClientIdentity<'_>>,
        context: &mut WorkerContext<H>,
    ) -> Request<H::Request> {
        let is_trusted = identity.is_some_and(|identity| identity.trusted_fields.is_some());
        let ids = context.request_ids.as_mut();
        self.request_id = ids.map(|ids| ids.line(head, bytes, is_trusted));
        let line = self.request_id.clone().unwrap_or_default();
        let (name, id) = request_id::name_and_value(&line);
        self.record_head(head, bytes, context);
        if let Some(entry) = &mut self.log_slot {
            entry.set_request_id(id);
        }
        let mut text = Vec::new();
        let head = head.with_field(bytes, (name, id), &mut text);
        self.pass_head(&head, &text, identity, context)
    }

    #[inline]
    fn pass_head(
        &mut self,
        head: &Head,
        bytes: &[u8],
        identity: Option<&ClientIdentity<'_>>,
        context: &mut WorkerContext<H>,
    ) -> Request<H::Request> {
        let mut text = std::mem::take(&mut context.head_text);
        let rewritten = head.in_origin_form(bytes, &mut text);
        let (head, bytes) = rewritten.as_ref().map_or((head, bytes), |head| (head, &text));
        let request_id = self.request_id.as_ref();
        let request_head =
            RequestHead { head, bytes, now_ns: context.now_ns, identity, request_id };
        let state = context.handler.on_head(&mut self.handler_state, &request_head);
        let response = ResponseState::new(head);
        context.head_text = text;
        Request { state, response, is_streamed: false, awaits_continue: false }
    }

    /// Has the handler write the response to a complete request, or the next part of it.
    #[inline]
    pub(super) fn respond(
        &mut self,
        mut request: Request<H::Request>,
        call: CallInfo,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        match self.call_handler(&mut request, call, context, output) {
            Progress::Complete => {
                self.record_response(&request.response, context);
                if request.response.keeps_alive {
                    self.state.finish(context.now_ns);
                } else {
                    self.state.close();
                }
            }
            progress => self.await_handler(request, progress, context),
        }
    }

    #[inline]
    pub(super) fn call_handler(
        &mut self,
        request: &mut Request<H::Request>,
        CallInfo { is_last, unsent }: CallInfo,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Progress {
        if is_last && context.is_stopping() && request.response.status == 0 && !self.moves(context)
        {
            request.response.keeps_alive = false;
        }
        if self.state.has_timer() {
            // The timer dies with what it is for; the handler may ask for another one.
            context.timers.cancel(self.id);
        }
        let times = RequestTimes { now_ns: context.now_ns, received_ns: self.state.arrived_ns() };
        let WorkerContext { handler, status_lines, telemetry, early, .. } = context;
        let state = &mut request.response;
        let log_record = LogRecord::new(self.log_slot.as_deref_mut());
        let mut response = Response {
            output,
            status_lines,
            state,
            times,
            unsent,
            log_record,
            telemetry,
            early: Some(early),
            request_id: self.request_id.as_ref(),
        };
        handler.respond(&mut self.handler_state, &mut request.state, &mut response)
    }

    /// Keeps a request whose response is not complete.
    fn await_handler(
        &mut self,
        request: Request<H::Request>,
        progress: Progress,
        context: &mut WorkerContext<H>,
    ) {
        if progress == Progress::Reset {
            return self.reset(&request, context);
        }
        if request.response.is_upgraded {
            return self.keep_streaming(request, progress, context);
        }
        if let Progress::Until(due_ns) = progress {
            context.timers.set(due_ns, self.id);
        }
        self.request = Some(request);
        self.state.await_response(progress);
    }

    /// Continues a response, and after its end the requests behind it.
    pub(super) fn continue_response(
        &mut self,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        let Some(request) = self.request.take() else { return };
        if self.state.is_request_complete() {
            let call = CallInfo { is_last: self.input.is_empty(), unsent };
            self.respond(request, call, context, output);
        } else {
            self.respond_early(request, unsent, context, output);
        }
        if self.input.is_empty() {
            return;
        }
        match self.state.intake() {
            Intake::Parse => self.state.yield_turn(),
            Intake::Keep => {}
            Intake::PassOn | Intake::Discard => self.read_input(context, output),
        }
    }

    /// Resets the connection in the middle of a response.
    #[cold]
    pub(super) fn reset(&mut self, request: &Request<H::Request>, context: &mut WorkerContext<H>) {
        self.record_response(&request.response, context);
        self.state.reset();
    }
}

impl<H: Handler> Connection<H> {
    /// The handler gets only requests that pass a check.
    pub(crate) fn set_head_check(&mut self, check: HeadCheck) {
        self.head_check = Some(Box::new(check));
    }

    /// Answers a request that does not pass. Returns whether it has; the connection ends then.
    #[cold]
    pub(super) fn refuses(
        &mut self,
        head: &Head,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> bool {
        if self.intermediary.as_ref().is_some_and(|it| it.has_head()) {
            // A packet of an intermediary, whose client has not seen the certificate.
            return false;
        }
        let refusal = self.head_check.as_ref().and_then(|check| check.refusal(head, bytes));
        let Some((status, fields)) = refusal else { return false };
        let is_head = head.method == Method::Head;
        let answer = (status, fields.as_str(), response::reason(status));
        let body_size = write_last(answer, is_head, &context.status_lines, output);
        self.record_rejection(status, body_size, bytes, context);
        self.input = Vec::new();
        let announced = match head.body {
            Body::Length(size) if !head.expects_continue => size,
            Body::Chunked if !head.expects_continue => u64::MAX,
            _ => 0,
        };
        self.discard_behind(announced, context);
        true
    }
}
