//! Bytes on their way between a client and a server: the rest of a body that is not collected, a
//! response, or both sides of a tunnel.

use std::rc::Rc;
use std::sync::Arc;

use jissoku_http::forward::{ClientFraming, FieldNames, write_response_head, write_trailers};
use jissoku_http::response::ConnectionHeader;
use jissoku_http::response_reader::ResponseHead;
use jissoku_http::{Version, date};
use jissoku_os::driver::SendBuffer;
use jissoku_server::has_field_of;

use crate::policy::fields::FieldRules;

/// Bytes for a server above which its client is not received from.
const SIZE_HIGH: usize = 64 * 1024;

/// Bytes of a client on their way to a server.
#[derive(Debug)]
pub(crate) struct Upload {
    /// What was not handed to the driver yet.
    bytes: Vec<u8>,
    framing: UploadFraming,
    /// The client has sent everything.
    is_ended: bool,
    /// The server does not want the rest.
    is_stopped: bool,
    /// The server has not asked for the body yet, which the client waits for.
    awaits_continue: bool,
}

/// How the bytes are delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFraming {
    /// As they are.
    Raw,
    /// In the chunked transfer coding.
    Chunked,
}

impl Upload {
    pub(crate) const fn new(framing: UploadFraming, awaits_continue: bool) -> Self {
        let bytes = Vec::new();
        Self { bytes, framing, is_ended: false, is_stopped: false, awaits_continue }
    }

    pub(crate) fn push(&mut self, part: &[u8]) {
        self.awaits_continue = false;
        if !self.is_receiving() || part.is_empty() {
            return;
        }
        if self.framing == UploadFraming::Chunked {
            append_chunk(part, &mut self.bytes);
        } else {
            self.bytes.extend_from_slice(part);
        }
    }

    /// The client has sent everything.
    pub(crate) fn end(&mut self) {
        if self.is_receiving() && self.framing == UploadFraming::Chunked {
            self.bytes.extend_from_slice(LAST_CHUNK);
        }
        self.is_ended = true;
    }

    /// Drops the rest, if there is any: the server has responded without it.
    pub(crate) fn stop(&mut self) {
        if !self.is_done() {
            self.bytes = Vec::new();
            self.is_stopped = true;
        }
    }

    /// Whether the client waits for the server to ask for the body.
    pub(crate) const fn awaits_continue(&self) -> bool {
        self.awaits_continue
    }

    /// The server has asked for the body.
    pub(crate) const fn record_continue(&mut self) {
        self.awaits_continue = false;
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Whether nothing waits to be sent.
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the client is not received from, because the server is slower or has responded.
    pub(crate) const fn is_held(&self) -> bool {
        self.bytes.len() >= SIZE_HIGH || self.is_stopped
    }

    /// Whether more is expected from the client.
    pub(crate) const fn is_receiving(&self) -> bool {
        !self.is_ended && !self.is_stopped
    }

    /// Whether the client has sent everything, wanted or not.
    pub(crate) const fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether the client has not sent everything, and the server does not want the rest.
    pub(crate) const fn is_cut_off(&self) -> bool {
        self.is_stopped && !self.is_ended
    }

    /// Whether everything was handed to the driver.
    pub(crate) const fn is_done(&self) -> bool {
        self.bytes.is_empty() && self.is_ended && !self.is_stopped
    }
}

/// The end of a body in the chunked transfer coding.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn append_chunk(part: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
    output.extend_from_slice(part);
    output.extend_from_slice(b"\r\n");
}

/// From this size on, bytes are handed over to the connection: copying them costs more than a
/// second slice in the call that sends them.
const OWNED_SIZE_MIN: usize = 4 * 1024;

/// Moves the bytes from `start` on to `output`, and drops those before.
pub(crate) fn append_from(start: usize, bytes: &mut Vec<u8>, output: &mut SendBuffer) {
    if bytes.len() - start < OWNED_SIZE_MIN {
        output.append(&bytes[start..]);
        bytes.clear();
    } else {
        output.append_owned(std::mem::take(bytes), start);
    }
}

/// Output for a client above which its server is not received from.
const OUTPUT_SIZE_HIGH: usize = 32 * 1024;

/// What a head is usually longer by than that of the server, with the frame of a chunk.
const ADDED_SIZE: usize = 64;

/// More memory than this is not kept until the end of a response.
const REUSED_SIZE_MAX: usize = 4096;

