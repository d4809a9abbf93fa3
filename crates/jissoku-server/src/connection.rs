//! One connection: parses requests, writes responses, and enforces timeouts.

mod intermediary;
mod rejection;
mod request;
mod state;
mod streaming;
mod telemetry;
#[cfg(test)]
mod tests;
mod timeouts;
mod write_stall;

use std::sync::Arc;

use jissoku_http::framing::Body;
use jissoku_http::response;
use jissoku_http::{Event, Head, Reject, RequestParser};
use jissoku_os::driver::{Action, ConnectionId, SendBuffer};

use crate::connection_limiter::Permit;
use crate::context::WorkerContext;
use crate::handler::{BodyFlow, Handler};
use crate::head_check::HeadCheck;
use crate::intermediary::Intermediary;
use crate::limits::LINGERING_MAX;
use crate::metrics::Counter;
use crate::telemetry::LogSlot;

use rejection::{write_over_limit, write_rejection};
use state::{CallInfo, Intake, Request, State};
use write_stall::WriteStall;

/// The state of a connection between two calls.
#[derive(Debug)]
pub(crate) struct Connection<H: Handler> {
    id: ConnectionId,
    permit: Permit,
    parser: RequestParser,
    state: State,
    /// The request whose body is being read or whose response is not complete.
    request: Option<Request<H::Request>>,
    /// Received bytes that could not be processed yet: the start of a head, or requests behind one
    /// without a complete response. Empty for an idle connection.
    input: Vec<u8>,
    /// Whether it is counted as one that discards input.
    is_lingering: bool,
    /// Progress of a client that does not read its responses.
    write_stall: WriteStall,
    handler_state: H::Connection,
    log_slot: LogSlot,
    /// `None` if the peer is a client, as far as is known.
    intermediary: Option<Box<Intermediary>>,
    /// Which requests the handler gets; `None` for all.
    head_check: Option<Box<HeadCheck>>,
    /// The header line with the id of the last request, if requests get one.
    request_id: Option<Arc<[u8]>>,
    /// Whether another worker could serve it: nothing is known of it but its socket.
    is_movable: bool,
}

impl<H: Handler> Connection<H> {
    pub(crate) fn new(
        id: ConnectionId,
        permit: Permit,
        handler_state: H::Connection,
        now_ns: u64,
    ) -> Self {
        Self {
            id,
            permit,
            parser: RequestParser::new(),
            state: State::new(permit.is_over_limit, now_ns),
            request: None,
            input: Vec::new(),
            is_lingering: false,
            write_stall: WriteStall::default(),
            handler_state,
            log_slot: None,
            intermediary: None,
            head_check: None,
            request_id: None,
            is_movable: false,
        }
    }

    /// A connection of plain text, which may be passed on to another worker.
    pub(crate) fn with_moves(mut self) -> Self {
        self.is_movable = self.intermediary.as_ref().is_none_or(|it| it.is_of_requests());
        self
    }

    /// A connection that another worker has passed on while it was idle.
    pub(crate) const fn after_move(mut self) -> Self {
        self.state.after_move();
        self
    }

    /// What the driver is to do next: to pass the connection on if another worker is to continue.
    #[inline]
    fn next_or_move(&self, context: &WorkerContext<H>) -> Action {
        if self.state.is_idle() && self.input.is_empty() && self.moves(context) {
            return Action::Move;
        }
        self.state.next()
    }

    /// Whether another worker serves the next request.
    #[inline]
    fn moves(&self, context: &WorkerContext<H>) -> bool {
        self.is_movable && context.moves_connections()
    }

    /// Its permit of the connection limiter.
    pub(crate) const fn permit(&self) -> Permit {
        self.permit
    }

