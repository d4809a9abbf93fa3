//! The head of a response.

use super::status_line::{self, ParsedStatusLine};
use crate::framing::{Body, Framing};
use crate::head::field_line::{self, FieldLine, FieldStart};
use crate::head::{Fields, Span, Version, span, trim};
use crate::limits::Limits;
use crate::reject::{BadResponse, Reject};

/// How the body of a response is delimited (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// No body.
    Empty,
    /// This many bytes, at least one.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Until the server closes the connection.
    UntilClose,
}

/// A complete and valid response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status, from 100 to 599.
    pub status: u16,
    /// The reason phrase, possibly empty.
    pub reason: Span,
    /// The HTTP version.
    pub version: Version,
    /// The framing of the body.
    pub body: ResponseBody,
    /// Whether the server allows the connection to persist (RFC 9112 section 9.3).
    pub keeps_alive: bool,
    /// For how many seconds the server keeps an unused connection, if Keep-Alive has a `timeout`
    /// (RFC 2068 section 19.7.1.1). A value that is malformed is ignored.
    pub keep_alive_s: Option<u32>,
    /// Whether there is a Date.
    pub has_date: bool,
    /// Whether there is a Connection field.
    pub has_connection: bool,
    /// All header lines, without the empty line.
    pub fields: Span,
    /// Size of the head, from its first byte to the end of the empty line.
    pub size: u32,
}

impl ResponseHead {
    /// Iterates over the header fields in order, as name and value.
    pub fn fields<'a>(&self, bytes: &'a [u8]) -> Fields<'a> {
        Fields::of_lines(self.fields.of(bytes))
    }

    /// Whether a final response follows (RFC 9110 section 15.2); 101 is the last of its connection.
    pub const fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// The same as the response to a HEAD request.
    #[must_use]
    pub(super) const fn without_body(self) -> Self {
        Self { body: ResponseBody::Empty, ..self }
    }
}

/// The state of parsing a response head. Parsed lines are not read again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseHeadReader {
    line: Option<ParsedStatusLine>,
    /// Start of the first unparsed line.
    at: usize,
    fields_count: u32,
    framing: Framing,
    /// The options of Connection, if it is present.
    connection: Option<ConnectionOptions>,
    keep_alive_s: Option<u32>,
    has_date: bool,
}

/// The options of a Connection field that concern persistence.
#[derive(Clone, Copy, Debug, Default)]
struct ConnectionOptions {
    closes: bool,
    keeps_alive: bool,
}

impl ResponseHeadReader {
    /// Parses further, and returns the head when it is complete. `bytes` always starts at the start
    /// of the head and holds all received bytes.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<ResponseHead>, BadResponse> {
        let line = match self.line {
            Some(line) => line,
            None => match read_status_line(bytes, limits)? {
                Some(line) => line,
                None => return Ok(None),
            },
        };
        if self.line.is_none() {
            self.line = Some(line);
            self.at = line.size;
        }
        loop {
            let start = FieldStart { at: self.at, fields_at: line.size, count: self.fields_count };
            match field_line::read(bytes, start, limits).map_err(BadResponse::Field)? {
                FieldLine::Partial => return Ok(None),
                FieldLine::Empty => return self.finish(&line).map(Some),
                FieldLine::Field { name_size, value_size } => {
                    let (name, rest) = bytes[self.at..].split_at(name_size);
                    self.check_field(name, trim(&rest[1..][..value_size]), line.version)?;
                    self.fields_count += 1;
                    self.at += name_size + 1 + value_size + 2;
                }
            }
        }
    }

    /// Checks a header field that concerns the connection or the framing, and records what it says.
    fn check_field(
        &mut self,
        name: &[u8],
        value: &[u8],
        version: Version,
    ) -> Result<(), BadResponse> {
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        match name.len() {
            4 if is(b"date") => self.has_date = true,
            10 if is(b"connection") => {
                let options = self.connection.get_or_insert_default();
                for option in value.split(|&byte| byte == b',').map(trim) {
                    options.closes |= option.eq_ignore_ascii_case(b"close");
                    options.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            10 if is(b"keep-alive") => {
                let shorter = timeout_s(value).into_iter().chain(self.keep_alive_s).min();
                self.keep_alive_s = shorter;
            }
            14 if is(b"content-length") => {
                self.framing.content_length(value).map_err(BadResponse::Field)?;
            }
            17 if is(b"transfer-encoding") => {
                if version == Version::Http10 {
                    return Err(BadResponse::Field(Reject::TransferEncodingEarly));
                }
                self.framing.transfer_encoding(value).map_err(BadResponse::Field)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&self, line: &ParsedStatusLine) -> Result<ResponseHead, BadResponse> {
        let no_limit = Limits { body_size_max: u64::MAX, ..Limits::DEFAULT };
        let body = match (line.status, self.framing.body(&no_limit).map_err(BadResponse::Field)?) {
            (100..200 | 204 | 304, _) => ResponseBody::Empty,
            (_, Body::Length(size)) => ResponseBody::Length(size),
            (_, Body::Chunked) => ResponseBody::Chunked,
            (_, Body::Empty) if self.framing.is_given() => ResponseBody::Empty,
            (_, Body::Empty) => ResponseBody::UntilClose,
        };
        let fields = span(line.size, self.at);
        let ConnectionOptions { closes, keeps_alive } = self.connection.unwrap_or_default();
        Ok(ResponseHead {
            status: line.status,
            reason: line.reason,
            version: line.version,
            body,
            keeps_alive: match line.version {
                Version::Http11 => !closes,
                Version::Http10 => keeps_alive && !closes,
            },
            keep_alive_s: self.keep_alive_s,
            has_date: self.has_date,
            has_connection: self.connection.is_some(),
            fields,
            size: fields.end + 2,
        })
    }
}

/// The parameter `timeout` of Keep-Alive, in seconds.
fn timeout_s(value: &[u8]) -> Option<u32> {
    value.split(|&byte| byte == b',').find_map(|parameter| {
        let at = parameter.iter().position(|&byte| byte == b'=')?;
        let (name, digits) = (trim(&parameter[..at]), trim(&parameter[at + 1..]));
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let is_timeout = is_number && name.eq_ignore_ascii_case(b"timeout");
        is_timeout.then(|| str::from_utf8(digits).ok()?.parse().ok()).flatten()
    })
}

fn read_status_line(
    bytes: &[u8],
    limits: &Limits,
) -> Result<Option<ParsedStatusLine>, BadResponse> {
    let limit = limits.request_line_size_max as usize;
    match status_line::read(&bytes[..bytes.len().min(limit)])? {
        None if bytes.len() >= limit => Err(BadResponse::Field(Reject::FieldTooLong)),
        line => Ok(line),
    }
}