/// Where a response to a client is written.
pub(crate) trait ResponseSink {
    fn append(&mut self, bytes: &[u8]);
    /// Moves the bytes from `start` on, and drops those before.
    fn append_from(&mut self, start: usize, bytes: &mut Vec<u8>);
    fn date(&self) -> [u8; date::SIZE];
    /// The header line with the id of the request, if it has one.
    fn request_id(&self) -> Option<Arc<[u8]>> {
        None
    }
    /// Whether the client's connection persists.
    fn keeps_alive(&self) -> bool;
    /// Closes the client's connection after this response.
    fn close_after(&mut self);
    /// The client's connection is a tunnel from now on.
    fn upgrade(&mut self);
    /// For the access log: the status and the size of the body so far.
    fn set_sent(&mut self, status: u16, body_size: u64);
    /// Writes a response that is made here, with these header lines.
    fn write_error(&mut self, status: u16, fields: &str);
}

/// Fields that are removed from a response and added to it. The default changes nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResponseEdit {
    /// Those of the route, if it has some.
    rules: Option<Rc<FieldRules>>,
    /// The header lines that are added, if they depend on the request.
    own_lines: Vec<u8>,
}

impl ResponseEdit {
    /// `own_lines` are those that the rules add, unless they are the same for each request.
    pub(crate) const fn new(rules: Rc<FieldRules>, own_lines: Vec<u8>) -> Self {
        Self { rules: Some(rules), own_lines }
    }

    /// The header lines that are added.
    fn lines(&self) -> &[u8] {
        let constant = self.rules.as_ref().and_then(|rules| rules.constant());
        constant.map_or(self.own_lines.as_slice(), str::as_bytes)
    }

    /// The header lines that are added to a response that is made here, which has a type and perhaps
    /// Retry-After of its own.
    pub(crate) fn lines_of_errors(&self) -> String {
        let is_own = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default();
            ["content-type", "retry-after"].iter().any(|own| name.eq_ignore_ascii_case(own))
        };
        let lines = String::from_utf8_lossy(self.lines());
        lines.split_inclusive('\n').filter(|line| !is_own(line)).collect()
    }

    fn removed(&self) -> Option<&FieldNames> {
        self.rules.as_ref().map(|rules| rules.removed())
    }

    /// As [`write_response_head`].
    fn write_head(
        &self,
        head: &ResponseHead,
        bytes: &[u8],
        framing: ClientFraming,
        output: &mut Vec<u8>,
    ) -> usize {
        let size = write_response_head(head, bytes, framing, self.removed(), output);
        let lines = self.lines();
        if !lines.is_empty() {
            // Before the empty line.
            output.truncate(output.len() - 2);
            output.extend_from_slice(lines);
            output.extend_from_slice(b"\r\n");
        }
        size
    }
}

/// A response on its way to a client.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// Behind the status line of the final response, if that is in `bytes`.
    fields_at: Option<usize>,
    has_date: bool,
    /// An interim response was written.
    has_interim: bool,
    /// 0 until the final head was received.
    status: u16,
    body_size: u64,
    framing: Option<ClientFraming>,
}

impl Output {
    pub(crate) fn write_interim(&mut self, head: &ResponseHead, bytes: &[u8]) {
        self.has_interim = true;
        write_response_head(head, bytes, ClientFraming::AsReceived, None, &mut self.bytes);
    }

    /// Writes the final head, in the memory of the `request` if that suffices: it is not sent again.
    pub(crate) fn write_head(
        &mut self,
        head: &ResponseHead,
        bytes: &[u8],
        framing: ClientFraming,
        edit: &ResponseEdit,
        request: Vec<u8>,
    ) {
        if self.bytes.capacity() == 0 && request.capacity() <= REUSED_SIZE_MAX {
            self.bytes = request;
            self.bytes.clear();
        }
        self.bytes.reserve(bytes.len() + edit.lines().len() + ADDED_SIZE);
        let start = self.bytes.len();
        let line_size = edit.write_head(head, bytes, framing, &mut self.bytes);
        self.fields_at = Some(start + line_size);
        self.has_date = head.has_date;
        self.status = head.status;
        self.framing = Some(framing);
    }

    /// Writes the head of a switch of protocols.
    pub(crate) fn write_upgrade(&mut self, head: &ResponseHead, bytes: &[u8], edit: &ResponseEdit) {
        edit.write_head(head, bytes, ClientFraming::Upgraded, &mut self.bytes);
        self.status = head.status;
        self.framing = Some(ClientFraming::Upgraded);
    }

    /// Notes the status of a response whose head is not written.
    pub(crate) const fn set_status(&mut self, status: u16) {
        self.status = status;
    }

