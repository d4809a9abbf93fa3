//! Responses that are produced while bytes are received: of a body, or of an upgraded connection.

use jissoku_http::response;
use jissoku_os::driver::SendBuffer;

use super::Connection;
use super::state::{CallInfo, Reading, Request, Tunnel};
use crate::context::WorkerContext;
use crate::handler::{BodyFlow, Handler, Progress};

impl<H: Handler> Connection<H> {
    /// Has the handler write a part of the response to a request whose body is incomplete, or of an
    /// upgraded connection.
    pub(super) fn respond_early(
        &mut self,
        mut request: Request<H::Request>,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        if request.awaits_continue {
            // The client may wait for the 100 before it sends the body: the time limit starts now.
            self.state.restart_body(context.now_ns);
        }
        send_continue(&mut request, context, output);
        let persists = request.response.keeps_alive;
        // Without a 100, the client may send the body or another request: the connection cannot
        // persist (RFC 9110 section 10.1.1).
        request.response.keeps_alive &= !request.awaits_continue;
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
        if request.response.is_upgraded {
            self.state.tunnel(progress, is_wanted);
        } else {
            self.state.stream(progress, is_wanted, context.now_ns);
        }
        if let Progress::Until(due_ns) = progress {
            context.timers.set(due_ns, self.id);
        }
        request.is_streamed = true;
        self.request = Some(request);
    }

    /// The response is complete before the body: the rest is discarded, as far as that is cheaper
    /// than another connection (RFC 9112 section 9.3).
    fn finish_early(&mut self, request: &Request<H::Request>, context: &mut WorkerContext<H>) {
        self.record_response(&request.response, context);
        // Who waits for a 100 sends nothing after another response.
        let announced = if request.awaits_continue { 0 } else { self.parser.body_left() };
        match request.response {
            _ if self.state.reading() == Reading::Tunnel(Tunnel::Ended) => self.state.close(),
            // A close with unread input would reset the connection, and the client might lose the
            // response (RFC 9112 section 9.6).
            response if response.is_upgraded => self.discard_behind(0, context),
            response if !response.keeps_alive => self.discard_behind(announced, context),
            _ => {
                self.state.drain(context.now_ns);
                self.count_discarding(context);
            }
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
        self.state.end_tunnel();
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
    if request.awaits_continue
        && request.response.status == 0
        && context.handler.body_flow(&request.state) == BodyFlow::Receive
    {
        request.awaits_continue = false;
        output.append(response::CONTINUE);
    }
}

#[cfg(test)]
mod tests;
