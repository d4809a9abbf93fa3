//! One connection: parses requests, writes responses, and enforces timeouts.

mod moving;
mod origin;
mod phase;
mod rejection;
mod request;
mod streaming;
mod telemetry;
#[cfg(test)]
mod tests;
mod timeouts;
mod write_stall;

use jissoku_http::framing::Body;
use jissoku_http::response;
use jissoku_http::{Event, Exchange, Head, Reject};
use jissoku_os::driver::{ConnectionId, Next, SendBuffer};

use crate::connection_limiter::Permit;
use crate::context::WorkerContext;
use crate::handler::{BodyFlow, Handler, Progress};
use crate::intermediary::Intermediary;
use crate::limits::LINGERING_MAX;
use crate::metrics::Counter;
use crate::telemetry::LogSlot;

use phase::{CallInfo, Intake, Linger, Phase, Request, StreamedBody, is_due};
use rejection::{write_over_limit, write_rejection};
use write_stall::WriteStall;

/// The state of a connection between two calls.
#[derive(Debug)]
pub(crate) struct Connection<H: Handler> {
    id: ConnectionId,
    permit: Permit,
    exchange: Exchange,
    phase: Phase,
    /// When the current phase began.
    since_ns: u64,
    /// When the bytes that are being processed were received.
    arrived_ns: u64,
    /// The request whose body is being read or whose response is not complete.
    request: Option<Request<H::Request>>,
    /// Received bytes that could not be processed yet: the start of a head, or requests behind one
    /// without a complete response. Empty for an idle connection.
    input: Vec<u8>,
    /// Whether other connections are served, and the output sent, before `input` is processed.
    is_yielded: bool,
    /// Whether it is counted as one that discards input.
    is_lingering: bool,
    /// Progress of a client that does not read its responses.
    write_stall: WriteStall,
    /// The state of the handler.
    state: H::Connection,
    log_slot: LogSlot,
    /// `None` if the peer is a client, as far as is known.
    intermediary: Option<Box<Intermediary>>,
    /// Whether another worker could serve it: nothing is known of it but its socket.
    is_movable: bool,
}

impl<H: Handler> Connection<H> {
    pub(crate) fn new(id: ConnectionId, permit: Permit, state: H::Connection, now_ns: u64) -> Self {
        Self {
            id,
            permit,
            exchange: Exchange::new(),
            phase: if permit.is_over_limit { Phase::OverLimit } else { Phase::AwaitingFirst },
            since_ns: now_ns,
            arrived_ns: now_ns,
            request: None,
            input: Vec::new(),
            is_yielded: false,
            is_lingering: false,
            write_stall: WriteStall::default(),
            state,
            log_slot: None,
            intermediary: None,
            is_movable: false,
        }
    }

    /// Its permit of the connection limiter.
    pub(crate) const fn permit(&self) -> Permit {
        self.permit
    }

    /// Processes received bytes.
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Next {
        if self.phase == Phase::OverLimit {
            self.reject_over_limit(context, output);
        }
        self.arrived_ns = context.now_ns;
        match self.intake() {
            Intake::Parse if self.input.is_empty() => {
                let used = self.read(bytes, context, output);
                self.input.extend_from_slice(&bytes[used..]);
            }
            Intake::Parse => {
                self.input.extend_from_slice(bytes);
                self.read_input(context, output);
            }
            Intake::Keep => self.input.extend_from_slice(bytes),
            Intake::PassOn => self.receive_upgraded(bytes, context, output),
            Intake::Discard => self.discard(bytes.len(), context),
        }
        self.next_or_move(context)
    }

