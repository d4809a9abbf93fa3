//! The expected response. What the plan does not specify is taken from the first valid response.

use std::sync::OnceLock;

use crate::engine::error::RequestError;

/// How bodies are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Framing and status only.
    None,
    /// The body's length.
    Length,
    /// Every byte.
    All,
}

/// The expected response of one request; shared by all workers.
#[derive(Debug)]
pub struct Expected {
    verify: Verify,
    statuses: Vec<u16>,
    length: OnceLock<u64>,
    body: OnceLock<Vec<u8>>,
    /// SHA-256 of the expected body, which is stored only if it matches.
    digest: Option<[u8; 32]>,
}

impl Expected {
    /// Expects one of `statuses` (empty: 200 to 399) and `body`, or the first body received.
    pub fn new(verify: Verify, statuses: Vec<u16>, body: Option<Vec<u8>>) -> Self {
        let (length, body_seen) = (OnceLock::new(), OnceLock::new());
        let expected = Self { verify, statuses, length, body: body_seen, digest: None };
        if let Some(body) = body {
            expected.length.get_or_init(|| body.len() as u64);
            expected.body.get_or_init(|| body);
        }
        expected
    }

    /// Expects bodies of `size` bytes.
    #[must_use]
    pub fn of_length(self, size: u64) -> Self {
        self.length.get_or_init(|| size);
        self
    }

    /// Expects bodies with this SHA-256 digest. With [`Verify::All`] only the first one is hashed;
    /// the others are compared with it.
    #[must_use]
    pub fn of_digest(self, digest: [u8; 32]) -> Self {
        Self { digest: Some(digest), ..self }
    }

    /// The expected length, given or learned; `None` if lengths are not verified.
    pub fn length(&self) -> Option<u64> {
        self.length.get().copied()
    }

    pub(crate) fn accepts(&self, status: u16) -> bool {
        if self.statuses.is_empty() {
            (200..400).contains(&status)
        } else {
            self.statuses.contains(&status)
        }
    }
}

/// Verifies one body as it is received.
#[derive(Debug, Default)]
pub(crate) struct Body {
    seen: u64,
    differs: bool,
    // Until the first response is complete there is nothing to compare with, so its bytes are kept.
    learned: Option<Vec<u8>>,
}

impl Body {
    /// A body to be compared with what is known now.
    pub(crate) fn begin(expected: &Expected) -> Self {
        let unknown = expected.verify == Verify::All && expected.body.get().is_none();
        Self { seen: 0, differs: false, learned: unknown.then(Vec::new) }
    }

    /// The number of bytes so far.
    pub(crate) fn size(&self) -> u64 {
        self.seen
    }

    /// Handles the next bytes.
    pub(crate) fn update(&mut self, part: &[u8], expected: &Expected) {
        if let Some(learned) = &mut self.learned {
            learned.extend_from_slice(part);
        } else if expected.verify == Verify::All {
            self.differs |= !continues(expected.body.get(), self.seen, part);
        }
        self.seen += part.len() as u64;
    }

    /// The error of the complete response, or `None` if it is as expected.
    pub(crate) fn verify(self, status: u16, expected: &Expected) -> Option<RequestError> {
        if !expected.accepts(status) {
            return Some(RequestError::Status);
        }
        self.verify_bytes(expected)
    }

    /// The error of a complete response without a status, or `None` if it is as expected.
    pub(crate) fn verify_bytes(self, expected: &Expected) -> Option<RequestError> {
        if expected.verify == Verify::None {
            return None;
        }
        if let (Some(learned), Some(digest)) = (&self.learned, &expected.digest)
            && ring::digest::digest(&ring::digest::SHA256, learned).as_ref() != digest
        {
            return Some(RequestError::Body);
        }
        if *expected.length.get_or_init(|| self.seen) != self.seen {
            return Some(RequestError::Length);
        }
        let differs = match self.learned {
            Some(learned) if expected.body.get().is_none() => {
                // Another worker may have stored a body meanwhile; this one is compared with it.
                expected.body.get_or_init(|| learned.clone()) != &learned
            }
            Some(learned) => expected.body.get() != Some(&learned),
            None => self.differs,
        };
        differs.then_some(RequestError::Body)
    }
}

