//! Responses as handlers write them.

use std::ops::Range;
use std::sync::Arc;

use jissoku_http::date;
use jissoku_http::response::{ConnectionHeader, StaticResponse};
use jissoku_http::{Head, Method, Version};
use jissoku_os::driver::{SendBuffer, SocketNumber};
use jissoku_os::file::File;

use crate::app_times::AppTimes;
use crate::early_output::{EarlyOutput, EarlyState};
use crate::log::LogRecord;
use crate::status_lines::StatusLineCache;
use crate::telemetry::Telemetry;

/// A part of a body above this size is handed over instead of copied.
const COPIED_PART_SIZE_MAX: usize = 16 * 1024;

/// How the end of a body is marked that is sent in parts (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartFraming {
    /// No body is sent: HEAD, 204, 304.
    None,
    /// By Content-Length, which the handler keeps to.
    Length,
    /// By the chunked transfer coding.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// Writes the response to one request. The server adds the status line, Date and Connection, and
/// omits the body for HEAD.
#[derive(Debug)]
pub struct Response<'a> {
    pub(crate) output: &'a mut SendBuffer,
    pub(crate) status_lines: &'a StatusLineCache,
    pub(crate) state: &'a mut ResponseState,
    pub(crate) times: RequestTimes,
    pub(crate) unsent: usize,
    pub(crate) log_record: LogRecord<'a>,
    pub(crate) telemetry: &'a Telemetry,
    /// `None` if the output is not that of the connection.
    pub(crate) early: Option<&'a mut EarlyState>,
    pub(crate) request_id: Option<&'a Arc<[u8]>>,
}

/// The state of a response between two calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseState {
    version: Version,
    pub(crate) is_head: bool,
    /// Whether the connection persists.
    pub(crate) keeps_alive: bool,
    pub(crate) is_upgraded: bool,
    /// 0 until the head is written.
    pub(crate) status: u16,
    pub(crate) body_size: u64,
}

impl ResponseState {
    #[inline]
    pub(crate) fn new(head: &Head) -> Self {
        Self {
            version: head.version,
            is_head: head.method == Method::Head,
            keeps_alive: head.keeps_alive,
            is_upgraded: false,
            status: 0,
            body_size: 0,
        }
    }
}

/// Times of a request, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTimes {
    /// This wake-up.
    pub(crate) now_ns: u64,
    /// When the last bytes of the request were received.
    pub(crate) received_ns: u64,
}

impl<'a> Response<'a> {
    /// The record of the request in the access log.
    pub const fn log_record(&mut self) -> &mut LogRecord<'a> {
        &mut self.log_record
    }
}

