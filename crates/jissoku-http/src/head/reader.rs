//! Parses a head line by line, in one pass.
//!
//! INVARIANT: a decision at a byte depends only on the bytes up to it, so the result is independent
//! of how the head is split. Limits are enforced by not reading beyond them.

use super::field_line::{self, FieldLine, FieldStart};
use super::header_flags::HeaderFlags;
use super::request_head::Head;
use super::request_line::{self, Method, RequestLine, Version, span};
use crate::framing::Framing;
use crate::limits::Limits;
use crate::reject::Reject;

/// The state of parsing a head. Parsed lines are not read again.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadReader {
    /// Start of the first unparsed line.
    at: usize,
    line: Option<RequestLine>,
    fields_at: usize,
    fields_count: u32,
    framing: Framing,
    has_host: bool,
    connection: ConnectionOption,
    expects_continue: bool,
    flags: HeaderFlags,
}

/// The connection option of the client; of two options, the later in this list takes precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionOption {
    #[default]
    None,
    KeepAlive,
    Close,
}

/// The result of parsing one header line.
enum Line {
    Partial,
    Field,
    Empty,
}

impl HeadReader {
    /// Parses further, and returns the head when it is complete. `bytes` always starts at the start
    /// of the head and holds all received bytes.
    ///
    /// # Errors
    /// The first error, at the byte where it is detected.
    #[inline]
    pub fn read(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<Head>, Reject> {
        let line = match self.line {
            Some(line) => line,
            None => match self.read_request_line(bytes, limits)? {
                Some(line) => line,
                None => return Ok(None),
            },
        };
        loop {
            match self.read_field(bytes, &line, limits)? {
                Line::Field => {}
                Line::Partial => return Ok(None),
                Line::Empty => return self.finish(line, limits).map(Some),
            }
        }
    }

    /// Whether the request is a HEAD, as far as parsed. `bytes` are those of the last
    /// [`HeadReader::read`].
    pub(crate) fn is_head(&self, bytes: &[u8]) -> bool {
        match self.line {
            Some(line) => line.method == Method::Head,
            None => bytes.strip_prefix(b"\r\n").unwrap_or(bytes).starts_with(b"HEAD "),
        }
    }

    #[inline]
    fn read_request_line(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<RequestLine>, Reject> {
        // One empty line before the request is ignored (RFC 9112 section 2.2).
        if self.at == 0 && bytes.first() == Some(&b'\r') {
            match bytes.get(1) {
                None => return Ok(None),
                Some(b'\n') => self.at = 2,
                Some(_) => return Err(Reject::BareCr),
            }
        }
        let limit = self.at + limits.request_line_size_max as usize;
        let Some(line) = request_line::read(&bytes[..bytes.len().min(limit)], self.at)? else {
            return if bytes.len() >= limit { Err(Reject::RequestLineTooLong) } else { Ok(None) };
        };
        self.at += line.size;
        self.fields_at = self.at;
        self.line = Some(line);
        Ok(Some(line))
    }

    #[inline]
    fn read_field(
        &mut self,
        bytes: &[u8],
        line: &RequestLine,
        limits: &Limits,
    ) -> Result<Line, Reject> {
        let count = self.fields_count;
        let start = FieldStart { at: self.at, fields_at: self.fields_at, count };
        let (name_size, value_size) = match field_line::read(bytes, start, limits)? {
            FieldLine::Field { name_size, value_size } => (name_size, value_size),
            FieldLine::Partial => return Ok(Line::Partial),
            FieldLine::Empty => return Ok(Line::Empty),
        };
        let window = &bytes[self.at..];
        let value = &window[name_size + 1..][..value_size];
        self.check_field(&window[..name_size], field_line::trim(value), line)?;
        self.fields_count += 1;
        self.at += name_size + 1 + value_size + 2;
        Ok(Line::Field)
    }

    /// Checks a header field that concerns the connection or the framing, and records what it says.
    #[inline]
    fn check_field(&mut self, name: &[u8], value: &[u8], line: &RequestLine) -> Result<(), Reject> {
        let version = line.version;
        match name.len() {
            4 if is_host(name) => {
                if self.has_host {
                    return Err(Reject::HostDuplicate);
                }
                // With an absolute target the field is ignored (RFC 9112 section 3.2.2).
                let is_valid = if line.is_origin_form {
                    super::host::is_valid_and_not_empty(value)
                } else {
                    super::host::is_valid(value)
                };
                if !is_valid {
                    return Err(Reject::HostInvalid);
                }
                self.has_host = true;
            }
            6 if name.eq_ignore_ascii_case(b"expect") && version == Version::Http11 => {
                // Ignored for HTTP/1.0 (RFC 9110 section 10.1.1).
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Reject::ExpectationUnknown);
                }
                self.expects_continue = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.flags.set(HeaderFlags::CONNECTION);
                for option in value.split(|&byte| byte == b',').map(field_line::trim) {
                    if option.eq_ignore_ascii_case(b"close") {
                        self.connection = ConnectionOption::Close;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") {
                        self.connection = self.connection.max(ConnectionOption::KeepAlive);
                    }
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                self.framing.content_length(value)?;
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                if version == Version::Http10 {
                    return Err(Reject::TransferEncodingEarly);
                }
                self.framing.transfer_encoding(value)?;
            }
            _ => self.flags.add(name),
        }
        Ok(())
    }

    #[inline]
    fn finish(&self, line: RequestLine, limits: &Limits) -> Result<Head, Reject> {
        if line.version == Version::Http11 && !self.has_host {
            return Err(Reject::HostMissing);
        }
        let sends = matches!(line.method, Method::Post | Method::Put);
        if line.version == Version::Http10 && sends && !self.framing.is_given() {
            return Err(Reject::ContentLengthMissing);
        }
        let fields = span(self.fields_at, self.at);
        Ok(Head {
            method: line.method,
            method_name: line.method_name,
            target: line.target,
            version: line.version,
            body: self.framing.body(limits)?,
            keeps_alive: match line.version {
                Version::Http11 => self.connection != ConnectionOption::Close,
                Version::Http10 => self.connection == ConnectionOption::KeepAlive,
            },
            expects_continue: self.expects_continue,
            flags: self.flags,
            fields,
            size: fields.end + 2,
        })
    }
}

/// Whether a name of four letters is `Host`, with one comparison: setting the case bit maps no
/// other byte to one of these four.
#[inline]
fn is_host(name: &[u8]) -> bool {
    let small = |&name: &[u8; 4]| u32::from_le_bytes(name) | 0x2020_2020;
    name.first_chunk().map(small) == Some(u32::from_le_bytes(*b"host"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::is_host;

    proptest! {
        #[test]
        fn only_host_is_host_in_whatever_case(
            name in prop_oneof![any::<[u8; 4]>(), "[hH][oO][sS][tT]".prop_map(|name| {
                name.into_bytes().try_into().expect("it has four letters")
            })],
        ) {
            prop_assert_eq!(is_host(&name), name.eq_ignore_ascii_case(b"host"));
        }
    }
}
