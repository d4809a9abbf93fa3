//! Numbers: as coordinates, in sentences, and conversions.

use std::fmt::{self, Display};

/// The power below which numbers in sentences have an exponent, and that from which on they have.
const PLAIN_FROM: i32 = -4;
const PLAIN_BELOW: i32 = 15;

/// Significant digits in sentences.
const DIGITS: i32 = 4;

/// A count as a number.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
pub(crate) const fn float(count: usize) -> f64 {
    count as f64
}

/// The whole part of a number; 0 if it is negative or none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(crate) const fn whole(value: f64) -> usize {
    value as usize
}

/// The power of ten of the first digit of a positive number. The smallest step above it makes up
/// for logarithms that are not exact.
#[expect(clippy::cast_possible_truncation, reason = "it is from -324 to 308")]
pub(crate) fn magnitude(value: f64) -> i32 {
    (value.log10() + 1e-9).floor() as i32
}

/// 10 to this power, correctly rounded, which `powi` does not promise.
pub(crate) fn power_of_ten(power: i32) -> f64 {
    format!("1e{power}").parse().unwrap_or(f64::INFINITY)
}

/// A coordinate in pixels, to a tenth of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coordinate(pub(crate) f64);

impl Display for Coordinate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(self.0.is_finite(), "a coordinate is a number");
        // The sum is not the negative zero.
        let rounded = (10.0 * self.0).round() / 10.0 + 0.0;
        write!(formatter, "{rounded}")
    }
}

/// A number in a sentence: four significant digits, or all of a whole number.
pub(crate) fn plain(value: f64) -> String {
    let size = value.abs();
    if size <= 0.0 {
        return "0".to_owned();
    }
    let power = magnitude(size);
    if !(PLAIN_FROM..PLAIN_BELOW).contains(&power) {
        let text = format!("{value:.3e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((text.as_str(), "0"));
        return format!("{}e{exponent}", without_zeros(digits));
    }
    let decimals = usize::try_from(DIGITS - 1 - power).unwrap_or_default();
    let text = format!("{value:.decimals$}");
    grouped(without_zeros(&text))
}

/// Without the zeros at the end of a fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// With a comma before every three digits of the whole part.
fn grouped(text: &str) -> String {
    let start = text.find(|sign: char| sign.is_ascii_digit()).unwrap_or_default();
    let end = text.find('.').unwrap_or(text.len());
    let mut found = String::with_capacity(text.len() + 4);
    for (index, sign) in text.char_indices() {
        if index > start && index < end && (end - index).is_multiple_of(3) {
            found.push(',');
        }
        found.push(sign);
    }
    found
}

/// A part of a sum in per cent.
pub(crate) fn share(part: f64, sum: f64) -> String {
    let percent = if sum > 0.0 { 100.0 * (part / sum) } else { 0.0 };
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_have_at_most_one_decimal() {
        for (value, expected) in
            [(0.0, "0"), (-0.04, "0"), (1.25, "1.3"), (99.96, "100"), (-3.0, "-3"), (0.1, "0.1")]
        {
            assert_eq!(Coordinate(value).to_string(), expected);
        }
    }

    #[test]
    fn numbers_in_sentences_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (3.0, "3"),
            (-3.5, "-3.5"),
            (0.123_456, "0.1235"),
            (1234.56, "1,235"),
            (123_456.0, "123,456"),
            (-1_234_567.0, "-1,234,567"),
            (999.96, "1,000"),
            (0.000_012, "1.2e-5"),
            (1e15, "1e15"),
            (-1.5e300, "-1.5e300"),
            (5e-324, "4.941e-324"),
        ] {
            assert_eq!(plain(value), expected, "{value:e}");
        }
    }

    #[test]
    fn shares_of_nothing_are_zero() {
        assert_eq!(share(1.0, 3.0), "33 %");
        assert_eq!(share(1.0, 300.0), "0.3 %");
        assert_eq!(share(0.0, 0.0), "0.0 %");
        assert_eq!(share(1e300, 5e300), "20 %");
    }

    #[test]
    fn powers_are_exact() {
        for power in [-300, -5, 0, 1, 22, 23, 300] {
            assert_eq!(magnitude(power_of_ten(power)), power);
        }
        assert_eq!(magnitude(999.0), 2);
    }
}
