//! Reads a head line by line, in one pass over the bytes.
//!
//! INVARIANT: what is decided at a byte depends only on the bytes up to it. Limits are therefore kept by
//! looking no further than they reach, and a head that comes in pieces ends as it would in one piece.

use super::line::{self, RequestLine, span};
use super::{Head, Method, Noted, Version, fields};
use crate::framing::Framing;
use crate::limits::Limits;
use crate::reject::Reject;
use crate::scan;

/// What was read of one head so far. Lines that were read are not looked at again.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadReader {
    /// Where the first line that was not read begins.
    at: usize,
    line: Option<RequestLine>,
    fields_at: usize,
    fields_count: u32,
    framing: Framing,
    has_host: bool,
    wish: Wish,
    awaits_continue: bool,
    noted: Noted,
}

/// What the client said about the connection; of two wishes, the later in this list wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    #[default]
    None,
    KeepAlive,
    Close,
}

/// What one step over the header lines found.
enum Line {
    Partial,
    Field,
    Empty,
}

impl HeadReader {
    /// Reads on, and returns the head when it is complete. `bytes` begins where the head begins and
    /// holds all that has come, every time.
    ///
    /// # Errors
    /// The first reason to refuse, at the byte where it shows.
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
            match self.read_field(bytes, line.version, limits)? {
                Line::Field => {}
                Line::Partial => return Ok(None),
                Line::Empty => return self.finish(line, limits).map(Some),
            }
        }
    }

    #[inline]
    fn read_request_line(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<RequestLine>, Reject> {
        // One empty line before the request is forgiven (RFC 9112 section 2.2).
        if self.at == 0 && bytes.first() == Some(&b'\r') {
            match bytes.get(1) {
                None => return Ok(None),
                Some(b'\n') => self.at = 2,
                Some(_) => return Err(Reject::BareCr),
            }
        }
        let limit = self.at + limits.request_line_size_max as usize;
        let Some(line) = line::read(&bytes[..bytes.len().min(limit)], self.at)? else {
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
        version: Version,
        limits: &Limits,
    ) -> Result<Line, Reject> {
        let line_limit = self.at + limits.field_size_max as usize;
        let limit = line_limit.min(self.fields_at + limits.fields_size_max as usize);
        let partial = || match bytes.len() {
            size if size < limit => Ok(Line::Partial),
            _ if limit == line_limit => Err(Reject::FieldTooLong),
            _ => Err(Reject::FieldsTooLong),
        };
        let window = &bytes[self.at..bytes.len().min(limit)];
        let name_size = scan::token_end(window);
        let Some(&after_name) = window.get(name_size) else { return partial() };
        if after_name != b':' || name_size == 0 {
            return match (after_name, name_size, window.get(1)) {
                (b'\r', 0, None) => partial(),
                (b'\r', 0, Some(b'\n')) => Ok(Line::Empty),
                _ => Err(refuse_name(after_name, name_size)),
            };
        }
        if self.fields_count == limits.fields_count_max {
            return Err(Reject::FieldsTooMany);
        }
        let rest = &window[name_size + 1..];
        let value_size = scan::value_end(rest);
        match (rest.get(value_size), rest.get(value_size + 1)) {
            (Some(b'\r'), Some(b'\n')) => {}
            (None, _) | (Some(b'\r'), None) => return partial(),
            (Some(b'\r'), Some(_)) => return Err(Reject::BareCr),
            (Some(b'\n'), _) => return Err(Reject::BareLf),
            (Some(_), _) => return Err(Reject::ControlByte),
        }
        self.heed(&window[..name_size], fields::trim(&rest[..value_size]), version)?;
        self.fields_count += 1;
        self.at += name_size + 1 + value_size + 2;
        Ok(Line::Field)
    }

    /// Takes note of a header line that says something about the connection or the message itself.
    #[inline]
    fn heed(&mut self, name: &[u8], value: &[u8], version: Version) -> Result<(), Reject> {
        match name.len() {
            4 if is_host(name) => {
                if self.has_host {
                    return Err(Reject::HostDuplicate);
                }
                if !super::host::is_valid(value) {
                    return Err(Reject::HostInvalid);
                }
                self.has_host = true;
            }
            6 if name.eq_ignore_ascii_case(b"expect") && version == Version::Http11 => {
                // An HTTP/1.0 client cannot mean it (RFC 9110 section 10.1.1).
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Reject::ExpectationUnknown);
                }
                self.awaits_continue = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in value.split(|&byte| byte == b',').map(fields::trim) {
                    if option.eq_ignore_ascii_case(b"close") {
                        self.wish = Wish::Close;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") {
                        self.wish = self.wish.max(Wish::KeepAlive);
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
            _ => self.noted.note(name),
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
                Version::Http11 => self.wish != Wish::Close,
                Version::Http10 => self.wish == Wish::KeepAlive,
            },
            awaits_continue: self.awaits_continue,
            noted: self.noted,
            fields,
            size: fields.end + 2,
        })
    }
}

/// Whether a name of four letters is `Host`, which every request of HTTP/1.1 has: one comparison. Setting
/// the bit that tells small letters from capitals makes no other byte one of these four.
#[inline]
fn is_host(name: &[u8]) -> bool {
    let small = |&name: &[u8; 4]| u32::from_le_bytes(name) | 0x2020_2020;
    name.first_chunk().map(small) == Some(u32::from_le_bytes(*b"host"))
}

#[cold]
fn refuse_name(byte: u8, name_size: usize) -> Reject {
    match byte {
        b' ' | b'\t' if name_size == 0 => Reject::ObsoleteFold,
        b' ' | b'\t' => Reject::SpaceBeforeColon,
        b'\n' => Reject::BareLf,
        b'\r' if name_size == 0 => Reject::BareCr,
        _ => Reject::FieldNameInvalid,
    }
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
