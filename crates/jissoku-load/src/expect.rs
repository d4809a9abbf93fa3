//! Which answer is the right one? What the user did not say is learned from the first good answer.

use std::sync::OnceLock;

use crate::fault::Fault;

/// How closely an answer's body is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Only framing and status.
    None,
    /// Its length is that of the expected body.
    Length,
    /// Every byte.
    All,
}

/// What a right answer of one lane looks like; shared by all threads.
#[derive(Debug)]
pub struct Expected {
    verify: Verify,
    statuses: Vec<u16>,
    length: OnceLock<u64>,
    body: OnceLock<Vec<u8>>,
    /// SHA-256 of the right body, which is learned only if it has it.
    digest: Option<[u8; 32]>,
}

impl Expected {
    /// Accepts `statuses` (none given: 200 to 399) and holds bodies to `body`, or to the first one seen.
    #[must_use]
    pub fn new(verify: Verify, statuses: Vec<u16>, body: Option<Vec<u8>>) -> Self {
        let (length, body_seen) = (OnceLock::new(), OnceLock::new());
        let expected = Self { verify, statuses, length, body: body_seen, digest: None };
        if let Some(body) = body {
            expected.length.get_or_init(|| body.len() as u64);
            expected.body.get_or_init(|| body);
        }
        expected
    }

    /// Holds bodies to a length that is known before the first one was seen.
    #[must_use]
    pub fn of_length(self, size: u64) -> Self {
        self.length.get_or_init(|| size);
        self
    }

    /// Holds bodies to the SHA-256 digest of the right one. Who looks at every byte learns that body from
    /// the first answer that has it, so that one answer is digested and the others are compared.
    #[must_use]
    pub fn of_digest(self, digest: [u8; 32]) -> Self {
        Self { digest: Some(digest), ..self }
    }

    /// The length of a right body, as given or learned; none, if nobody looked at lengths.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length.get().copied()
    }

    fn accepts(&self, status: u16) -> bool {
        if self.statuses.is_empty() {
            (200..400).contains(&status)
        } else {
            self.statuses.contains(&status)
        }
    }
}

/// The body of one answer while it arrives.
#[derive(Debug, Default)]
pub(crate) struct Body {
    seen: u64,
    differs: bool,
    // There is nothing to compare with until the first answer of the lane is whole: keep the bytes.
    learned: Option<Vec<u8>>,
}

impl Body {
    /// A body that will be held against what is known now.
    pub(crate) fn begin(expected: &Expected) -> Self {
        let unknown = expected.verify == Verify::All && expected.body.get().is_none();
        Self { seen: 0, differs: false, learned: unknown.then(Vec::new) }
    }

    /// Looks at the next bytes.
    pub(crate) fn take(&mut self, part: &[u8], expected: &Expected) {
        if let Some(learned) = &mut self.learned {
            learned.extend_from_slice(part);
        } else if expected.verify == Verify::All {
            self.differs |= !continues(expected.body.get(), self.seen, part);
        }
        self.seen += part.len() as u64;
    }

    /// The verdict on the whole answer, `None` when it is right.
    pub(crate) fn judge(self, status: u16, expected: &Expected) -> Option<Fault> {
        if !expected.accepts(status) {
            return Some(Fault::Status);
        }
        if expected.verify == Verify::None {
            return None;
        }
        if let (Some(learned), Some(digest)) = (&self.learned, &expected.digest)
            && ring::digest::digest(&ring::digest::SHA256, learned).as_ref() != digest
        {
            return Some(Fault::Body);
        }
        if *expected.length.get_or_init(|| self.seen) != self.seen {
            return Some(Fault::Length);
        }
        let differs = match self.learned {
            Some(learned) if expected.body.get().is_none() => {
                // Two threads may learn at once; the second is held to what the first one saw.
                expected.body.get_or_init(|| learned.clone()) != &learned
            }
            Some(learned) => expected.body.get() != Some(&learned),
            None => self.differs,
        };
        differs.then_some(Fault::Body)
    }
}

