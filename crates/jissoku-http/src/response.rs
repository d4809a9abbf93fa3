//! Formatting of responses, in advance where possible.
//!
//! A response consists of a [`StatusLine`], which changes once a second; a [`ConnectionHeader`];
//! and a [`StaticResponse`], which never changes.

use crate::date;
use crate::head::Version;

/// The reason phrase of a status (RFC 9110 section 15, and the status code registry of IANA); empty
/// for a status without one.
pub const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => "",
    }
}

/// The interim response 100 (RFC 9110 section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The Connection header field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionHeader {
    /// Persistent, the default of HTTP/1.1: no field.
    Implicit,
    /// Persistent with HTTP/1.0: `keep-alive` (RFC 9112 section 9.3 with appendix C.2.2).
    KeepAlive,
    /// `close`.
    Close,
}

impl ConnectionHeader {
    /// The field for a client of `version`, if the connection `persists` or not.
    #[inline]
    pub const fn new(version: Version, persists: bool) -> Self {
        match (persists, version) {
            (false, _) => Self::Close,
            (true, Version::Http10) => Self::KeepAlive,
            (true, Version::Http11) => Self::Implicit,
        }
    }

    /// The header line, possibly empty.
    pub const fn field(self) -> &'static [u8] {
        match self {
            Self::Implicit => b"",
            Self::KeepAlive => b"Connection: keep-alive\r\n",
            Self::Close => b"Connection: close\r\n",
        }
    }
}

/// A status line and a Date, which are equal for all responses of one status within a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLine {
    bytes: Vec<u8>,
    date_at: usize,
}

impl StatusLine {
    /// For `status`; the date has to be set with [`StatusLine::set_date`].
    pub fn new(status: u16) -> Self {
        let mut bytes = format!("HTTP/1.1 {status} {}\r\nDate: ", reason(status)).into_bytes();
        let date_at = bytes.len();
        bytes.extend_from_slice(&date::imf_fixdate(0));
        bytes.extend_from_slice(b"\r\n");
        Self { bytes, date_at }
    }

    /// Sets the date.
    pub fn set_date(&mut self, date: &[u8; date::SIZE]) {
        self.bytes[self.date_at..][..date::SIZE].copy_from_slice(date);
    }

    /// The lines, each with its CRLF.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The constant part of a response: header lines, the empty line, and the body if it is small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticResponse {
    bytes: Box<[u8]>,
    head_size: usize,
}

impl StaticResponse {
    /// `fields` are header lines, each with its CRLF; Content-Length is added. `body` follows.
    pub fn new(fields: &str, body: &[u8]) -> Self {
        let mut response = Self::head_only(fields, body.len() as u64);
        response.bytes = [&*response.bytes, body].concat().into();
        response
    }

    /// As [`StaticResponse::new`] for a body of `body_size` bytes that is stored separately.
    pub fn head_only(fields: &str, body_size: u64) -> Self {
        let bytes = format!("{fields}Content-Length: {body_size}\r\n\r\n").into_bytes();
        Self { head_size: bytes.len(), bytes: bytes.into() }
    }

    /// For a status without a body (204, 304), and so without Content-Length (RFC 9110 section
    /// 8.6).
    #[must_use]
    pub fn without_body(fields: &str) -> Self {
        let bytes = format!("{fields}\r\n").into_bytes();
        Self { head_size: bytes.len(), bytes: bytes.into() }
    }

    /// The header lines and the empty line: the response to HEAD.
    #[inline]
    pub const fn head(&self) -> &[u8] {
        self.bytes.split_at(self.head_size).0
    }

    /// The stored body.
    #[inline]
    pub const fn body(&self) -> &[u8] {
        self.bytes.split_at(self.head_size).1
    }

    /// The size of the stored body.
    pub const fn body_size(&self) -> u64 {
        (self.bytes.len() - self.head_size) as u64
    }

    /// The header lines, the empty line and the body.
    #[inline]
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reject::Reject;

    #[test]
    fn an_answer_is_its_three_pieces_in_a_row() {
        let mut status_line = StatusLine::new(200);
        status_line.set_date(&date::imf_fixdate(784_111_777));
        let response = StaticResponse::new("Content-Type: text/plain\r\n", b"Hi");
        let all = [status_line.bytes(), ConnectionHeader::Close.field(), response.bytes()].concat();
        let expected = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Connection: close\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nHi";
        assert_eq!(String::from_utf8_lossy(&all), expected);
        assert!(response.bytes().starts_with(response.head()));
        assert_eq!(
            response.head(),
            StaticResponse::head_only("Content-Type: text/plain\r\n", 2).bytes()
        );
    }

    #[test]
    fn only_http_1_0_gets_a_keep_alive_field() {
        assert_eq!(ConnectionHeader::new(Version::Http11, true), ConnectionHeader::Implicit);
        assert_eq!(ConnectionHeader::new(Version::Http10, true), ConnectionHeader::KeepAlive);
        assert_eq!(ConnectionHeader::new(Version::Http10, false), ConnectionHeader::Close);
        assert_eq!(ConnectionHeader::new(Version::Http11, false), ConnectionHeader::Close);
    }

    #[test]
    fn redirects_have_phrases_and_unregistered_statuses_none() {
        assert_eq!([301, 302, 303, 307, 308].map(reason).map(str::is_empty), [false; 5]);
        assert_eq!([0, 299, 418, 430, 599, 999].map(reason), [""; 6]);
    }

    #[test]
    fn every_refusal_has_words() {
        for reject in [Reject::Timeout, Reject::BodyTooLong, Reject::HostMissing] {
            assert_ne!(reason(reject.status()), "");
        }
    }
}
