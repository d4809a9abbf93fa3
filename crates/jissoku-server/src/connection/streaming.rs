//! Responses that are produced while bytes are received: of a body, or of an upgraded connection.

use jissoku_http::response;
use jissoku_os::driver::{Next, SendBuffer};

use super::Connection;
use super::phase::{CallInfo, Linger, Phase, Reading, Request, StreamedBody, is_due};
use crate::context::WorkerContext;
use crate::handler::{BodyFlow, Handler, Progress};
use crate::limits::Limits;

impl<H: Handler> Connection<H> {
    /// Whether the connection is no longer one of HTTP.
    pub(super) fn is_upgraded(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.response.is_upgraded)
    }

    /// Has the handler write a part of the response to a request whose body is incomplete, or of an
    /// upgraded connection.
    pub(super) fn respond_early(
        &mut self,
        mut request: Request<H::Request>,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        if request.awaits_continue() {
            // The client may wait for the 100 before it sends the body: the time limit starts now.
            self.since_ns = context.now_ns;
        }
        send_continue(&mut request, context, output);
        let persists = request.response.keeps_alive;
        // Without a 100, the client may send the body or another request: the connection cannot
        // persist (RFC 9110 section 10.1.1).
        request.response.keeps_alive &= !request.awaits_continue();
        let call = CallInfo { is_last: true, unsent };
        let progress = self.call_handler(&mut request, call, context, output);
        match progress {
            Progress::Complete => self.finish_early(&request, context),
            Progress::Reset => self.reset(&request, context),
            progress => {
                if request.response.status == 0 && !context.is_stopping() {
                    request.response.keeps_alive = persists;
                }
                send_continue(&mut request, context, output);
                self.keep_streaming(request, progress, context);
            }
        }
    }

    /// Keeps a request whose response is not complete, and receives if the handler wants that.
    pub(super) fn keep_streaming(
        &mut self,
        mut request: Request<H::Request>,
        progress: Progress,
        context: &mut WorkerContext<H>,
    ) {
        let is_wanted = context.handler.body_flow(&request.state) != BodyFlow::Hold;
        let body = request.body.get_or_insert_with(|| Box::new(StreamedBody::new(false)));
        body.progress = progress;
        body.reading = match (body.reading, is_wanted) {
            (Reading::Ended, _) => Reading::Ended,
            (_, false) => Reading::Held,
            (Reading::Receiving, true) => Reading::Receiving,
            (Reading::Held, true) => {
                // The rate counts only from now on: until now nothing was received from the client.
                body.received = 0;
                self.since_ns = context.now_ns;
                Reading::Receiving
            }
        };
        if let Progress::Until(due_ns) = progress {
            context.timers.set(due_ns, self.id);
        }
        self.request = Some(request);
        self.phase = Phase::Streaming;
    }

    fn streamed_body(&self) -> Option<&StreamedBody> {
        self.request.as_ref()?.body.as_deref()
    }

    /// As [`Connection::next`].
    pub(super) fn next_of_streaming(&self) -> Next {
        match self.streamed_body() {
            None => Next::Close,
            Some(body) if body.progress == Progress::Sent => Next::Yield,
            Some(body) if body.progress == Progress::Flush => Next::Flush,
            Some(body) if body.reading != Reading::Receiving => Next::Suspend,
            Some(body) if body.progress == Progress::ShutdownWrite => Next::ShutdownWrite,
            Some(_) => Next::Receive,
        }
    }

    /// As [`Connection::resume`].
    pub(super) fn resume_streaming(
        &mut self,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        self.check_timeouts(context, output);
        let progress = self.streamed_body().map(|body| body.progress);
        if progress.is_some_and(|progress| is_due(progress, unsent, context.now_ns)) {
            self.continue_response(unsent, context, output);
        }
    }

    /// Whether the client pauses for too long while its body is wanted, or sends it below the
    /// minimum rate.
    pub(super) fn is_body_too_slow(&self, now_ns: u64, limits: &Limits) -> bool {
        !self.is_upgraded()
            && self.streamed_body().is_some_and(|body| {
                body.reading == Reading::Receiving
                    && !body.awaits_continue
                    && (self.pause_ns(now_ns) > limits.pause_ns_max
                        || limits.is_too_slow(body.received, now_ns - self.since_ns))
            })
    }

    /// For how long nothing was received in this phase.
    pub(super) fn pause_ns(&self, now_ns: u64) -> u64 {
        now_ns - self.since_ns.max(self.arrived_ns)
    }

    /// The response is complete before the body: the rest is discarded, as far as that is cheaper
    /// than another connection (RFC 9112 section 9.3).
    fn finish_early(&mut self, request: &Request<H::Request>, context: &mut WorkerContext<H>) {
        self.record_response(&request.response, context);
        let has_ended = request.body.as_ref().is_some_and(|body| body.reading == Reading::Ended);
        // Who waits for a 100 sends nothing after another response.
        let announced = if request.awaits_continue() { 0 } else { self.exchange.body_left() };
        let phase = match request.response {
            _ if has_ended => Phase::Closing,
            // A close with unread input would reset the connection, and the client might lose the
            // response (RFC 9112 section 9.6).
            response if response.is_upgraded => Phase::Linger(Linger::NOTHING),
            response if !response.keeps_alive => Phase::Linger(Linger::of(announced)),
            _ => Phase::Drain(0),
        };
        self.set_phase(phase, context);
    }

    /// Discards a part of a body whose response is complete.
    pub(super) fn drain(&mut self, size: u64, context: &mut WorkerContext<H>) {
        let discarded = match self.phase {
            Phase::Drain(discarded) => discarded + size,
            _ => size,
        };
        if discarded > context.limits.linger_size_max {
            self.set_phase(Phase::Closing, context);
        } else {
            // The timeout is not restarted by further bytes.
            self.phase = Phase::Drain(discarded);
        }
    }

    /// Passes bytes of an upgraded connection to the handler.
    pub(super) fn receive_upgraded(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        let Some(mut request) = self.request.take() else { return };
        context.handler.on_body(&mut request.state, bytes);
        self.respond_early(request, 0, context, output);
    }

    /// The client of an upgraded connection has shut down its side.
    pub(super) fn end_upgraded(&mut self, context: &mut WorkerContext<H>, output: &mut SendBuffer) {
        let Some(mut request) = self.request.take() else { return };
        if let Some(body) = &mut request.body {
            body.reading = Reading::Ended;
        }
        context.handler.on_end(&mut request.state);
        self.respond_early(request, 0, context, output);
    }
}

/// Sends `100 Continue` if the client waits for it and the body is wanted.
fn send_continue<H: Handler>(
    request: &mut Request<H::Request>,
    context: &WorkerContext<H>,
    output: &mut SendBuffer,
) {
    if let Some(body) = &mut request.body
        && body.awaits_continue
        && request.response.status == 0
        && context.handler.body_flow(&request.state) == BodyFlow::Receive
    {
        body.awaits_continue = false;
        output.append(response::CONTINUE);
    }
}

#[cfg(test)]
mod tests;
