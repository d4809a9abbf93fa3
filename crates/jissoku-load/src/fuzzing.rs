//! What a fuzzer may ask of the reader of answers; no part of the stopwatch.

use crate::date;
use crate::expect::{Expected, Verify};
use crate::fault::Fault;
use crate::reader::{Answer, Asked, Progress, Reader};
use crate::template::Templates;

/// How a connection's bytes were understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Reading {
    /// What is wrong with each answer, if anything, and whether the connection lives on.
    pub answers: Vec<(Option<Fault>, bool)>,
    /// Whether the bytes are no HTTP from some point on.
    pub is_broken: bool,
    /// What the end of the connection means, if something was under way.
    pub end: Option<Result<(Option<Fault>, bool), Fault>>,
}

/// Reads answers from bytes that come in pieces of `step`.
///
/// # Panics
/// The short way to a verdict gives another one than the strict way.
#[must_use]
pub fn read(bytes: &[u8], step: usize, head_only: bool) -> Reading {
    let expected = Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec()));
    let asked = Asked { head_only, expected: &expected };
    let mut reader = Reader::default();
    let mut reading = Reading { answers: Vec::new(), is_broken: false, end: None };
    for piece in bytes.chunks(step.max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let starts = reader.is_fresh();
            match reader.feed(rest, asked) {
                Progress::More => break,
                Progress::Broken => return Reading { is_broken: true, ..reading },
                Progress::Whole(answer, used) => {
                    if starts {
                        agree(rest, asked, answer, used);
                    }
                    reading.answers.push((answer.fault, answer.keeps_alive));
                    rest = &rest[used..];
                }
            }
        }
    }
    if !reader.is_fresh() {
        let end = reader.end(asked);
        reading.end = Some(end.map(|answer| (answer.fault, answer.keeps_alive)));
    }
    reading
}

/// What was learned from an answer must recognise it, with another date too, and nothing that is shorter.
fn agree(bytes: &[u8], asked: Asked<'_>, answer: Answer, size: usize) {
    let mut templates = Templates::default();
    templates.learn(&bytes[..size], answer);
    if answer.fault.is_none() && size > 0 {
        if let Some(found) = templates.recognise(bytes) {
            assert_eq!(found, (answer, size));
            let later = one_later(&bytes[..size]);
            assert_eq!(templates.recognise(&later), Some((answer, size)));
            assert_eq!(Reader::default().feed(&later, asked), Progress::Whole(answer, size));
        }
        assert_eq!(templates.recognise(&bytes[..size - 1]), None);
    }
}

/// The same answer, with each digit of its date one further, if it has a date.
fn one_later(answer: &[u8]) -> Vec<u8> {
    let mut later = answer.to_vec();
    if let Some(at) = date::find(answer) {
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
        assert_eq!(read(wire, wire.len(), false).answers, [(None, true)]);
    }

    #[test]
    fn pieces_make_no_difference() {
        let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHelloHTTP/1.1 200 OK\r\n\r\nHell";
        let whole = read(wire, wire.len(), false);
        assert_eq!(whole.answers, [(None, true)]);
        assert_eq!(whole.end, Some(Ok((Some(Fault::Length), false))));
        (1..wire.len()).for_each(|step| assert_eq!(read(wire, step, false), whole));
    }
}