impl Response<'_> {
    /// The time of this wake-up, on the monotonic clock.
    #[inline]
    pub const fn now_ns(&self) -> u64 {
        self.times.now_ns
    }

    /// When the last bytes of the request were received, on the monotonic clock.
    #[inline]
    pub const fn received_ns(&self) -> u64 {
        self.times.received_ns
    }

    /// Whether [`Response::record_times`] has an effect, so that times have to be measured.
    #[inline]
    pub const fn is_timed(&self) -> bool {
        self.telemetry.is_on()
    }

    /// Records the phases of a request that an application has answered, in the metrics and the
    /// access log.
    pub fn record_times(&mut self, times: AppTimes) {
        self.telemetry.count_times(times);
        self.log_record.set_times(times);
    }

    /// The value of Date, now.
    #[inline]
    pub const fn date(&self) -> &[u8; date::SIZE] {
        self.status_lines.date()
    }

    /// The header line with the id of the request, if it has one, for a handler that formats its
    /// responses itself.
    #[inline]
    pub const fn request_id(&self) -> Option<&Arc<[u8]>> {
        self.request_id
    }

    /// Whether the request is a HEAD.
    #[inline]
    pub const fn is_head(&self) -> bool {
        self.state.is_head
    }

    /// Whether the connection is kept open after this response.
    #[inline]
    pub const fn keeps_alive(&self) -> bool {
        self.state.keeps_alive
    }

    /// Closes the connection after this response. Must be called before the head is written.
    pub const fn close_after(&mut self) {
        self.state.keeps_alive = false;
    }

    /// Keeps the connection open after this response, as its head says, which was written earlier:
    /// a shutdown that has begun since must not close it without notice.
    pub const fn keep_after(&mut self) {
        self.state.keeps_alive = true;
    }

    /// Ends HTTP on this connection, with a 101 or a response to CONNECT that the handler writes
    /// (RFC 9110 sections 7.8 and 9.3.6). From now on, all bytes of the client are passed to
    /// [`crate::Handler::on_body`], and [`crate::Handler::respond`] writes to it until it returns
    /// [`crate::Progress::Complete`], which closes the connection.
    pub const fn upgrade(&mut self) {
        self.state.is_upgraded = true;
        self.state.keeps_alive = false;
    }

    /// Bytes of earlier output that are not sent yet.
    pub const fn unsent(&self) -> usize {
        self.unsent
    }

    /// Sends a response with its body in memory.
    #[inline]
    pub fn send(&mut self, status: u16, response: &StaticResponse) {
        self.begin(status, response.body_size());
        let bytes = if self.state.is_head { response.head() } else { response.bytes() };
        self.output.append(bytes);
    }

    /// Sends a response whose body is `body`, without a copy.
    pub fn send_shared(&mut self, status: u16, head: &StaticResponse, body: &Arc<[u8]>) {
        self.begin(status, body.len() as u64);
        self.output.append(head.head());
        if !self.state.is_head {
            self.output.append_shared(Arc::clone(body));
        }
    }

    /// Sends a response whose body is `file`, with `sendfile(2)`.
    pub fn send_file(&mut self, status: u16, head: &StaticResponse, file: &Arc<File>) {
        let size = file.stamp().size;
        self.begin(status, size);
        self.output.append(head.head());
        if !self.state.is_head {
            self.output.append_file(Arc::clone(file), 0..size);
        }
    }

    /// Sends a response that was created for this request.
    pub fn send_dynamic(&mut self, response: &DynamicResponse) {
        self.begin(response.status, response.body_size());
        self.output.append(&response.head);
        if !self.state.is_head {
            response.body.iter().for_each(|part| part.write(self.output));
        }
    }

    /// Sends a response of this request: `lines` are header lines, each with its CRLF, and `append`
    /// writes the body of `body_size` bytes. Content-Length is added, except to a status without a
    /// body (RFC 9110 section 8.6).
    #[inline]
    pub fn send_parts(
        &mut self,
        status: u16,
        lines: &[u8],
        body_size: u64,
        append: impl FnOnce(&mut SendBuffer),
    ) {
        let has_body = !matches!(status, 204 | 304);
        self.begin(status, if has_body { body_size } else { 0 });
        self.output.append(lines);
        if !has_body {
            return self.output.append(b"\r\n");
        }
        append_length(body_size, self.output);
        if !self.state.is_head {
            append(self.output);
        }
    }

    /// Begins a response whose body is appended in parts: `lines` are header lines, each with its CRLF.
    /// Returns how the end of the body is marked, for [`Response::append_part`] and
    /// [`Response::end_parts`]. Without `body_size` that depends on the version of HTTP.
    pub fn begin_parts(
        &mut self,
        status: u16,
        lines: &[u8],
        body_size: Option<u64>,
    ) -> PartFraming {
        let has_body = !matches!(status, 204 | 304);
        let framing = match (body_size, self.state.version) {
            _ if self.state.is_head || !has_body => PartFraming::None,
            (Some(_), _) => PartFraming::Length,
            (None, Version::Http11) => PartFraming::Chunked,
            (None, Version::Http10) => PartFraming::UntilClose,
        };
        if framing == PartFraming::UntilClose {
            self.close_after();
        }
        self.begin(status, 0);
        self.output.append(lines);
        match body_size.filter(|_| has_body) {
            Some(size) => append_length(size, self.output),
            None if framing == PartFraming::Chunked => {
                self.output.append(b"Transfer-Encoding: chunked\r\n\r\n");
            }
            None => self.output.append(b"\r\n"),
        }
        framing
    }

    /// Appends the next part of a body, which is empty afterwards, and returns its size in the output.
    pub fn append_part(&mut self, framing: PartFraming, part: &mut Vec<u8>) -> usize {
        if framing == PartFraming::None || part.is_empty() {
            part.clear();
            return 0;
        }
        let before = self.output.size();
        self.state.body_size += part.len() as u64;
        if framing == PartFraming::Chunked {
            self.output.append(format!("{:x}\r\n", part.len()).as_bytes());
        }
        if part.len() > COPIED_PART_SIZE_MAX {
            self.output.append_owned(std::mem::take(part), 0);
        } else {
            self.output.append(part);
            part.clear();
        }
        if framing == PartFraming::Chunked {
            self.output.append(b"\r\n");
        }
        self.output.size() - before
    }

    /// Ends a body that was appended in parts.
    pub fn end_parts(&mut self, framing: PartFraming) {
        if framing == PartFraming::Chunked {
            self.output.append(b"0\r\n\r\n");
        }
    }

    /// Sends a complete response of the handler, with status line and Connection. The handler
    /// chooses it by [`Response::keeps_alive`].
    #[inline]
    pub fn send_verbatim(&mut self, status: u16, response: &StaticResponse) {
        self.record(status, response.body_size());
        let bytes = if self.state.is_head { response.head() } else { response.bytes() };
        self.output.append(bytes);
    }

    /// Appends bytes to a response, in its framing.
    pub fn append(&mut self, bytes: &[u8]) {
        self.output.append(bytes);
    }

    /// The connection's output, for a handler that formats its responses itself and records their
    /// status and size with [`Response::set_sent`].
    #[inline]
    pub const fn output(&mut self) -> &mut SendBuffer {
        self.output
    }

    /// Records what was sent through [`Response::output`]: the status, and the size of the body so
    /// far.
    #[inline]
    pub const fn set_sent(&mut self, status: u16, body_size: u64) {
        self.state.status = status;
        self.state.body_size = body_size;
    }

    /// Takes the output of the connection of `socket`, to send it during this call;
    /// [`Response::put_back`] has to follow. `None` if earlier output is not sent yet, or if this
    /// output does not go to the connection as it is.
    pub fn take_early(&mut self, socket: SocketNumber) -> Option<Box<EarlyOutput>> {
        let early = self.early.as_mut().filter(|_| self.unsent == 0)?;
        Some(early.lend(socket, self.output))
    }

    /// Puts the output back.
    pub fn put_back(&mut self, early: Box<EarlyOutput>) {
        if let Some(state) = &mut self.early {
            state.take_back(early, self.output);
        }
    }

    /// Calls `respond` with a response that is written to `buffer` instead of the connection.
    pub fn capture<T>(
        &mut self,
        buffer: &mut SendBuffer,
        respond: impl FnOnce(&mut Response<'_>) -> T,
    ) -> T {
        let Self { status_lines, state, times, unsent, log_record, telemetry, .. } = self;
        let request_id = &self.request_id;
        let (times, unsent) = (*times, *unsent);
        respond(&mut Response {
            output: buffer,
            status_lines,
            state,
            times,
            unsent,
            log_record: log_record.reborrow(),
            telemetry,
            early: None,
            request_id: *request_id,
        })
    }

    /// Writes the status line, Date and Connection.
    #[inline]
    fn begin(&mut self, status: u16, body_size: u64) {
        self.record(status, body_size);
        self.status_lines.with(status, |status_line| self.output.append(status_line));
        let ResponseState { version, keeps_alive, .. } = *self.state;
        let connection = ConnectionHeader::new(version, keeps_alive).field();
        if !connection.is_empty() {
            self.output.append(connection);
        }
        if let Some(line) = self.request_id {
            self.output.append(line);
        }
    }

    #[inline]
    fn record(&mut self, status: u16, body_size: u64) {
        self.state.status = status;
        self.state.body_size = if self.state.is_head { 0 } else { body_size };
    }
}

