//! Entry points for fuzzing the response reader, and in `messages` that of WebSocket messages.

pub mod messages;

use crate::engine::error::RequestError;
use crate::plan::expect::{Expected, Verify};
use crate::protocol::date;
use crate::protocol::reader::{Progress, Reader, RequestContext, ResponseInfo};
use crate::protocol::response_matcher::ResponseMatcher;

/// The result of reading a connection's bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct ParsedStream {
    /// The error of each response, if any, and whether the connection stays open.
    pub responses: Vec<(Option<RequestError>, bool)>,
    /// Whether the bytes are invalid from some point on.
    pub is_broken: bool,
    /// The result of the end of the connection, if a response was incomplete.
    pub end: Option<Result<(Option<RequestError>, bool), RequestError>>,
}

/// Reads responses from bytes that arrive in pieces of `step`.
///
/// # Panics
/// The response matcher disagrees with the reader.
pub fn read(bytes: &[u8], step: usize, head_only: bool) -> ParsedStream {
    let expected = Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec()));
    let context = RequestContext { head_only, expected: &expected };
    let mut reader = Reader::default();
    let mut reading = ParsedStream { responses: Vec::new(), is_broken: false, end: None };
    for piece in bytes.chunks(step.max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let starts = reader.is_fresh();
            match reader.feed(rest, context) {
                Progress::Incomplete => break,
                Progress::Invalid | Progress::Control(..) => {
                    return ParsedStream { is_broken: true, ..reading };
                }
                Progress::Complete(response, used) => {
                    if starts {
                        agree(rest, context, response, used);
                    }
                    reading.responses.push((response.error, response.keeps_alive));
                    rest = &rest[used..];
                }
            }
        }
    }
    if !reader.is_fresh() {
        let end = reader.end(context);
        reading.end = Some(end.map(|response| (response.error, response.keeps_alive)));
    }
    reading
}

/// A remembered response must match itself, also with another date, and nothing shorter.
fn agree(bytes: &[u8], context: RequestContext<'_>, response: ResponseInfo, size: usize) {
    let mut matchers = ResponseMatcher::default();
    matchers.update(&bytes[..size], response);
    if response.error.is_none() && size > 0 {
        if let Some(found) = matchers.matches(bytes) {
            assert_eq!(found, (response, size));
            let later = one_later(&bytes[..size]);
            assert_eq!(matchers.matches(&later), Some((response, size)));
            assert_eq!(Reader::default().feed(&later, context), Progress::Complete(response, size));
        }
        assert_eq!(matchers.matches(&bytes[..size - 1]), None);
    }
}

/// The same response with each digit of its date incremented, if it has a date.
fn one_later(response: &[u8]) -> Vec<u8> {
    let mut later = response.to_vec();
    if let Some(at) = date::find(response) {
        for byte in later[at..].iter_mut().take(29).filter(|byte| byte.is_ascii_digit()) {
            *byte = b'0' + (*byte - b'0' + 1) % 10;
        }
    }
    later
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_makes_no_difference() {
        let wire = b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 01:02:03 GMT\r\n\
            Content-Length: 5\r\n\r\nHello";
        assert_ne!(one_later(wire), wire);
        assert_eq!(read(wire, wire.len(), false).responses, [(None, true)]);
    }

    #[test]
    fn pieces_make_no_difference() {
        let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHelloHTTP/1.1 200 OK\r\n\r\nHell";
        let whole = read(wire, wire.len(), false);
        assert_eq!(whole.responses, [(None, true)]);
        assert_eq!(whole.end, Some(Ok((Some(RequestError::Length), false))));
        (1..wire.len()).for_each(|step| assert_eq!(read(wire, step, false), whole));
    }
}
