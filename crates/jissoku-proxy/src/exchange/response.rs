//! The response of an exchange, on its way to the client.

use jissoku_http::Version;
use jissoku_http::forward::ClientFraming;
use jissoku_http::response_reader::ResponseHead;
use jissoku_server::{ForwardedAnomalies, Progress};

use super::{Ending, Exchange};
use crate::failure::CLIENT_GONE;
use crate::policy::retry::Received;
use crate::transfer::{ResponseSink, Upload, UploadFraming};

/// The fields that a gathered response shows of a part.
const SHOWN: [&str; 8] = [
    "cache-control",
    "content-encoding",
    "content-language",
    "content-type",
    "etag",
    "last-modified",
    "location",
    "retry-after",
];

/// The status of a response that was not sent because the client had left, in the access log.
const CLOSED: u16 = 499;

/// How much of a malformed response is logged.
const MALFORMED_SIZE_MAX: usize = 200;

impl Exchange {
    // From the server.

    /// Bytes of a response were received.
    pub(crate) fn record_bytes(&mut self) {
        if self.received == Received::Nothing {
            self.received = Received::Part;
        }
    }

    /// The final response begins. `is_sent`: the request has gone out as a whole.
    pub(crate) const fn record_early(&mut self, is_sent: bool) {
        if !is_sent {
            self.record.notes.add(ForwardedAnomalies::EARLY);
        }
    }

    /// Writes an interim response, to clients that know them.
    pub(crate) fn write_interim(&mut self, head: &ResponseHead, bytes: &[u8]) {
        if head.status == 100 {
            // This side asks the client for its body, and has done so for one that is collected.
            if let Some(upload) = &mut self.upload {
                upload.record_continue();
            }
        } else if self.part.is_none() && self.version == Version::Http11 {
            self.output.write_interim(head, bytes);
        }
    }

    pub(crate) fn write_head(&mut self, head: &ResponseHead, bytes: &[u8]) {
        self.received = Received::Head;
        if let Some(part) = &mut self.part {
            let shown = head.fields(bytes).filter_map(|(name, value)| {
                let known = SHOWN.iter().find(|it| name.eq_ignore_ascii_case(it.as_bytes()))?;
                Some((*known, String::from_utf8_lossy(value).into_owned()))
            });
            part.fields = Some(shown.collect());
            self.output.set_status(head.status);
            return;
        }
        let framing = ClientFraming::new(head.body, self.version, self.offer.takes_trailers);
        let request = std::mem::take(&mut self.request);
        self.output.write_head(head, bytes, framing, &self.response_edit, request);
        // Where every connection is closed, that says nothing about the rest of the request.
        let closes = !head.keeps_alive && self.protocol.is_http();
        if let Some(upload) = &mut self.upload
            && (head.status >= 300 || closes || upload.awaits_continue())
        {
            // The server does not want the rest (RFC 9112 section 9.5).
            upload.stop();
        }
    }

    /// Whether the client has asked for the protocol that its server may switch to.
    pub(crate) const fn offers_upgrade(&self) -> bool {
        self.offer.upgrades
    }

    /// Writes the head of a switch of protocols, and what follows it.
    pub(crate) fn write_upgrade(&mut self, head: &ResponseHead, bytes: &[u8], rest: &[u8]) {
        self.output.write_upgrade(head, bytes, &self.response_edit);
        self.output.write_raw(rest);
        self.received = Received::Head;
        self.request = Vec::new();
        self.stream(Upload::new(UploadFraming::Raw, false));
    }

    /// Writes a part of the body, or bytes of a tunnel.
    pub(crate) fn write_body(&mut self, part: &[u8]) {
        self.output.write_body(part);
    }

    /// Whether the client knows trailers.
    pub(crate) const fn takes_trailers(&self) -> bool {
        self.offer.takes_trailers
    }

    /// The response is complete. `trailers` are its trailer lines.
    pub(crate) fn finish(&mut self, trailers: &[u8]) {
        self.output.write_end(trailers, &self.response_edit);
        self.ending = Some(Ending::Complete);
    }

    /// The head of the response, which begins with `bytes`, is malformed.
    #[cold]
    pub(crate) fn keep_malformed(&mut self, bytes: &[u8]) {
        self.record.malformed = Some(bytes[..bytes.len().min(MALFORMED_SIZE_MAX)].into());
    }

