//! The bytes of answers, made ahead of time where they can be.
//!
//! An answer is three pieces in a row: an [`Opening`], which changes once a second; what has to be said
//! about the connection; and an [`Answer`], which never changes.

use crate::date;
use crate::head::Version;

/// The reason phrase of a status (RFC 9110 section 15); empty for one we never send.
#[must_use]
pub const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

/// Asks a client for the body it holds back (RFC 9110 section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether the connection lives on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It does, as HTTP/1.1 has it without a word.
    Usual,
    /// It does, and the client has to be told (RFC 9112 section 9.3 with appendix C.2.2).
    Agreed,
    /// It ends.
    Ends,
}

impl Persistence {
    /// What to tell a client of `version` about a connection that `lives` on or not.
    #[must_use]
    #[inline]
    pub const fn new(version: Version, lives: bool) -> Self {
        match (lives, version) {
            (false, _) => Self::Ends,
            (true, Version::Http10) => Self::Agreed,
            (true, Version::Http11) => Self::Usual,
        }
    }

    /// The header line that says so, possibly none.
    #[must_use]
    pub const fn field(self) -> &'static [u8] {
        match self {
            Self::Usual => b"",
            Self::Agreed => b"Connection: keep-alive\r\n",
            Self::Ends => b"Connection: close\r\n",
        }
    }
}

/// A status line and a Date, the same for every answer of one status within one second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    bytes: Vec<u8>,
    date_at: usize,
}

impl Opening {
    /// For answers of `status`; the date is that of [`Opening::set_date`], which has to be called first.
    #[must_use]
    pub fn new(status: u16) -> Self {
        let mut bytes = format!("HTTP/1.1 {status} {}\r\nDate: ", reason(status)).into_bytes();
        let date_at = bytes.len();
        bytes.extend_from_slice(&date::imf_fixdate(0));
        bytes.extend_from_slice(b"\r\n");
        Self { bytes, date_at }
    }

    /// Changes the date.
    pub fn set_date(&mut self, date: &[u8; date::SIZE]) {
        self.bytes[self.date_at..][..date::SIZE].copy_from_slice(date);
    }

    /// The lines, each with its CRLF.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The constant rest of an answer: header lines, an empty line, and the body or as much of it as is small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    bytes: Box<[u8]>,
    head_size: usize,
}

impl Answer {
    /// `fields` are header lines, each with its CRLF; Content-Length is added. `body` follows.
    #[must_use]
    pub fn new(fields: &str, body: &[u8]) -> Self {
        let mut answer = Self::head_only(fields, body.len() as u64);
        answer.bytes = [&*answer.bytes, body].concat().into();
        answer
    }

    /// As [`Answer::new`] for a body of `body_size` bytes that is kept elsewhere.
    #[must_use]
    pub fn head_only(fields: &str, body_size: u64) -> Self {
        let bytes = format!("{fields}Content-Length: {body_size}\r\n\r\n").into_bytes();
        Self { head_size: bytes.len(), bytes: bytes.into() }
    }

    /// For an answer that has no body whatever happens (204, 304), and so no Content-Length (RFC 9110
    /// section 8.6).
    #[must_use]
    pub fn bare(fields: &str) -> Self {
        let bytes = format!("{fields}\r\n").into_bytes();
        Self { head_size: bytes.len(), bytes: bytes.into() }
    }

    /// The header lines and the empty line: the answer to HEAD.
    #[must_use]
    #[inline]
    pub const fn head(&self) -> &[u8] {
        self.bytes.split_at(self.head_size).0
    }

    /// What follows the empty line.
    #[must_use]
    #[inline]
    pub const fn body(&self) -> &[u8] {
        self.bytes.split_at(self.head_size).1
    }

    /// How much of the body is kept here.
    #[must_use]
    pub const fn body_size(&self) -> u64 {
        (self.bytes.len() - self.head_size) as u64
    }

    /// The header lines, the empty line and the body.
    #[must_use]
    #[inline]
    pub const fn whole(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reject::Reject;

    #[test]
    fn an_answer_is_its_three_pieces_in_a_row() {
        let mut opening = Opening::new(200);
        opening.set_date(&date::imf_fixdate(784_111_777));
        let answer = Answer::new("Content-Type: text/plain\r\n", b"Hi");
        let whole = [opening.bytes(), Persistence::Ends.field(), answer.whole()].concat();
        let expected = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Connection: close\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nHi";
        assert_eq!(String::from_utf8_lossy(&whole), expected);
        assert!(answer.whole().starts_with(answer.head()));
        assert_eq!(answer.head(), Answer::head_only("Content-Type: text/plain\r\n", 2).whole());
    }

    #[test]
    fn only_old_clients_are_told_that_the_connection_lives() {
        assert_eq!(Persistence::new(Version::Http11, true), Persistence::Usual);
        assert_eq!(Persistence::new(Version::Http10, true), Persistence::Agreed);
        assert_eq!(Persistence::new(Version::Http10, false), Persistence::Ends);
        assert_eq!(Persistence::new(Version::Http11, false), Persistence::Ends);
    }

    #[test]
    fn every_refusal_has_words() {
        for reject in [Reject::Timeout, Reject::BodyTooLong, Reject::HostMissing] {
            assert_ne!(reason(reject.status()), "");
        }
    }
}
