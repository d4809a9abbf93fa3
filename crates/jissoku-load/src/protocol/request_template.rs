//! A request's bytes with placeholders that are filled for each sending.
//!
//! `{SEQ:8}` is the request's sequence number and `{RAND:8}` a random number, in this many decimal
//! digits (default 10). The width is fixed, so that `Content-Length` stays valid. Any other brace
//! is literal: JSON needs no escaping. The payload of a WebSocket message is a placeholder too: it is
//! masked anew.

use std::ops::Range;

use crate::plan::invalid::Invalid;

/// Default width of a placeholder.
const WIDTH: usize = 10;

/// The largest width whose numbers fit 64 bits.
const WIDTH_MAX: usize = 19;

/// Size of a masking key, which precedes the payload.
///
/// Each frame has a new key (RFC 6455 section 5.3) from the generator of the plan's seed. It is not a
/// cryptographic one, as the RFC asks for: keys protect intermediaries from pages in a browser, which
/// there are none of here.
pub(crate) const KEY_SIZE: usize = 4;

/// The bytes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestTemplate {
    bytes: Vec<u8>,
    placeholders: Vec<Placeholder>,
}

/// A range that is filled for each sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placeholder {
    at: usize,
    width: usize,
    pub(crate) kind: PlaceholderKind,
}

/// What a placeholder is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceholderKind {
    /// The sequence number of the request on its target; each is unique.
    Sequence,
    /// A random number.
    Random,
    /// A masking key and the payload that is masked with it, changed by a random number.
    Masked,
}

impl RequestTemplate {
    /// Parses bytes that may contain placeholders.
    ///
    /// # Errors
    /// A placeholder is too wide.
    pub fn parse(text: &[u8]) -> Result<Self, Invalid> {
        let mut template = Self::default();
        let mut rest = text;
        while let Some(&first) = rest.first() {
            if let Some((kind, width, size)) = placeholder(rest)? {
                template.placeholders.push(Placeholder { at: template.bytes.len(), width, kind });
                template.bytes.resize(template.bytes.len() + width, b'0');
                rest = &rest[size..];
            } else {
                template.bytes.push(first);
                rest = &rest[1..];
            }
        }
        Ok(template)
    }

    /// These bytes, without placeholders.
    pub(crate) fn literal(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), placeholders: Vec::new() }
    }

    /// Appends a masking key of zero and a payload, which change with each sending.
    pub(crate) fn append_masked(&mut self, payload: &[u8]) {
        let (at, width) = (self.bytes.len(), KEY_SIZE + payload.len());
        self.placeholders.push(Placeholder { at, width, kind: PlaceholderKind::Masked });
        self.bytes.extend_from_slice(&[0; KEY_SIZE]);
        self.bytes.extend_from_slice(payload);
    }

    /// The bytes; placeholders contain zeros.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends the bytes of another template.
    pub(crate) fn append(&mut self, other: &Self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let moved = other
            .placeholders
            .iter()
            .map(|placeholder| Placeholder { at: placeholder.at + start, ..*placeholder });
        self.placeholders.extend(moved);
    }

    /// Whether there are placeholders.
    #[inline]
    pub(crate) fn has_placeholders(&self) -> bool {
        !self.placeholders.is_empty()
    }

    /// Fills the placeholders within `range` with the numbers returned by `number`.
    pub(crate) fn fill(
        &mut self,
        range: &Range<usize>,
        mut number: impl FnMut(PlaceholderKind) -> u64,
    ) {
        let first = self.placeholders.partition_point(|placeholder| placeholder.at < range.start);
        for placeholder in
            self.placeholders[first..].iter().take_while(|placeholder| placeholder.at < range.end)
        {
            let number = number(placeholder.kind);
            let bytes = &mut self.bytes[placeholder.at..placeholder.at + placeholder.width];
            match placeholder.kind {
                PlaceholderKind::Sequence | PlaceholderKind::Random => write_digits(bytes, number),
                PlaceholderKind::Masked => remask(bytes, number),
            }
        }
    }
}

/// Writes the last decimal digits of a number.
fn write_digits(digits: &mut [u8], number: u64) {
    let mut left = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(left % 10).unwrap_or(0);
        left /= 10;
    }
}

/// Parses the placeholder at the front of `text`: its kind, its width, and the size of its text.
fn placeholder(text: &[u8]) -> Result<Option<(PlaceholderKind, usize, usize)>, Invalid> {
    let names =
        [(&b"{SEQ"[..], PlaceholderKind::Sequence), (&b"{RAND"[..], PlaceholderKind::Random)];
    let Some((name, kind)) = names.iter().find(|(name, _)| text.starts_with(name)) else {
        return Ok(None);
    };
    let rest = &text[name.len()..];
    if rest.first() == Some(&b'}') {
        return Ok(Some((*kind, WIDTH, name.len() + 1)));
    }
    let digits = rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    let ends = rest.first() == Some(&b':') && rest.get(1 + digits) == Some(&b'}');
    if !ends || digits == 0 {
        return Ok(None);
    }
    let written = String::from_utf8_lossy(&rest[1..=digits]).into_owned();
    match written.parse() {
        Ok(width @ 1..=WIDTH_MAX) => Ok(Some((*kind, width, name.len() + digits + 2))),
        _ => Err(Invalid(format!(
            "invalid width {written} of a placeholder: give between 1 and {WIDTH_MAX} digits"
        ))),
    }
}

/// Changes the masking key at the front of `masked`, and the payload behind it, by a random number.
///
/// The same four bytes change (XOR) the key and the payload: if the old key was valid, so is the new one,
/// and it is as random as the number. A key of zero leaves the payload as it is.
#[inline]
pub(crate) fn remask(masked: &mut [u8], random: u64) {
    let bytes = random.to_ne_bytes();
    let change = [bytes[0], bytes[1], bytes[2], bytes[3]];
    let (words, rest) = masked.as_chunks_mut::<KEY_SIZE>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(change)).to_ne_bytes();
    }
    rest.iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_new_key_leaves_the_payload(
            payload in proptest::collection::vec(any::<u8>(), 0..70),
            keys in proptest::collection::vec(any::<u64>(), 1..4),
        ) {
            let mut masked = [&[0; KEY_SIZE], &payload[..]].concat();
            for key in keys {
                remask(&mut masked, key);
                let (key, bytes) = masked.split_at(KEY_SIZE);
                let plain = bytes.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key);
                prop_assert_eq!(plain.collect::<Vec<_>>(), payload.clone());
            }
        }
    }

    #[test]
    fn placeholders_have_a_width_and_other_braces_are_literal() {
        let template = RequestTemplate::parse(b"{\"a\": {SEQ:3}, {RAND}, {SEQ, {SEQ:}{}}")
            .expect("it is fine");
        assert_eq!(template.bytes(), b"{\"a\": 000, 0000000000, {SEQ, {SEQ:}{}}");
        assert_eq!(template.placeholders.len(), 2);
        for text in ["{SEQ:0}", "{RAND:20}", "{SEQ:99999999999999999999999}"] {
            assert!(RequestTemplate::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn only_placeholders_in_range_are_filled() {
        let one = RequestTemplate::parse(b"a{SEQ:3}b").expect("it is fine");
        let mut template = one.clone();
        template.append(&one);
        template.append(&one);
        let mut next = 7_u64;
        let mut number = |_| {
            next += 1;
            next * 1_000 + next
        };
        template.fill(&(5..15), &mut number);
        assert_eq!(template.bytes(), b"a000ba008ba009b");
        template.fill(&(0..5), &mut number);
        assert_eq!(template.bytes(), b"a010ba008ba009b");
    }
}