    /// Panics unless its invariants hold.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.state.check(self.request.is_some());
    }

    /// Processes received bytes.
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        if self.state.is_refusal_due() {
            self.reject_over_limit(context, output);
        }
        self.state.receive(context.now_ns);
        if self.input.is_empty() {
            let used = self.read(bytes, context, output);
            self.input.extend_from_slice(&bytes[used..]);
        } else {
            self.input.extend_from_slice(bytes);
            self.read_input(context, output);
        }
        self.next_or_move(context)
    }

    /// Rejects a plaintext request on a TLS port.
    pub(crate) fn reject_plaintext(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        self.reject(Reject::TlsMissing, bytes, context, output);
        self.state.next()
    }

    /// Starts a lingering close after a TLS alert.
    pub(crate) fn linger(&mut self, context: &mut WorkerContext<H>) -> Action {
        self.input = Vec::new();
        self.abandon_request(context);
        self.discard_behind(0, context);
        self.state.next()
    }

    /// The output is sent and the connection is to be closed, but bytes of the client are unread.
    pub(crate) fn on_unread(&mut self, context: &mut WorkerContext<H>) -> Action {
        if !self.permit.is_over_limit && self.state.may_linger() {
            self.discard_behind(0, context);
        }
        self.state.next()
    }

    /// The client has shut down its side. It may still wait for responses.
    pub(crate) fn on_eof(
        &mut self,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        if self.state.is_tunnel() && !self.state.is_yielded() {
            self.end_upgraded(context, output);
        } else {
            self.state.end_input();
        }
        self.state.next()
    }

    /// Nothing more is received: closes if that is awaited.
    pub(crate) const fn end_input(&mut self) {
        self.state.end_input();
    }

    /// The client has shut down its side, and nothing is received from it.
    pub(crate) fn on_hangup(&mut self, context: &mut WorkerContext<H>) {
        if let Some(request) = &mut self.request {
            context.handler.on_hangup(&mut self.handler_state, &mut request.state);
        }
    }

    /// Continues after a delay, after output was sent, on a stop signal, or once a second.
    pub(crate) fn resume(
        &mut self,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        let is_stalled = self.write_stall.is_too_long(unsent, context.now_ns, &context.limits);
        if is_stalled || self.is_out_of_time(unsent, context) {
            context.telemetry.count(Counter::WriteDeadline, u64::from(is_stalled));
            self.state.close();
            // Unsent output is dropped.
            return Action::Abort;
        }
        let before = output.size();
        if self.state.is_yielded() {
            if unsent == 0 {
                self.state.take_turn(context.now_ns);
                self.read_input(context, output);
            }
        } else if self.state.is_refusal_due() {
            self.reject_over_limit(context, output);
        } else {
            self.check_timeouts(context, output);
            if self.state.is_due(unsent, context.now_ns) {
                self.continue_response(unsent, context, output);
            }
        }
        // Some may have been sent early.
        self.write_stall.add_unsent(output.size().saturating_sub(before));
        self.next_or_move(context)
    }

    /// Processes the input that was kept, as far as [`State::intake`] permits.
    fn read_input(&mut self, context: &mut WorkerContext<H>, output: &mut SendBuffer) {
        let mut input = std::mem::take(&mut self.input);
        let used = self.read(&input, context, output);
        if used < input.len() {
            if used > 0 {
                input.drain(..used);
                // Otherwise what arrives behind a rest of a few bytes would double the capacity.
                input.shrink_to_fit();
            }
            self.input = input;
        }
    }

    /// Parses and answers the requests in `bytes`, and returns the number of bytes consumed.
    /// [`State::intake`] is checked before each step.
    #[inline]
    fn read(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> usize {
        let mut used = 0;
        for steps in 0.. {
            match self.state.intake() {
                Intake::Parse => {}
                Intake::Keep => return used,
                Intake::PassOn => {
                    if used < bytes.len() {
                        self.receive_upgraded(&bytes[used..], context, output);
                    }
                    return bytes.len();
                }
                Intake::Discard => {
                    self.discard((bytes.len() - used) as u64, context);
                    return bytes.len();
                }
            }
            let is_full = output.copied_size() >= context.limits.output_size_high;
            if steps > 0 && (is_full || steps >= context.limits.steps_per_turn_max) {
                self.state.yield_turn();
                return used;
            }
            let step = match self.step(&bytes[used..], context) {
                Ok(step) => step,
                Err(reject) => {
                    self.reject(reject, &bytes[used..], context, output);
                    return bytes.len();
                }
            };
            let start = used;
            used += step.used;
            let is_last = used == bytes.len();
            let call = CallInfo { is_last, unsent: 0 };
            match step.event {
                Event::Head(head)
                    if self.head_check.is_some()
                        && self.refuses(&head, &bytes[start..], context, output) =>
                {
                    return bytes.len();
                }
                Event::Head(head) => {
                    let request = self.begin(&head, &bytes[start..], context);
                    if head.body == Body::Empty {
                        self.state.begin_request();
                        self.respond(request, call, context, output);
                    } else {
                        self.state.begin_body(context.now_ns);
                        self.await_body(request, &head, context, output);
                    }
                }
                Event::Body(place) => self.take_body(&bytes[start..][place], context),
                Event::End => self.end_body(call, context, output),
                Event::Partial => {
                    self.wait_for_more(is_last, context, output);
                    return used;
                }
            }
            if is_last && (self.state.is_idle() || self.state.is_closed()) {
                return used;
            }
        }
        used
    }

    fn await_body(
        &mut self,
        request: Request<H::Request>,
        head: &Head,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        let mut request = request;
        let size_max = context.handler.body_size_max(&request.state);
        let limited = size_max.map_or(Ok(()), |size_max| self.parser.limit_body(size_max));
        if let Err(reject) = limited {
            self.request = Some(request);
            self.reject(reject, &[], context, output);
            if head.expects_continue {
                // It waits for this response before it sends the body.
                self.discard_behind(0, context);
            }
            return;
        }
        match context.handler.body_flow(&request.state) {
            BodyFlow::Whole if head.expects_continue => output.append(response::CONTINUE),
            BodyFlow::Ignored if !head.expects_continue => {}
            BodyFlow::Whole => {}
            _ => {
                request.is_streamed = true;
                request.awaits_continue = head.expects_continue;
            }
        }
        self.request = Some(request);
    }

    fn take_body(&mut self, bytes: &[u8], context: &mut WorkerContext<H>) {
        let size = bytes.len() as u64;
        let Some(request) = &mut self.request else { return self.discard(size, context) };
        request.awaits_continue = false;
        context.handler.on_body(&mut request.state, bytes);
        self.state.count_body(size);
    }

    /// The body has ended: of a request, or one that is discarded.
    fn end_body(
        &mut self,
        call: CallInfo,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        let Some(mut request) = self.request.take() else {
            self.state.finish(context.now_ns);
            return self.count_discarding(context);
        };
        self.state.end_body();
        if request.is_streamed {
            context.handler.on_end(&mut request.state);
        }
        self.respond(request, call, context, output);
    }

    /// The input ends within a head or a body.
    fn wait_for_more(
        &mut self,
        is_all_used: bool,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        match self.request.take_if(|request| request.is_streamed) {
            Some(request) => self.respond_early(request, 0, context, output),
            None => self.state.await_head(!is_all_used, context.now_ns),
        }
    }

    #[cold]
    fn reject(
        &mut self,
        reject: Reject,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        let is_head = match &self.request {
            Some(request) => request.response.is_head,
            None => self.parser.is_head_request(bytes),
        };
        let has_response =
            self.request.as_ref().is_some_and(|request| request.response.status != 0);
        let announced = match reject {
            // The length that the head says is not known here.
            Reject::BodyTooLong if self.parser.is_in_head() => u64::MAX,
            Reject::BodyTooLong => self.parser.body_left(),
            _ => 0,
        };
        if has_response || (self.request.is_none() && !self.parser.is_in_head()) {
            // The request has its response, or a part of it: another one would be read as its end.
            let is_complete = self.request.is_none();
            self.input = Vec::new();
            self.abandon_request(context);
            if is_complete {
                return self.discard_behind(announced, context);
            }
            return self.state.close();
        }
        let body_size = write_rejection(reject, is_head, &context.status_lines, output);
        self.abandon_request(context);
        self.record_rejection(reject.status(), body_size, bytes, context);
        self.input = Vec::new();
        self.discard_behind(announced, context);
    }

    /// Writes a 503 for a connection over the limit, and lingers if few enough do.
    #[cold]
    fn reject_over_limit(&mut self, context: &mut WorkerContext<H>, output: &mut SendBuffer) {
        write_over_limit(&context.status_lines, output);
        context.telemetry.count(Counter::Refused, 1);
        if context.may_linger_over_limit() {
            self.discard_behind(0, context);
        } else {
            self.state.close();
        }
    }

    /// Discards a part of a body whose response is complete, or bytes behind the last request that is
    /// answered. A close with unread input would reset the connection, and could discard the
    /// response: it lingers.
    fn discard(&mut self, size: u64, context: &mut WorkerContext<H>) {
        if size > 0 && self.state.may_linger() {
            self.discard_behind(0, context);
        }
        self.state.discard(size, context.limits.linger_size_max);
        self.count_discarding(context);
    }

    /// The last response is complete: discards input, at first the `announced` bytes.
    fn discard_behind(&mut self, announced: u64, context: &mut WorkerContext<H>) {
        self.state.linger(announced, context.now_ns);
        self.count_discarding(context);
    }

    /// Counts the connection as one that discards input, or no longer.
    #[inline]
    fn count_discarding(&mut self, context: &mut WorkerContext<H>) {
        if self.is_lingering == self.state.is_discarding() {
            return;
        }
        if self.is_lingering {
            context.lingering -= 1;
            self.is_lingering = false;
        } else if context.lingering < LINGERING_MAX {
            context.lingering += 1;
            self.is_lingering = true;
            // What was received long ago is no pause.
            self.state.receive(context.now_ns);
        } else {
            self.state.cut();
        }
    }
}
