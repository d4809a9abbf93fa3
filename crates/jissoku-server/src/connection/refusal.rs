//! Requests that the handler does not get.

use jissoku_http::framing::Body;
use jissoku_http::{Head, Method, response};
use jissoku_os::driver::SendBuffer;

use super::Connection;
use super::rejection::write_last;
use crate::context::WorkerContext;
use crate::handler::Handler;
use crate::head_check::HeadCheck;

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
