//! Which of the header lines that change an answer are there, so that most requests need no second look.

/// A set of header names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted(u8);

impl Noted {
    /// `Range` (RFC 9110 section 14.2).
    pub const RANGE: Self = Self(1);
    /// `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since` or `If-Range` (RFC 9110
    /// section 13.1).
    pub const CONDITION: Self = Self(2);
    /// `Accept-Encoding` (RFC 9110 section 12.5.3).
    pub const CODING: Self = Self(4);

    /// Whether this and `other` have a name in common.
    #[must_use]
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds what `name` stands for, if anything.
    #[inline]
    pub(super) fn note(&mut self, name: &[u8]) {
        let (candidates, noted): (&[&[u8]], Self) = match name.len() {
            5 => (&[b"range"], Self::RANGE),
            8 => (&[b"if-match", b"if-range"], Self::CONDITION),
            13 => (&[b"if-none-match"], Self::CONDITION),
            15 => (&[b"accept-encoding"], Self::CODING),
            17 => (&[b"if-modified-since"], Self::CONDITION),
            19 => (&[b"if-unmodified-since"], Self::CONDITION),
            _ => return,
        };
        if candidates.iter().any(|candidate| name.eq_ignore_ascii_case(candidate)) {
            self.0 |= noted.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_noted_whatever_their_case() {
        let mut noted = Noted::default();
        for name in ["Host", "X-Range", "If-Matcha", "Accept-Languages"] {
            noted.note(name.as_bytes());
        }
        assert_eq!(noted, Noted::default());
        noted.note(b"RANGE");
        assert!(noted.has(Noted::RANGE) && !noted.has(Noted::CONDITION));
        noted.note(b"If-None-Match");
        noted.note(b"accept-encoding");
        assert!(noted.has(Noted::RANGE) && noted.has(Noted::CONDITION) && noted.has(Noted::CODING));
    }
}