    /// Adds header lines to the final head, behind its others. It was just written.
    pub(crate) fn add_fields(&mut self, lines: &str) {
        let Some(fields_at) = self.fields_at else { return };
        let from = fields_at - 2;
        let end = self.bytes[from..].windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let at = from + end + 2;
            self.bytes.splice(at..at, lines.bytes());
        }
    }

    pub(crate) fn write_body(&mut self, part: &[u8]) {
        if matches!(self.framing, Some(ClientFraming::Chunked | ClientFraming::ChunkedWithTrailers))
        {
            self.body_size += part.len() as u64;
            append_chunk(part, &mut self.bytes);
        } else {
            self.write_raw(part);
        }
    }

    /// Adds bytes as they are, such as those of a tunnel.
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.body_size += bytes.len() as u64;
    }

    /// Writes what follows the body. `trailers` are its trailer lines.
    pub(crate) fn write_end(&mut self, trailers: &[u8], edit: &ResponseEdit) {
        match self.framing {
            Some(ClientFraming::Chunked) => self.bytes.extend_from_slice(LAST_CHUNK),
            Some(ClientFraming::ChunkedWithTrailers) => {
                write_trailers(trailers, edit.removed(), &mut self.bytes);
            }
            _ => {}
        }
    }

    /// The status of the final response; 0 until its head was received.
    pub(crate) const fn status(&self) -> u16 {
        self.status
    }

    pub(crate) const fn body_size(&self) -> u64 {
        self.body_size
    }

    pub(crate) const fn has_interim(&self) -> bool {
        self.has_interim
    }

    /// Whether nothing waits to be sent.
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the server is not received from, because the client is slower.
    pub(crate) const fn is_high(&self) -> bool {
        self.bytes.len() >= OUTPUT_SIZE_HIGH
    }

    pub(crate) fn is_upgraded(&self) -> bool {
        self.framing == Some(ClientFraming::Upgraded)
    }

    /// Whether the end of the response is that of the client's connection.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.framing == Some(ClientFraming::UntilClose)
    }

    /// Whether the head does not say how long the response is.
    pub(crate) const fn has_unknown_size(&self) -> bool {
        matches!(
            self.framing,
            Some(
                ClientFraming::Chunked
                    | ClientFraming::ChunkedWithTrailers
                    | ClientFraming::UntilClose
            )
        )
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Writes what there is to the client, with the fields that this side adds. Returns whether there
    /// was something.
    pub(crate) fn send(&mut self, version: Version, sink: &mut impl ResponseSink) -> bool {
        let has_output = !self.bytes.is_empty();
        match self.fields_at.take() {
            Some(at) => {
                sink.append(&self.bytes[..at]);
                if !self.has_date {
                    let date = sink.date();
                    sink.append(b"Date: ");
                    sink.append(&date);
                    sink.append(b"\r\n");
                }
                if let Some(line) = sink.request_id()
                    && !has_field_of(&self.bytes[at..], &line)
                {
                    sink.append(&line);
                }
                sink.append(ConnectionHeader::new(version, sink.keeps_alive()).field());
                sink.append_from(at, &mut self.bytes);
            }
            None => sink.append_from(0, &mut self.bytes),
        }
        sink.set_sent(self.status, self.body_size);
        if self.is_upgraded() {
            sink.upgrade();
        }
        has_output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_chunks_and_an_end() {
        let mut upload = Upload::new(UploadFraming::Chunked, true);
        upload.push(b"");
        upload.push(b"hello world");
        assert!(!upload.awaits_continue());
        assert_eq!(upload.take(), b"b\r\nhello world\r\n");
        assert!(upload.is_empty() && upload.is_receiving() && !upload.is_done());
        upload.end();
        upload.end();
        assert!(!upload.is_done());
        assert_eq!(upload.take(), b"0\r\n\r\n");
        assert!(upload.is_done() && upload.is_ended());
        upload.stop();
        assert!(upload.is_done());
    }

    #[test]
    fn a_stopped_upload_gets_no_end() {
        let mut upload = Upload::new(UploadFraming::Raw, false);
        upload.push(&vec![0; SIZE_HIGH - 1]);
        assert!(!upload.is_held());
        upload.push(b"x");
        assert!(upload.is_held());
        upload.stop();
        upload.push(b"x");
        upload.end();
        assert_eq!(upload.take(), b"");
        assert!(upload.is_held() && upload.is_ended() && !upload.is_done());
    }
}