/// Appends Content-Length and the empty line, with one copy.
fn append_length(size: u64, output: &mut SendBuffer) {
    const NAME: &[u8; 16] = b"Content-Length: ";
    const END: &[u8; 4] = b"\r\n\r\n";
    const DIGITS_MAX: usize = 20;
    let mut line = [0; NAME.len() + DIGITS_MAX + END.len()];
    let mut start = line.len() - END.len();
    line[start..].copy_from_slice(END);
    let mut rest = size;
    loop {
        start -= 1;
        line[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    start -= NAME.len();
    line[start..start + NAME.len()].copy_from_slice(NAME);
    output.append(&line[start..]);
}

/// A response created for one request.
#[derive(Debug)]
pub struct DynamicResponse {
    status: u16,
    /// Header lines, each with its CRLF, and the empty line.
    head: Vec<u8>,
    body: Vec<BodyPart>,
}

/// A part of a body, in memory or in a file.
#[derive(Debug)]
pub enum BodyPart {
    /// Bytes that are copied.
    Bytes(Vec<u8>),
    /// A range of shared memory.
    Shared(Arc<[u8]>, Range<usize>),
    /// A range of a file.
    File(Arc<File>, Range<u64>),
}

impl DynamicResponse {
    /// `fields` are header lines, each with its CRLF; Content-Length is added.
    pub fn new(status: u16, fields: impl AsRef<[u8]>, body: Vec<BodyPart>) -> Self {
        let mut response = Self { status, head: Vec::new(), body };
        let length = format!("Content-Length: {}\r\n\r\n", response.body_size());
        response.head = [fields.as_ref(), length.as_bytes()].concat();
        response
    }

    /// A short text.
    pub fn text(status: u16, fields: &str, body: &[u8]) -> Self {
        let fields = format!("{fields}Content-Type: text/plain\r\n");
        Self::new(status, &fields, vec![BodyPart::Bytes(body.to_vec())])
    }

    /// A response without a body and without Content-Length.
    #[must_use]
    pub fn without_body(status: u16, fields: &[u8]) -> Self {
        Self { status, head: [fields, b"\r\n"].concat(), body: Vec::new() }
    }

    fn body_size(&self) -> u64 {
        self.body.iter().map(BodyPart::size).sum()
    }
}

impl BodyPart {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Shared(_, range) => range.len() as u64,
            Self::File(_, range) => range.end - range.start,
        }
    }

    fn write(&self, output: &mut SendBuffer) {
        match self {
            Self::Bytes(bytes) => output.append(bytes),
            Self::Shared(bytes, range) => {
                output.append_shared_part(Arc::clone(bytes), range.clone());
            }
            Self::File(file, range) => output.append_file(Arc::clone(file), range.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_has_all_of_its_digits() {
        for size in [0, 9, 10, 13, 1_000_000, u64::MAX] {
            let mut output = SendBuffer::default();
            append_length(size, &mut output);
            let expected = format!("Content-Length: {size}\r\n\r\n");
            assert_eq!(output.unsent_bytes(), expected.as_bytes());
        }
    }
}
