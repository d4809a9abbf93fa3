//! Reads HTTP responses: framing (RFC 9112 section 6.3, strict) and verification.
//!
//! The result does not depend on how the bytes were split. No code is shared with the server:
//! `httparse` parses heads, framing is decided here.

use crate::engine::error::RequestError;
use httparse::{EMPTY_HEADER, Error, Header, ParserConfig, Response, Status};

use crate::plan::expect::{Body, Expected};
use crate::protocol::chunked::{ChunkProgress, Decoder};

/// Limit of the head's size.
const HEAD_SIZE_MAX: usize = 64 * 1024;

/// Header fields for which there is room without an allocation.
pub(crate) const FIELDS_USUAL: usize = 100;

/// Limit of the number of header fields.
pub(crate) const FIELDS_MAX: usize = 4096;

/// Limit of what is shown of a response.
const EXCERPT_SIZE_MAX: usize = 256;

/// The beginning of a response in one line of visible characters.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let part = bytes[..bytes.len().min(EXCERPT_SIZE_MAX)].trim_ascii_end();
    let text = part.escape_ascii().to_string().replace(r"\r\n", "; ").replace(r"\'", "'");
    text.replace(r#"\""#, "\"")
}

/// What of the request determines the meaning of the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestContext<'a> {
    /// The method is HEAD: the response has no body, whatever it announces.
    pub(crate) head_only: bool,
    pub(crate) expected: &'a Expected,
}

/// Reads the HTTP responses of a connection.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The bytes of an incomplete head.
    head: Vec<u8>,
    partial: Option<PartialResponse>,
    /// The beginning of the last head whose status was not an expected one.
    refused: Vec<u8>,
    /// The size of the last body.
    body_size: u64,
}

/// A response whose head has been read.
#[derive(Debug)]
struct PartialResponse {
    status: u16,
    keeps_alive: bool,
    framing: Framing,
    body: Body,
}

#[derive(Debug)]
enum Framing {
    /// This many bytes of the body are missing.
    Length(u64),
    Chunked(Decoder),
    /// The end of the connection ends the body.
    Close,
}

/// What is needed of a head.
struct Head {
    status: u16,
    keeps_alive: bool,
    framing: Framing,
}

impl Reader {
    /// Reads the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8], context: RequestContext<'_>) -> Progress {
        let mut used = 0;
        while self.partial.is_none() {
            match self.read_head(&bytes[used..], context) {
                Parsed::Invalid => return Progress::Invalid,
                Parsed::Partial => return Progress::Incomplete,
                Parsed::Complete(count, head) => {
                    used += count;
                    // An interim response (1xx) is skipped.
                    self.partial = head.map(|head| head.into_partial(context.expected));
                }
            }
        }
        match self.read_body(&bytes[used..], context.expected) {
            ChunkProgress::Incomplete => Progress::Incomplete,
            ChunkProgress::Invalid => Progress::Invalid,
            ChunkProgress::Complete(count) => match self.partial.take() {
                Some(partial) => Progress::Complete(self.verify(partial, context), used + count),
                None => Progress::Invalid,
            },
        }
    }

    /// The connection has ended: returns the response that this completes, or the error.
    pub(crate) fn end(
        &mut self,
        context: RequestContext<'_>,
    ) -> Result<ResponseInfo, RequestError> {
        match self.partial.take() {
            Some(partial) if matches!(partial.framing, Framing::Close) => {
                Ok(self.verify(partial, context))
            }
            Some(_) => Err(RequestError::Length),
            None => Err(RequestError::Closed),
        }
    }

    fn verify(&mut self, partial: PartialResponse, context: RequestContext<'_>) -> ResponseInfo {
        self.body_size = partial.body.size();
        let error = partial.body.verify(partial.status, context.expected);
        ResponseInfo { status: partial.status, error, keeps_alive: partial.keeps_alive }
    }

    /// What is wrong with the last response.
    pub(crate) fn describe(&self, response: ResponseInfo, expected: &Expected) -> Option<String> {
        let (size, status) = (self.body_size, response.status);
        match response.error? {
            RequestError::Status => Some(excerpt(&self.refused)),
            RequestError::Length => {
                let length = expected.length().filter(|length| *length != size)?;
                Some(format!("status {status}, a body of {size} bytes in place of {length}"))
            }
            RequestError::Body => {
                Some(format!("status {status}, a body of {size} bytes with other content"))
            }
            _ => None,
        }
    }

    /// Whether no bytes of the next response have been read.
    pub(crate) fn is_fresh(&self) -> bool {
        self.partial.is_none() && self.head.is_empty()
    }

    /// Reads a head, and returns how many of `bytes` it took.
    fn read_head(&mut self, bytes: &[u8], context: RequestContext<'_>) -> Parsed {
        let before = self.head.len();
        let parsed = if before == 0 {
            parse_head(bytes, context.head_only)
        } else {
            self.head.extend_from_slice(bytes);
            parse_head(&self.head, context.head_only)
        };
        match parsed {
            Parsed::Complete(size, head) => {
                if head.as_ref().is_some_and(|head| !context.expected.accepts(head.status)) {
                    let all = if before == 0 { bytes } else { &self.head };
                    self.refused.clear();
                    self.refused.extend_from_slice(&all[..size.min(EXCERPT_SIZE_MAX)]);
                }
                self.head.clear();
                Parsed::Complete(size - before, head)
            }
            Parsed::Partial => {
                if before == 0 {
                    self.head.extend_from_slice(bytes);
                }
                if self.head.len() > HEAD_SIZE_MAX { Parsed::Invalid } else { Parsed::Partial }
            }
            Parsed::Invalid => Parsed::Invalid,
        }
    }

    fn read_body(&mut self, bytes: &[u8], expected: &Expected) -> ChunkProgress {
        let Some(PartialResponse { framing, body, .. }) = &mut self.partial else {
            return ChunkProgress::Invalid;
        };
        match framing {
            Framing::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                body.update(&bytes[..count], expected);
                *left -= count as u64;
                if *left == 0 { ChunkProgress::Complete(count) } else { ChunkProgress::Incomplete }
            }
            Framing::Chunked(decoder) => decoder.feed(bytes, |part| body.update(part, expected)),
            Framing::Close => {
                body.update(bytes, expected);
                ChunkProgress::Incomplete
            }
        }
    }
}

