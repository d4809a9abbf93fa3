//! Iteration over the header fields of a valid head.

use crate::scan;

/// Iterator over header fields; see [`super::Head::fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of these lines, each of which is valid and ends with CRLF.
    pub(crate) const fn of_lines(lines: &'a [u8]) -> Self {
        Self { rest: lines }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let colon = scan::token_end(self.rest);
        let (name, rest) = (self.rest.get(..colon)?, self.rest.get(colon + 1..)?);
        let end = scan::value_end(rest);
        self.rest = rest.get(end + 2..)?;
        Some((name, trim(&rest[..end])))
    }
}

/// Trims optional whitespace (RFC 9110 section 5.6.3).
#[inline]
pub(crate) fn trim(value: &[u8]) -> &[u8] {
    let mut value = value;
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
