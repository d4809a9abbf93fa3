//! What a chart may have at most, so that a drawing is small whatever it is made of.

/// How many series a chart has at most: more cannot be distinguished.
pub const SERIES_MAX: usize = 16;

/// How many values a chart has at most, in all of its series. A line takes as many bytes as its plot
/// is wide, however many values it has.
pub const VALUES_MAX: usize = 100_000;

/// How many bars a chart has at most, over all of its series, and how many labels.
pub const BARS_MAX: usize = 400;

/// How many parts a ring has at most.
pub const PARTS_MAX: usize = 12;

/// How many bins a histogram has at most.
pub const BINS_MAX: usize = 200;

/// The largest width and height in pixels.
pub const SIZE_MAX: u32 = 4096;

/// The largest size of a text in bytes.
pub const TEXT_MAX: usize = 1000;

/// The largest absolute value. One beyond it is absent, as NaN is: differences of two such values
/// would overflow.
pub const VALUE_MAX: f64 = 1e300;

/// A value that is there.
pub(crate) fn present(value: f64) -> Option<f64> {
    (value.abs() <= VALUE_MAX).then_some(value)
}