    /// Bytes have followed the response.
    pub(crate) const fn record_excess(&mut self) {
        self.record.notes.add(ForwardedAnomalies::EXCESS);
    }

    /// Whether a connection on which nothing unusual was received of this exchange can be used again.
    pub(crate) const fn permits_reuse(&self) -> bool {
        self.protocol.is_http() && !self.method.has_unusual_body && !self.offer.upgrades
    }

    /// The server of a tunnel has sent everything.
    pub(crate) const fn end_server_side(&mut self) {
        self.server_has_ended = true;
    }

    pub(crate) const fn server_has_ended(&self) -> bool {
        self.server_has_ended
    }

    pub(crate) const fn end_tunnel(&mut self) {
        self.ending = Some(Ending::Complete);
    }

    /// Whether the head of the response was received just now.
    pub(crate) fn has_new_head(&self) -> bool {
        self.received == Received::Head && self.record.phases.head_ns == 0
    }

    /// Whether the client is to be resumed: there is output, or it may have been asked to continue.
    pub(crate) const fn has_news(&self) -> bool {
        !self.output.is_empty() || self.upload.is_some()
    }

    /// Whether the server is not received from, because the client is slower.
    pub(crate) const fn is_held(&self) -> bool {
        self.output.is_high()
    }

    /// The status of the final response; 0 until its head was received.
    pub(crate) const fn status(&self) -> u16 {
        self.output.status()
    }

    /// The size of the body so far.
    #[cfg(test)]
    pub(crate) const fn body_size(&self) -> u64 {
        self.output.body_size()
    }

    // To the client.

    /// Ends an exchange whose client has shut down its side, if its route says so. Returns the status
    /// and the size of the body that were sent, for the access log.
    pub(crate) fn abort(&mut self) -> Option<(u16, u64)> {
        if !self.is_aborted() {
            return None;
        }
        self.ending = Some(Ending::Truncated);
        self.record.error = Some(CLIENT_GONE);
        let status = if self.output.status() == 0 { CLOSED } else { self.output.status() };
        Some((status, self.output.body_size()))
    }

    /// Writes what there is of the response. `next_hop` is the name of its upstream.
    pub(crate) fn respond(
        &mut self,
        next_hop: &str,
        now_ns: u64,
        sink: &mut impl ResponseSink,
    ) -> Progress {
        if let Some(Ending::Failed(status, error)) = self.ending {
            if !self.is_received() {
                sink.close_after();
            }
            let mut fields = self.diagnostics(next_hop, Some(error), now_ns).unwrap_or_default();
            fields.push_str(&self.response_edit.lines_of_errors());
            sink.write_error(status, &fields);
            return Progress::Complete;
        }
        // The client is still sending what the server does not want.
        let is_cut_off = self.upload.as_ref().is_some_and(|upload| upload.is_cut_off());
        let is_finishing = self.connection().is_some() && self.ending == Some(Ending::Complete);
        let (was_held, until_close) = (self.is_held(), self.output.ends_with_connection());
        if until_close || self.ending == Some(Ending::Truncated) || is_cut_off {
            sink.close_after();
        }
        let has_output = self.output.send(self.version, sink);
        if has_output {
            self.sent_ns = now_ns;
        }
        if self.is_without_reader(now_ns) {
            self.ending = Some(Ending::Truncated);
            sink.close_after();
        }
        match self.ending {
            Some(Ending::Truncated) if until_close || self.is_tunnel() => Progress::Reset,
            Some(_) if is_finishing => Progress::Pending,
            Some(_) => Progress::Complete,
            None if was_held => Progress::Sent,
            None if self.server_has_ended => Progress::ShutdownWrite,
            None if has_output => Progress::Sent,
            None => Progress::Pending,
        }
    }

    // A part of a gathered response.

    pub(crate) fn become_part(&mut self) {
        self.part = Some(Box::default());
    }

    /// The fields of the response that are shown, once.
    pub(crate) fn take_part_fields(&mut self) -> Option<Vec<(&'static str, String)>> {
        self.part.as_mut()?.fields.take()
    }

    pub(crate) fn take_part_body(&mut self) -> Vec<u8> {
        self.output.take()
    }
}
