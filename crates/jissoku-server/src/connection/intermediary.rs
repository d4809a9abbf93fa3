//! Requests from an intermediary, which identifies their clients.

use jissoku_http::uwsgi::{self, UwsgiHead};
use jissoku_http::{Head, Reject, Step};
use jissoku_os::driver::{Action, SendBuffer};

use super::Connection;
use super::state::Request;
use crate::client_identity::ClientIdentity;
use crate::context::WorkerContext;
use crate::handler::Handler;
use crate::intermediary::Intermediary;

impl<H: Handler> Connection<H> {
    /// Adds the state of an intermediary's connection.
    pub(crate) fn with_intermediary(self, intermediary: Option<Box<Intermediary>>) -> Self {
        Self { intermediary, ..self }
    }

    /// Whether a header of the PROXY protocol is awaited, which comes before TLS.
    pub(crate) fn awaits_proxy_header(&self) -> bool {
        self.intermediary.as_ref().is_some_and(|it| it.awaits_proxy_header())
    }

    /// Reads the header of the PROXY protocol. Returns the number of its bytes, or what to do if it
    /// is not complete or was refused.
    #[cold]
    pub(crate) fn read_proxy_header(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Result<usize, Action> {
        if !self.state.is_first() {
            // Over a limit, or refused.
            return Err(self.on_data(bytes, context, output));
        }
        let Some(intermediary) = &mut self.intermediary else { return Ok(0) };
        match intermediary.read_proxy_header(bytes) {
            Ok(Some(size)) => Ok(size),
            Ok(None) => Err(self.state.next()),
            Err(reject) => {
                self.reject(reject, bytes, context, output);
                Err(self.state.next())
            }
        }
    }

    /// Parses the next element of the input.
    #[inline]
    pub(super) fn step(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
    ) -> Result<Step, Reject> {
        let limits = &context.limits.request;
        match &mut self.intermediary {
            None => self.parser.step_after(&mut context.last_head, bytes, limits),
            Some(intermediary) => intermediary.step(bytes, &mut self.parser, limits),
        }
    }

    /// Passes the head of an intermediary's request to the handler. `bytes` is the input from which
    /// it was parsed.
    #[cold]
    pub(super) fn begin_of_intermediary(
        &mut self,
        head: &Head,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
    ) -> Request<H::Request> {
        let Some(intermediary) = &mut self.intermediary else {
            return self.begin_with_identity(head, bytes, None, context);
        };
        let Some(UwsgiHead { text, .. }) = intermediary.take_head() else {
            let identity = intermediary.identity(None, head.fields(bytes));
            return self.begin_with_identity(head, bytes, Some(&identity), context);
        };
        let packet = uwsgi::read(bytes, &context.limits.request).ok().flatten();
        let packet = packet.map(|packet| ClientIdentity::of_packet(packet.variables));
        let identity = intermediary.identity(packet, head.fields(&text));
        self.begin_with_identity(head, &text, Some(&identity), context)
    }
}
