//! Requests of an intermediary, which says who their clients are.

use jissoku_http::uwsgi::{self, UwsgiHead};
use jissoku_http::{Head, Limits, Reject, Step};

use super::Connection;
use super::phase::Request;
use crate::context::WorkerContext;
use crate::handler::Handler;
use crate::intermediary::Intermediary;
use crate::origin::Origin;

impl<H: Handler> Connection<H> {
    /// Adds what the connection of an intermediary has.
    pub(crate) fn with_intermediary(self, intermediary: Option<Box<Intermediary>>) -> Self {
        Self { intermediary, ..self }
    }

    /// Parses the next element of the input.
    #[inline]
    pub(super) fn step(&mut self, bytes: &[u8], limits: &Limits) -> Result<Step, Reject> {
        match &mut self.intermediary {
            None => self.exchange.step(bytes, limits),
            Some(intermediary) => intermediary.step(bytes, &mut self.exchange, limits),
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
        let packet = self.intermediary.as_mut().and_then(|it| it.take_head());
        let Some(UwsgiHead { text, .. }) = packet else {
            return self.begin_with_origin(head, bytes, None, context);
        };
        let variables = uwsgi::read(bytes, &context.limits.request).ok().flatten();
        let origin = variables.map(|packet| Origin::of_packet(packet.variables));
        self.begin_with_origin(head, &text, origin.as_ref(), context)
    }
}
