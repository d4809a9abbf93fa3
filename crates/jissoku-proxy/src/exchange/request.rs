//! The request of an exchange, on its way to a server.

use jissoku_http::forward::{ClientSupport, add_field};
use jissoku_http::uwsgi;
use jissoku_os::driver::SendBuffer;
use jissoku_server::BodyFlow;

use super::Exchange;
use crate::transfer::{ResponseEdit, Upload, append_from};

/// At least this much is collected of chunked bodies for a protocol without them, in which their
/// size has to be known.
const CHUNKED_SIZE_MAX: u64 = 1024 * 1024;

impl Exchange {
    /// The forwarded head is there, and what it offers to the server; and what is changed of the
    /// response.
    pub(crate) fn set_head(&mut self, head: Vec<u8>, offer: ClientSupport, edit: ResponseEdit) {
        self.head_size = head.len();
        self.request = head;
        self.offer = offer;
        self.response_edit = edit;
    }

    /// The body is forwarded as it arrives.
    pub(crate) fn stream(&mut self, upload: Upload) {
        self.upload = Some(Box::new(upload));
    }

    /// How much of a chunked body is collected.
    pub(crate) fn collected_size_max(&self) -> u64 {
        let size_max = self.forwarding.collect_size;
        if self.protocol.is_http() { size_max } else { size_max.max(CHUNKED_SIZE_MAX) }
    }

    /// Adds a part of the body. Returns whether it is forwarded as it arrives.
    pub(crate) fn push_body(&mut self, part: &[u8]) -> bool {
        match &mut self.upload {
            None => self.request.extend_from_slice(part),
            Some(upload) => upload.push(part),
        }
        self.upload.is_some()
    }

    /// The body is complete. Returns whether it is forwarded as it arrives.
    pub(crate) fn end_body(&mut self) -> bool {
        if let Some(upload) = &mut self.upload {
            upload.end();
        }
        self.upload.is_some()
    }

    /// How the rest of the request is to be received.
    pub(crate) fn body_flow(&self) -> BodyFlow {
        match &self.upload {
            None => BodyFlow::Whole,
            Some(upload) if upload.is_held() => BodyFlow::Hold,
            Some(upload) if upload.awaits_continue() => BodyFlow::Await,
            Some(_) => BodyFlow::Receive,
        }
    }

    /// Whether a second copy may be sent: repeating it does no harm, and no protocol is switched.
    pub(super) const fn is_copyable(&self) -> bool {
        self.is_repeatable() && !self.offer.upgrades
    }

    /// Whether the request may be sent once more, to a server that may have received it.
    pub(crate) const fn is_repeatable(&self) -> bool {
        self.method.is_idempotent && self.upload.is_none()
    }

    /// Hands the request over to its connection, as far as it is there, with the time that is left in
    /// the field of this name. Returns whether the client is to be received from again.
    pub(crate) fn send(
        &mut self,
        deadline_field: Option<&str>,
        now_ns: u64,
        output: &mut SendBuffer,
    ) -> bool {
        self.record.phases.send(now_ns);
        match deadline_field {
            None => self.write_request(output),
            Some(name) => self.write_request_until(name, now_ns, output),
        }
        self.send_more(output).unwrap_or(false)
    }

    /// Hands over what has been received of the body since. `None` if that is nothing; else whether
    /// the client is to be received from again.
    pub(crate) fn send_more(&mut self, output: &mut SendBuffer) -> Option<bool> {
        let upload = self.upload.as_mut().filter(|upload| !upload.is_empty())?;
        let was_held = upload.is_held();
        append_from(0, &mut upload.take(), output);
        Some(was_held)
    }

    /// Writes the head, and the body if it was collected.
    fn write_request(&mut self, output: &mut SendBuffer) {
        if self.is_repeatable() {
            output.append(&self.request);
        } else {
            append_from(0, &mut self.request, output);
        }
    }

    /// As [`Exchange::write_request`], with the time that is left in the field of this name.
    fn write_request_until(&mut self, name: &str, now_ns: u64, output: &mut SendBuffer) {
        let value = self.left_ms(now_ns).to_string();
        let mut bytes = Vec::with_capacity(self.request.len() + name.len() + value.len() + 16);
        let (field, size) = ((name, value.as_str()), self.head_size);
        if self.protocol.is_http() {
            add_field(&self.request, size, field, &mut bytes);
        } else if uwsgi::add_field(&self.request, size, field, &mut bytes).is_err() {
            // There was room for it when the head was written.
            return self.write_request(output);
        }
        if !self.is_repeatable() {
            self.request = Vec::new();
        }
        append_from(0, &mut bytes, output);
    }

    /// The time that is left, in milliseconds.
    fn left_ms(&self, now_ns: u64) -> u64 {
        let until_ns = self.assignment.until_ns.min(self.assignment.whole_until_ns);
        until_ns.saturating_sub(now_ns) / 1_000_000
    }

    /// Whether the whole request was handed to the driver.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.upload.as_ref().is_none_or(|upload| upload.is_done())
    }

    /// Whether the client has sent its whole request.
    pub(super) fn is_received(&self) -> bool {
        self.upload.as_ref().is_none_or(|upload| upload.is_ended())
    }

    /// Whether more of the request is to be sent to a server that has responded already.
    pub(crate) fn is_uploading(&self) -> bool {
        let upload = self.upload.as_ref();
        upload.is_some_and(|upload| upload.is_receiving() || !upload.is_empty())
    }

    /// Whether the server waits for the client: to read its response, or to send more of its
    /// request.
    pub(crate) fn is_client_awaited(&self) -> bool {
        let upload = self.upload.as_ref();
        self.is_held()
            || upload.is_some_and(|upload| {
                upload.is_receiving() && upload.is_empty() && !upload.awaits_continue()
            })
    }

    /// The server gets no more of the request: the response is complete.
    pub(crate) fn end_upload(&mut self) {
        if let Some(upload) = &mut self.upload {
            upload.stop();
        }
        self.leave_connection();
    }
}
