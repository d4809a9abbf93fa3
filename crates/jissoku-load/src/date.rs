//! What changes by itself in the answers of a steady server: the digits of its `Date`.
//!
//! An IMF-fixdate (RFC 9110 section 5.6.7) has them always at the same places, and strict reading gives
//! the same outcome whichever digits they are. So a digit there may be any digit; every other byte,
//! the names of day and month among them, has to be the same.

use httparse::EMPTY_HEADER;

use crate::reader::FIELDS_MAX;

/// A digit stands for any digit.
const PATTERN: &[u8; 29] = b"Sun, 00 Nov 0000 00:00:00 GMT";
const DAYS: &[u8; 21] = b"MonTueWedThuFriSatSun";
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// Where in the pattern the names lie.
const DAY: std::ops::Range<usize> = 0..3;
const MONTH: std::ops::Range<usize> = 8..11;

/// A date and the bytes behind it, up to what fills two registers.
const SIZE: usize = 32;
pub(crate) type Block = [u8; SIZE];

/// Whether a digit belongs at each place of a block.
const IS_DIGIT: [bool; SIZE] = {
    let mut is_digit = [false; SIZE];
    let mut place = 0;
    while place < PATTERN.len() {
        is_digit[place] = PATTERN[place].is_ascii_digit();
        place += 1;
    }
    is_digit
};

/// Where the value of `Date` begins in an answer that has exactly one, well-formed.
pub(crate) fn find(answer: &[u8]) -> Option<usize> {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(answer).ok()?;
    let mut dates = response.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("date"));
    let value = dates.next()?.value;
    if dates.next().is_some() || !is_well_formed(value) {
        return None;
    }
    let at = value.as_ptr().addr() - answer.as_ptr().addr();
    // Lines that end with LF alone may leave too few bytes behind it.
    (at + SIZE <= answer.len()).then_some(at)
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

/// Whether two blocks are the same but for which digits a date has. `ours` begins with a well-formed one.
///
/// Without a branch in the loop, the compiler makes it a handful of SSE2 instructions; a hand-written
/// path beside it would need `unsafe` and have nothing to win.
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