    /// Rejects a plaintext request on a TLS port.
    pub(crate) fn reject_plaintext(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Next {
        self.reject(Reject::TlsMissing, bytes, context, output);
        self.next()
    }

    /// Starts a lingering close after a TLS alert.
    pub(crate) fn linger(&mut self, context: &mut WorkerContext<H>) -> Next {
        self.input = Vec::new();
        self.abandon_request(context);
        self.set_phase(Phase::Linger(Linger::NOTHING), context);
        self.next()
    }

    /// The output is sent and the connection is to be closed, but bytes of the client are unread.
    pub(crate) fn on_unread(&mut self, context: &mut WorkerContext<H>) -> Next {
        if !self.permit.is_over_limit && self.phase == Phase::Closing {
            self.set_phase(Phase::Linger(Linger::NOTHING), context);
        }
        self.next()
    }

    /// The client has shut down its side. It may still wait for responses.
    pub(crate) fn on_eof(
        &mut self,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Next {
        match self.phase {
            Phase::Responding(_) | Phase::Resetting => {}
            _ if self.is_yielded => {}
            Phase::Streaming if self.is_upgraded() => self.end_upgraded(context, output),
            _ => self.phase = Phase::Closing,
        }
        self.next()
    }

    /// The client has shut down its side, and nothing is received from it.
    pub(crate) fn on_hangup(&mut self, context: &mut WorkerContext<H>) {
        if let Some(request) = &mut self.request {
            context.handler.on_hangup(&mut self.state, &mut request.state);
        }
    }

    /// Continues after a delay, after output was sent, on a stop signal, or once a second.
    pub(crate) fn resume(
        &mut self,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Next {
        let is_stalled = self.write_stall.is_too_long(unsent, context.now_ns, &context.limits);
        if is_stalled || self.is_out_of_time(unsent, context) {
            context.telemetry.count(Counter::WriteDeadline, u64::from(is_stalled));
            self.phase = Phase::Closing;
            // Unsent output is dropped.
            return Next::Abort;
        }
        let before = output.size();
        match self.phase {
            Phase::Responding(progress) if is_due(progress, unsent, context.now_ns) => {
                self.continue_response(unsent, context, output);
            }
            _ if self.is_yielded && unsent > 0 => {}
            _ if self.is_yielded => self.read_input(context, output),
            Phase::Streaming => self.resume_streaming(unsent, context, output),
            Phase::OverLimit => self.reject_over_limit(context, output),
            _ => self.check_timeouts(context, output),
        }
        // Some may have been sent early.
        self.write_stall.add_unsent(output.size().saturating_sub(before));
        self.next_or_move(context)
    }

    /// What the driver is to do next.
    #[inline]
    fn next(&self) -> Next {
        match self.phase {
            _ if self.is_yielded => Next::Yield,
            Phase::Streaming => self.next_of_streaming(),
            Phase::AwaitingFirst
            | Phase::OverLimit
            | Phase::Idle
            | Phase::Head
            | Phase::Body(_)
            | Phase::Drain(_) => Next::Receive,
            Phase::Responding(Progress::Sent) => Next::Yield,
            Phase::Responding(Progress::Flush) => Next::Flush,
            Phase::Responding(_) => Next::Suspend,
            Phase::Linger(linger) if linger.is_awaited() => Next::Receive,
            Phase::Linger(_) => Next::ShutdownWrite,
            Phase::Closing => Next::Close,
            Phase::Resetting => Next::Reset,
        }
    }

    /// What becomes of received bytes. Each step of [`Connection::read`] checks it first, whether the
    /// bytes are those of a receive, of a TLS record or kept input: nothing else leads to the parser.
    #[inline]
    fn intake(&self) -> Intake {
        match self.phase {
            _ if self.is_yielded => Intake::Keep,
            Phase::AwaitingFirst | Phase::Idle | Phase::Head | Phase::Body(_) | Phase::Drain(_) => {
                Intake::Parse
            }
            Phase::Streaming if self.is_upgraded() => Intake::PassOn,
            // The rest of its body: at the end of that it is `Responding`.
            Phase::Streaming => Intake::Parse,
            Phase::Responding(_) => Intake::Keep,
            Phase::OverLimit | Phase::Linger(_) | Phase::Closing | Phase::Resetting => {
                Intake::Discard
            }
        }
    }

    /// Processes the input that was kept, if it is its turn.
    fn read_input(&mut self, context: &mut WorkerContext<H>, output: &mut SendBuffer) {
        if std::mem::take(&mut self.is_yielded) && matches!(self.phase, Phase::Body(_)) {
            // The rate counts only from now on: until now nothing was received from the client.
            self.set_phase(Phase::Body(0), context);
        }
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

    /// Parses and answers the requests in `bytes`, sets the phase, and returns the number of bytes
    /// consumed.
    #[inline]
    fn read(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> usize {
        let mut used = 0;
        for steps in 0.. {
            match self.intake() {
                Intake::Parse => {}
                Intake::Keep => return used,
                Intake::PassOn => {
                    if used < bytes.len() {
                        self.receive_upgraded(&bytes[used..], context, output);
                    }
                    return bytes.len();
                }
                Intake::Discard => {
                    self.discard(bytes.len() - used, context);
                    return bytes.len();
                }
            }
            let is_full = output.copied_size() >= context.limits.output_size_high;
            if steps > 0 && (is_full || steps >= context.limits.steps_per_turn_max) {
                self.is_yielded = true;
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
                Event::Head(head) => {
                    debug_assert!(self.request.is_none(), "a request has its response first");
                    let bytes = &bytes[start..];
                    let request = self.begin(&head, bytes, context);
                    match head.body {
                        Body::Empty => self.respond(request, call, context, output),
                        _ => self.await_body(request, &head, context, output),
                    }
                }
                Event::Body(place) => self.take_body(&bytes[start..][place], context),
                Event::End => match self.request.take() {
                    Some(mut request) => {
                        if request.body.is_some() {
                            context.handler.on_end(&mut request.state);
                        }
                        self.respond(request, call, context, output);
                    }
                    None => self.set_phase(Phase::Idle, context),
                },
                Event::Partial => {
                    self.wait_for_more(is_last, context, output);
                    return used;
                }
            }
            if is_last && matches!(self.phase, Phase::Idle | Phase::Closing) {
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
        let limited = size_max.map_or(Ok(()), |size_max| self.exchange.limit_body(size_max));
        if let Err(reject) = limited {
            self.request = Some(request);
            self.reject(reject, &[], context, output);
            if head.expects_continue {
                // It waits for this response before it sends the body.
                self.set_phase(Phase::Linger(Linger::NOTHING), context);
            }
            return;
        }
        match context.handler.body_flow(&request.state) {
            BodyFlow::Whole if head.expects_continue => output.append(response::CONTINUE),
            BodyFlow::Ignored if !head.expects_continue => {}
            BodyFlow::Whole => {}
            _ => request.body = Some(Box::new(StreamedBody::new(head.expects_continue))),
        }
        self.request = Some(request);
        self.set_phase(Phase::Body(0), context);
    }

    fn take_body(&mut self, bytes: &[u8], context: &mut WorkerContext<H>) {
        let size = bytes.len() as u64;
        let Some(request) = &mut self.request else {
            return self.drain(size, context);
        };
        context.handler.on_body(&mut request.state, bytes);
        if let Some(body) = &mut request.body {
            body.awaits_continue = false;
            body.received += size;
            return;
        }
        match &mut self.phase {
            Phase::Body(received) => *received += size,
            _ => self.set_phase(Phase::Body(size), context),
        }
    }

    /// The timeout of a head is not restarted by further bytes.
    fn wait_for_more(
        &mut self,
        is_all_used: bool,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        if let Some(request) = self.request.take_if(|request| request.body.is_some()) {
            return self.respond_early(request, 0, context, output);
        }
        let phase = match self.phase {
            Phase::Body(_) | Phase::Head | Phase::Drain(_) => return,
            _ if !self.exchange.is_in_head() && self.request.is_none() => Phase::Drain(0),
            _ if !self.exchange.is_in_head() => Phase::Body(0),
            _ if is_all_used => Phase::Idle,
            _ => Phase::Head,
        };
        self.set_phase(phase, context);
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
            None => self.exchange.is_head_request(bytes),
        };
        let has_response =
            self.request.as_ref().is_some_and(|request| request.response.status != 0);
        let announced = match reject {
            // The length that the head says is not known here.
            Reject::BodyTooLong if self.exchange.is_in_head() => u64::MAX,
            Reject::BodyTooLong => self.exchange.body_left(),
            _ => 0,
        };
        if has_response || (self.request.is_none() && !self.exchange.is_in_head()) {
            // The request has its response, or a part of it: another one would be read as its end.
            let is_complete = self.request.is_none();
            self.input = Vec::new();
            self.abandon_request(context);
            let linger = Phase::Linger(Linger::of(announced));
            return self.set_phase(if is_complete { linger } else { Phase::Closing }, context);
        }
        let body_size = write_rejection(reject, is_head, &context.status_lines, output);
        self.abandon_request(context);
        self.record_rejection(reject.status(), body_size, bytes, context);
        self.input = Vec::new();
        self.set_phase(Phase::Linger(Linger::of(announced)), context);
    }

    /// Writes a 503 for a connection over the limit, and lingers if few enough do.
    #[cold]
    fn reject_over_limit(&mut self, context: &mut WorkerContext<H>, output: &mut SendBuffer) {
        write_over_limit(&context.status_lines, output);
        context.telemetry.count(Counter::Refused, 1);
        let phase = if context.may_linger_over_limit() {
            Phase::Linger(Linger::NOTHING)
        } else {
            Phase::Closing
        };
        self.set_phase(phase, context);
    }

    /// Discards bytes behind the last request that is answered. A close with unread input would
    /// reset the connection, and could discard the response: it lingers.
    fn discard(&mut self, size: usize, context: &mut WorkerContext<H>) {
        if size > 0 && self.phase == Phase::Closing {
            self.set_phase(Phase::Linger(Linger::NOTHING), context);
        }
        if let Phase::Linger(linger) = &mut self.phase {
            linger.discarded += size as u64;
            if linger.discarded > context.limits.linger_size_max {
                self.phase = Phase::Closing;
            }
        }
    }

    #[inline]
    fn set_phase(&mut self, phase: Phase, context: &mut WorkerContext<H>) {
        self.phase = phase;
        self.since_ns = context.now_ns;
        self.is_yielded = false;
        if self.is_lingering != matches!(phase, Phase::Linger(_) | Phase::Drain(_)) {
            self.count_lingering(context);
        }
    }

    /// Counts the connection as one that discards input, or no longer.
    #[cold]
    fn count_lingering(&mut self, context: &mut WorkerContext<H>) {
        if self.is_lingering {
            context.lingering -= 1;
            self.is_lingering = false;
        } else if context.lingering < LINGERING_MAX {
            context.lingering += 1;
            self.is_lingering = true;
            // What was received long ago is no pause.
            self.arrived_ns = context.now_ns;
        } else {
            self.phase = Phase::Closing;
        }
    }
}
