//! Matching of responses that differ in the digits of their `Date` field only.
//!
//! The digits of an IMF-fixdate (RFC 9110 section 5.6.7) are at fixed places, and the parser's
//! result does not depend on their values. So any digit may be there; all other bytes, including
//! the names of day and month, must be equal.

use httparse::EMPTY_HEADER;

use crate::protocol::reader::FIELDS_USUAL;

/// The format; every `0` stands for a digit.
const PATTERN: &[u8; 29] = b"Sun, 00 Nov 0000 00:00:00 GMT";
const DAYS: &[u8; 21] = b"MonTueWedThuFriSatSun";
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// Ranges of the names in the pattern.
const DAY: std::ops::Range<usize> = 0..3;
const MONTH: std::ops::Range<usize> = 8..11;

/// Size of a block: a date and the bytes after it, two SSE2 registers.
const SIZE: usize = 32;
pub(crate) type Block = [u8; SIZE];

/// Which bytes of a block are digits.
const IS_DIGIT: [bool; SIZE] = {
    let mut is_digit = [false; SIZE];
    let mut place = 0;
    while place < PATTERN.len() {
        is_digit[place] = PATTERN[place].is_ascii_digit();
        place += 1;
    }
    is_digit
};

/// Finds the value of `Date` in a response that has exactly one, well-formed.
pub(crate) fn find(bytes: &[u8]) -> Option<usize> {
    let mut fields = [EMPTY_HEADER; FIELDS_USUAL];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(bytes).ok()?;
    let mut dates = response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("date"));
    let value = dates.next()?.value;
    if dates.next().is_some() || !is_well_formed(value) {
        return None;
    }
    let at = value.as_ptr().addr() - bytes.as_ptr().addr();
    // If lines end with a bare LF, too few bytes may follow.
    (at + SIZE <= bytes.len()).then_some(at)
}

fn is_well_formed(value: &[u8]) -> bool {
    let is_name = |names: &[u8], name: &[u8]| names.chunks(name.len()).any(|known| known == name);
    let fits = |place: usize| match place {
        _ if DAY.contains(&place) || MONTH.contains(&place) => true,
        _ if IS_DIGIT[place] => value[place].is_ascii_digit(),
        _ => value[place] == PATTERN[place],
    };
    value.len() == PATTERN.len()
        && (0..PATTERN.len()).all(fits)
        && is_name(DAYS, &value[DAY])
        && is_name(MONTHS, &value[MONTH])
}

/// Whether two blocks are equal except for the digits of the date. `ours` begins with a well-formed
/// date.
///
/// Measured: the loop has no branch, so the compiler vectorises it; hand-written SIMD would need
/// `unsafe` for nothing.
#[inline]
pub(crate) fn is_alike(ours: &Block, theirs: &Block) -> bool {
    let mut wrong = 0;
    for place in 0..SIZE {
        let is_no_digit = u8::from(theirs[place].wrapping_sub(b'0') > 9);
        wrong |= if IS_DIGIT[place] { is_no_digit } else { ours[place] ^ theirs[place] };
    }
    wrong == 0
}

#[cfg(test)]
mod tests;
