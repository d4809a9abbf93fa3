//! Which fields that affect the response are present, so that most requests need no second pass.

/// A set of header names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderFlags(u8);

impl HeaderFlags {
    /// `Range` (RFC 9110 section 14.2).
    pub const RANGE: Self = Self(1);
    /// `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since` or `If-Range` (RFC
    /// 9110 section 13.1).
    pub const CONDITIONAL: Self = Self(2);
    /// `Accept-Encoding` (RFC 9110 section 12.5.3).
    pub const ACCEPT_ENCODING: Self = Self(4);
    /// `Connection` (RFC 9110 section 7.6.1).
    pub const CONNECTION: Self = Self(8);

    /// Whether this and `other` have a flag in common.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Sets a flag.
    #[inline]
    pub(super) const fn set(&mut self, flag: Self) {
        self.0 |= flag.0;
    }

    /// Sets the flag of a field name, if it has one. Connection is set by its reader.
    #[inline]
    pub(super) fn add(&mut self, name: &[u8]) {
        let (candidates, flags): (&[&[u8]], Self) = match name.len() {
            5 => (&[b"range"], Self::RANGE),
            8 => (&[b"if-match", b"if-range"], Self::CONDITIONAL),
            13 => (&[b"if-none-match"], Self::CONDITIONAL),
            15 => (&[b"accept-encoding"], Self::ACCEPT_ENCODING),
            17 => (&[b"if-modified-since"], Self::CONDITIONAL),
            19 => (&[b"if-unmodified-since"], Self::CONDITIONAL),
            _ => return,
        };
        if candidates.iter().any(|candidate| name.eq_ignore_ascii_case(candidate)) {
            self.0 |= flags.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_noted_whatever_their_case() {
        let mut flags = HeaderFlags::default();
        for name in ["Host", "X-Range", "If-Matcha", "Accept-Languages"] {
            flags.add(name.as_bytes());
        }
        assert_eq!(flags, HeaderFlags::default());
        flags.add(b"RANGE");
        assert!(flags.has(HeaderFlags::RANGE) && !flags.has(HeaderFlags::CONDITIONAL));
        flags.add(b"If-None-Match");
        flags.add(b"accept-encoding");
        assert!(
            flags.has(HeaderFlags::RANGE)
                && flags.has(HeaderFlags::CONDITIONAL)
                && flags.has(HeaderFlags::ACCEPT_ENCODING)
        );
    }
}