fn continues(body: Option<&Vec<u8>>, seen: u64, part: &[u8]) -> bool {
    let rest = usize::try_from(seen).ok().and_then(|seen| body?.get(seen..));
    // A body that is too long differs here, and is judged by its length in the end.
    rest.and_then(|rest| rest.get(..part.len())) == Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(expected: &Expected, status: u16, parts: &[&[u8]]) -> Option<Fault> {
        let mut body = Body::begin(expected);
        for part in parts {
            body.take(part, expected);
        }
        body.judge(status, expected)
    }

    #[test]
    fn the_first_good_answer_is_the_measure() {
        let expected = Expected::new(Verify::All, Vec::new(), None);
        assert_eq!(verdict(&expected, 500, &[b"oops"]), Some(Fault::Status));
        assert_eq!(verdict(&expected, 200, &[b"Hel", b"lo"]), None);
        assert_eq!(verdict(&expected, 200, &[b"Hello"]), None);
        assert_eq!(verdict(&expected, 200, &[b"H", b"ellO"]), Some(Fault::Body));
        assert_eq!(verdict(&expected, 200, &[b"Hello", b"!"]), Some(Fault::Length));
        assert_eq!(verdict(&expected, 200, &[b"Hell"]), Some(Fault::Length));
    }

    #[test]
    fn two_bodies_learned_at_once_are_compared_all_the_same() {
        let expected = Expected::new(Verify::All, Vec::new(), None);
        let (mut one, mut other) = (Body::begin(&expected), Body::begin(&expected));
        one.take(b"A", &expected);
        other.take(b"B", &expected);
        assert_eq!(one.judge(200, &expected), None);
        assert_eq!(other.judge(200, &expected), Some(Fault::Body));
    }

    #[test]
    fn a_given_body_and_status_are_held_to() {
        let expected = Expected::new(Verify::All, vec![201], Some(b"42".to_vec()));
        assert_eq!(verdict(&expected, 201, &[b"42"]), None);
        assert_eq!(verdict(&expected, 200, &[b"42"]), Some(Fault::Status));
        assert_eq!(verdict(&expected, 201, &[b"43"]), Some(Fault::Body));
    }

    #[test]
    fn length_alone_does_not_look_at_the_bytes() {
        let expected = Expected::new(Verify::Length, Vec::new(), None);
        assert_eq!(verdict(&expected, 200, &[b"ab"]), None);
        assert_eq!(verdict(&expected, 302, &[b"xy"]), None);
        assert_eq!(verdict(&expected, 200, &[b"abc"]), Some(Fault::Length));
    }

    #[test]
    fn a_length_and_a_digest_are_held_to_from_the_first_answer_on() {
        let expected = Expected::new(Verify::Length, Vec::new(), None).of_length(2);
        assert_eq!(verdict(&expected, 200, &[b"abc"]), Some(Fault::Length));
        assert_eq!(verdict(&expected, 200, &[b"ab"]), None);
        // That of "42".
        let digest = "73475cb40a568e8da8a045ced110137e159f890ac4da883b6b17dc651b3a8049";
        let bytes = (0..64).step_by(2).map(|at| u8::from_str_radix(&digest[at..at + 2], 16));
        let digest: Vec<u8> = bytes.collect::<Result<_, _>>().expect("it is hexadecimal");
        let expected = Expected::new(Verify::All, Vec::new(), None)
            .of_digest(digest.try_into().expect("it is as long as a digest"));
        assert_eq!(verdict(&expected, 200, &[b"4", b"3"]), Some(Fault::Body));
        assert_eq!(verdict(&expected, 200, &[b"432"]), Some(Fault::Body));
        assert_eq!(expected.length(), None);
        assert_eq!(verdict(&expected, 200, &[b"4", b"2"]), None);
        assert_eq!(verdict(&expected, 200, &[b"43"]), Some(Fault::Body));
        assert_eq!(verdict(&expected, 200, &[b"42"]), None);
    }

    #[test]
    fn no_verification_minds_no_length() {
        let expected = Expected::new(Verify::None, Vec::new(), None);
        assert_eq!(verdict(&expected, 200, &[b"ab"]), None);
        assert_eq!(verdict(&expected, 200, &[b"abc"]), None);
        assert_eq!(verdict(&expected, 404, &[]), Some(Fault::Status));
    }
}