fn continues(body: Option<&Vec<u8>>, seen: u64, part: &[u8]) -> bool {
    let rest = usize::try_from(seen).ok().and_then(|seen| body?.get(seen..));
    // A body that is too long differs here; its length decides in the end.
    rest.and_then(|rest| rest.get(..part.len())) == Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(expected: &Expected, status: u16, parts: &[&[u8]]) -> Option<RequestError> {
        let mut body = Body::begin(expected);
        for part in parts {
            body.update(part, expected);
        }
        body.verify(status, expected)
    }

    #[test]
    fn the_first_valid_response_is_the_expected_one() {
        let expected = Expected::new(Verify::All, Vec::new(), None);
        assert_eq!(verdict(&expected, 500, &[b"oops"]), Some(RequestError::Status));
        assert_eq!(verdict(&expected, 200, &[b"Hel", b"lo"]), None);
        assert_eq!(verdict(&expected, 200, &[b"Hello"]), None);
        assert_eq!(verdict(&expected, 200, &[b"H", b"ellO"]), Some(RequestError::Body));
        assert_eq!(verdict(&expected, 200, &[b"Hello", b"!"]), Some(RequestError::Length));
        assert_eq!(verdict(&expected, 200, &[b"Hell"]), Some(RequestError::Length));
    }

    #[test]
    fn two_bodies_learned_at_once_are_compared_all_the_same() {
        let expected = Expected::new(Verify::All, Vec::new(), None);
        let (mut one, mut other) = (Body::begin(&expected), Body::begin(&expected));
        one.update(b"A", &expected);
        other.update(b"B", &expected);
        assert_eq!(one.verify(200, &expected), None);
        assert_eq!(other.verify(200, &expected), Some(RequestError::Body));
    }

    #[test]
    fn a_given_body_and_status_are_held_to() {
        let expected = Expected::new(Verify::All, vec![201], Some(b"42".to_vec()));
        assert_eq!(verdict(&expected, 201, &[b"42"]), None);
        assert_eq!(verdict(&expected, 200, &[b"42"]), Some(RequestError::Status));
        assert_eq!(verdict(&expected, 201, &[b"43"]), Some(RequestError::Body));
    }

    #[test]
    fn length_verification_ignores_the_bytes() {
        let expected = Expected::new(Verify::Length, Vec::new(), None);
        assert_eq!(verdict(&expected, 200, &[b"ab"]), None);
        assert_eq!(verdict(&expected, 302, &[b"xy"]), None);
        assert_eq!(verdict(&expected, 200, &[b"abc"]), Some(RequestError::Length));
    }

    #[test]
    fn a_length_and_a_digest_are_held_to_from_the_first_answer_on() {
        let expected = Expected::new(Verify::Length, Vec::new(), None).of_length(2);
        assert_eq!(verdict(&expected, 200, &[b"abc"]), Some(RequestError::Length));
        assert_eq!(verdict(&expected, 200, &[b"ab"]), None);
        // The digest of "42".
        let digest = "73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049";
        let bytes = (0..64).step_by(2).map(|at| u8::from_str_radix(&digest[at..at + 2], 16));
        let digest: Vec<u8> = bytes.collect::<Result<_, _>>().expect("it is hexadecimal");
        let expected = Expected::new(Verify::All, Vec::new(), None)
            .of_digest(digest.try_into().expect("it is as long as a digest"));
        assert_eq!(verdict(&expected, 200, &[b"4", b"3"]), Some(RequestError::Body));
        assert_eq!(verdict(&expected, 200, &[b"432"]), Some(RequestError::Body));
        assert_eq!(expected.length(), None);
        assert_eq!(verdict(&expected, 200, &[b"4", b"2"]), None);
        assert_eq!(verdict(&expected, 200, &[b"43"]), Some(RequestError::Body));
        assert_eq!(verdict(&expected, 200, &[b"42"]), None);
    }

    #[test]
    fn no_verification_minds_no_length() {
        let expected = Expected::new(Verify::None, Vec::new(), None);
        assert_eq!(verdict(&expected, 200, &[b"ab"]), None);
        assert_eq!(verdict(&expected, 200, &[b"abc"]), None);
        assert_eq!(verdict(&expected, 404, &[]), Some(RequestError::Status));
    }
}
