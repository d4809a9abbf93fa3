//! A request's bytes, and the places in them that are written anew each time it is sent.
//!
//! `{SEQ:8}` is the request's number and `{RAND:8}` a random number, in so many decimal digits; ten when
//! the width is left out. The width is fixed, so that a `Content-Length` stays true. Any other brace is
//! itself: bodies in JSON need no escaping.

use std::ops::Range;

use crate::request::BadRequest;

/// Width of a blank that names none.
const WIDTH: usize = 10;

/// Each number of so many digits fits 64 bits.
const WIDTH_MAX: usize = 19;

/// The bytes of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    bytes: Vec<u8>,
    blanks: Vec<Blank>,
}

/// A place that is written anew for each sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blank {
    at: usize,
    width: usize,
    pub(crate) filling: Filling,
}

/// What a blank is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    /// The number of the request on its lane; no two have the same one.
    Sequence,
    /// A random number.
    Random,
}

impl Wire {
    /// Reads bytes that may hold blanks.
    ///
    /// # Errors
    /// A blank is wider than any number.
    pub fn parse(text: &[u8]) -> Result<Self, BadRequest> {
        let mut wire = Self::default();
        let mut rest = text;
        while let Some(&first) = rest.first() {
            if let Some((filling, width, size)) = blank(rest)? {
                wire.blanks.push(Blank { at: wire.bytes.len(), width, filling });
                wire.bytes.resize(wire.bytes.len() + width, b'0');
                rest = &rest[size..];
            } else {
                wire.bytes.push(first);
                rest = &rest[1..];
            }
        }
        Ok(wire)
    }

    /// The bytes; every blank holds zeros.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Puts the other bytes behind these.
    pub(crate) fn append(&mut self, other: &Self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let moved = other.blanks.iter().map(|blank| Blank { at: blank.at + start, ..*blank });
        self.blanks.extend(moved);
    }

    /// Whether any byte differs from one sending to the next.
    #[inline]
    pub(crate) fn has_blanks(&self) -> bool {
        !self.blanks.is_empty()
    }

    /// Fills every blank within `range` with the number that `number` gives for it.
    pub(crate) fn fill(&mut self, range: &Range<usize>, mut number: impl FnMut(Filling) -> u64) {
        let first = self.blanks.partition_point(|blank| blank.at < range.start);
        for blank in self.blanks[first..].iter().take_while(|blank| blank.at < range.end) {
            let mut left = number(blank.filling);
            for digit in self.bytes[blank.at..blank.at + blank.width].iter_mut().rev() {
                *digit = b'0' + u8::try_from(left % 10).unwrap_or(0);
                left /= 10;
            }
        }
    }
}

/// The blank at the front of `text`, its width, and the size of what names it.
fn blank(text: &[u8]) -> Result<Option<(Filling, usize, usize)>, BadRequest> {
    let names = [(&b"{SEQ"[..], Filling::Sequence), (&b"{RAND"[..], Filling::Random)];
    let Some((name, filling)) = names.iter().find(|(name, _)| text.starts_with(name)) else {
        return Ok(None);
    };
    let rest = &text[name.len()..];
    if rest.first() == Some(&b'}') {
        return Ok(Some((*filling, WIDTH, name.len() + 1)));
    }
    let digits = rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    let ends = rest.first() == Some(&b':') && rest.get(1 + digits) == Some(&b'}');
    if !ends || digits == 0 {
        return Ok(None);
    }
    let written = String::from_utf8_lossy(&rest[1..=digits]).into_owned();
    match written.parse() {
        Ok(width @ 1..=WIDTH_MAX) => Ok(Some((*filling, width, name.len() + digits + 2))),
        _ => Err(BadRequest::new(format!(
            "a number of {written} digits cannot be written: give between 1 and {WIDTH_MAX}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_have_a_width_and_other_braces_are_themselves() {
        let wire = Wire::parse(b"{\"a\": {SEQ:3}, {RAND}, {SEQ, {SEQ:}{}}").expect("it is fine");
        assert_eq!(wire.bytes(), b"{\"a\": 000, 0000000000, {SEQ, {SEQ:}{}}");
        assert_eq!(wire.blanks.len(), 2);
        for text in ["{SEQ:0}", "{RAND:20}", "{SEQ:99999999999999999999999}"] {
            assert!(Wire::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_blanks_within_reach_are_filled() {
        let one = Wire::parse(b"a{SEQ:3}b").expect("it is fine");
        let mut wire = one.clone();
        wire.append(&one);
        wire.append(&one);
        let mut next = 7_u64;
        let mut number = |_| {
            next += 1;
            next * 1_000 + next
        };
        wire.fill(&(5..15), &mut number);
        assert_eq!(wire.bytes(), b"a000ba008ba009b");
        wire.fill(&(0..5), &mut number);
        assert_eq!(wire.bytes(), b"a010ba008ba009b");
    }
}