impl Head {
    fn into_partial(self, expected: &Expected) -> PartialResponse {
        let Self { status, keeps_alive, framing } = self;
        PartialResponse { status, keeps_alive, framing, body: Body::begin(expected) }
    }
}

/// The result of parsing a head.
enum Parsed {
    /// Incomplete.
    Partial,
    /// A head of this size; `None` for an interim response.
    Complete(usize, Option<Head>),
    /// Invalid.
    Invalid,
}

fn parse_head(bytes: &[u8], head_only: bool) -> Parsed {
    parse_fields(bytes, head_only, &mut [EMPTY_HEADER; FIELDS_USUAL]).unwrap_or_else(|| {
        let mut fields = vec![EMPTY_HEADER; FIELDS_MAX];
        parse_fields(bytes, head_only, &mut fields).unwrap_or(Parsed::Invalid)
    })
}

/// Parses a head with room for some fields; `None` if there are more. A folded line is part of its
/// field's value, as if it followed spaces (RFC 9112 section 5.2).
fn parse_fields<'b>(bytes: &'b [u8], head_only: bool, fields: &mut [Header<'b>]) -> Option<Parsed> {
    let mut response = Response::new(fields);
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    Some(match config.parse_response(&mut response, bytes) {
        Ok(Status::Complete(size)) => read_parsed(&response, size, head_only),
        Ok(Status::Partial) => Parsed::Partial,
        Err(Error::TooManyHeaders) => return None,
        Err(_) => Parsed::Invalid,
    })
}

/// What a complete head of this size means.
fn read_parsed(response: &Response<'_, '_>, size: usize, head_only: bool) -> Parsed {
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return Parsed::Invalid;
    };
    match status {
        100 | 102..200 => Parsed::Complete(size, None),
        200..600 => {
            let bodiless = head_only || status == 204 || status == 304;
            let Some((framing, keeps_alive)) = framing(response.headers, minor, bodiless) else {
                return Parsed::Invalid;
            };
            let keeps_alive = keeps_alive && !matches!(framing, Framing::Close);
            Parsed::Complete(size, Some(Head { status, keeps_alive, framing }))
        }
        // Includes 101: no upgrade was requested.
        _ => Parsed::Invalid,
    }
}

/// The framing of the body and whether the connection stays open; `None` if the fields contradict
/// each other.
fn framing(fields: &[Header<'_>], minor: u8, bodiless: bool) -> Option<(Framing, bool)> {
    let (mut length, mut chunked) = (None, false);
    let (mut close, mut keep) = (false, false);
    for field in fields {
        if field.name.eq_ignore_ascii_case("content-length") {
            let value = decimal(field.value)?;
            if length.is_some_and(|known| known != value) {
                return None;
            }
            length = Some(value);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return None;
            }
            chunked = true;
        } else if field.name.eq_ignore_ascii_case("connection") {
            for option in field.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                close |= option.eq_ignore_ascii_case(b"close");
                keep |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    let framing = match (length, chunked) {
        // With two framings, an intermediary may read the response differently.
        (Some(_), true) => return None,
        _ if bodiless => Framing::Length(0),
        (_, true) => Framing::Chunked(Decoder::new()),
        (Some(length), _) => Framing::Length(length),
        (None, false) => Framing::Close,
    };
    Some((framing, !close && (minor == 1 || keep)))
}

fn decimal(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseInfo {
    /// Zero for a WebSocket message, which has none.
    pub(crate) status: u16,
    /// Why it is not the expected one.
    pub(crate) error: Option<RequestError>,
    /// Whether the connection stays open.
    pub(crate) keeps_alive: bool,
}

/// The result of reading some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All bytes were used; the response is incomplete.
    Incomplete,
    /// A response ended after this many bytes.
    Complete(ResponseInfo, usize),
    /// A WebSocket control frame ended after this many bytes.
    Control(ControlFrame, usize),
    /// The bytes are not a valid response.
    Invalid,
}

/// A control frame of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlFrame {
    /// It must be answered with a pong that has the same payload.
    Ping,
    /// The answer to a ping, or a sign of life.
    Pong,
    /// The server sends nothing after this.
    Close,
}

#[cfg(test)]
mod tests;
