//! Message body length: RFC 9112 section 6.
//!
//! Conflicting framing is treated as request smuggling, so every disagreement is rejected.
//! `chunked.rs` and `request_parser.rs` rely on the decision made here.

use crate::limits::Limits;
use crate::reject::Reject;
use crate::scan;

/// How the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body.
    Empty,
    /// This many bytes, at least one.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// The framing fields parsed so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Framing {
    content_length: Option<u64>,
    is_chunked: bool,
}

impl Framing {
    /// Records a Content-Length (RFC 9112 section 6.2).
    ///
    /// A second one is rejected even if it is equal, as the RFC permits.
    pub(crate) fn content_length(&mut self, value: &[u8]) -> Result<(), Reject> {
        if self.content_length.is_some() {
            return Err(Reject::ContentLengthDuplicate);
        }
        if self.is_chunked {
            return Err(Reject::FramingConflict);
        }
        self.content_length = Some(decimal(value).ok_or(Reject::ContentLengthInvalid)?);
        Ok(())
    }

    /// Records a Transfer-Encoding (RFC 9112 section 6.1).
    pub(crate) fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Reject> {
        if self.is_chunked {
            return Err(Reject::TransferEncodingInvalid);
        }
        if self.content_length.is_some() {
            return Err(Reject::FramingConflict);
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(coding_rejection(value));
        }
        self.is_chunked = true;
        Ok(())
    }

    /// The body length, once all header fields are parsed (RFC 9112 section 6.3).
    #[inline]
    pub(crate) fn body(self, limits: &Limits) -> Result<Body, Reject> {
        match self.content_length {
            None if self.is_chunked => Ok(Body::Chunked),
            None | Some(0) => Ok(Body::Empty),
            Some(size) if size > limits.body_size_max => Err(Reject::BodyTooLong),
            Some(size) => Ok(Body::Length(size)),
        }
    }

    /// Whether a framing field is present.
    pub(crate) const fn is_given(self) -> bool {
        self.content_length.is_some() || self.is_chunked
    }
}

/// Parses 1*DIGIT up to 2^63 - 1; no sign, space or list.
fn decimal(value: &[u8]) -> Option<u64> {
    let mut sum: u64 = 0;
    for &byte in value {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum = sum.checked_mul(10)?.checked_add(digit.into())?;
    }
    (!value.is_empty() && sum <= i64::MAX.unsigned_abs()).then_some(sum)
}

/// Distinguishes unknown codings (501) from a body whose end cannot be determined (400).
#[cold]
fn coding_rejection(value: &[u8]) -> Reject {
    let mut codings = value.rsplit(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let ends_chunked = codings.next().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
    let are_foreign = codings.all(|coding| {
        let name_size = scan::token_end(coding);
        name_size > 0 && !coding[..name_size].eq_ignore_ascii_case(b"chunked")
    });
    if ends_chunked && are_foreign {
        Reject::TransferEncodingUnknown
    } else {
        Reject::TransferEncodingInvalid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_digits_and_nothing_else() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"007"), Some(7));
        assert_eq!(decimal(b"9223372036854775807"), Some(i64::MAX.unsigned_abs()));
        for wrong in ["", "+1", "-1", "1 ", "1,1", "0x1", "1.0", "9223372036854775808", "1e3"] {
            assert_eq!(decimal(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_unknown_coding_is_not_a_body_without_an_end() {
        use Reject::{TransferEncodingInvalid as Invalid, TransferEncodingUnknown as Unknown};
        let check =
            |value: &str, expected| assert_eq!(coding_rejection(value.as_bytes()), expected);
        check("gzip, chunked", Unknown);
        check("gzip;q=1 , deflate, Chunked", Unknown);
        check("gzip", Invalid);
        check("chunked, gzip", Invalid);
        check("chunked, chunked", Invalid);
        check("chunked;q=1", Invalid);
        check(", chunked", Invalid);
        check("xchunked", Invalid);
        check("", Invalid);
    }
}
