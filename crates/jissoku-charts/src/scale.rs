//! Axes: from values to places, with round numbers where the ticks are.

use crate::number::{float, magnitude, power_of_ten, whole};

/// Below this an axis over values from it to its negative is one over zero: differences would be
/// subnormal numbers.
const TINY: f64 = 1e-290;

/// An axis over equal or nearly equal values spans this part of them at least, so that its labels
/// differ in few digits.
const LEAST_SPAN: f64 = 1e-3;

/// Positions that differ by a smaller part are one: labels could not show the difference.
const LEAST_DIFFERENCE: f64 = 1e-12;

/// How many ticks are drawn, whatever the arithmetic yields.
const TICKS_MAX: usize = 40;

/// Decimals of labels at most, and those of a label with a suffix.
const DECIMALS_MAX: i32 = 6;
const SUFFIX_DECIMALS_MAX: i32 = 2;

/// The numbers between which an axis has steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// Any.
    Any,
    /// Whole ones: of counts and indices.
    Whole,
}

/// An axis.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    step: f64,
    pub(crate) ticks: Vec<f64>,
}

impl Scale {
    /// An axis over values, whose ends are round numbers, with about this many steps.
    pub(crate) fn rounded(low: f64, high: f64, count: f64, steps: Steps) -> Self {
        let (low, high) = widened(low, high);
        let step = round_step((high - low) / count.max(1.0), steps);
        let first = (low / step + 1e-9).floor() * step;
        let last = (high / step - 1e-9).ceil() * step;
        Self::with(first, last, step)
    }

    /// An axis from one value to another, with at most about this many ticks.
    pub(crate) fn exact(low: f64, high: f64, count: f64, steps: Steps) -> Self {
        let size = low.abs().max(high.abs());
        if high - low <= (size * LEAST_DIFFERENCE).max(TINY) {
            return Self { low, high: low, step: 1.0, ticks: vec![low] };
        }
        Self::with(low, high, round_step((high - low) / count.max(1.0), steps))
    }

    fn with(low: f64, high: f64, step: f64) -> Self {
        let first = (low / step - 1e-6).ceil();
        let count = whole(((high / step + 1e-6).floor() - first).max(-1.0) + 1.0);
        let ticks = (0..count.min(TICKS_MAX)).map(|index| (first + float(index)) * step).collect();
        Self { low, high, step, ticks }
    }

    /// Where a value is: 0 at the low end, 1 at the high one, and never beyond.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let span = self.high - self.low;
        if span > 0.0 { ((value - self.low) / span).clamp(0.0, 1.0) } else { 0.5 }
    }

    /// The texts of the ticks: all with the same suffix and the same number of decimals.
    pub(crate) fn labels(&self) -> Vec<String> {
        let largest = self.ticks.iter().fold(0.0, |largest: f64, tick| largest.max(tick.abs()));
        let power = if largest > 0.0 { magnitude(largest) } else { 0 };
        let steps = magnitude(self.step);
        let (suffix_power, suffix) = match power {
            -4..=3 => (0, String::new()),
            4..=5 => (3, "k".to_owned()),
            6..=8 => (6, "M".to_owned()),
            9..=11 => (9, "G".to_owned()),
            12..=14 => (12, "T".to_owned()),
            _ => (power, format!("e{power}")),
        };
        // Steps that are small beside the values need all digits.
        let is_fine = suffix_power - steps > SUFFIX_DECIMALS_MAX && (0..15).contains(&power);
        let (suffix_power, suffix) =
            if is_fine { (0, String::new()) } else { (suffix_power, suffix) };
        let decimals = usize::try_from((suffix_power - steps).clamp(0, DECIMALS_MAX));
        let decimals = decimals.unwrap_or_default();
        let unit = power_of_ten(suffix_power);
        let label = |tick: &f64| {
            let is_zero = tick.abs() < self.step * 1e-3;
            if is_zero { "0".to_owned() } else { format!("{:.decimals$}{suffix}", tick / unit) }
        };
        self.ticks.iter().map(label).collect()
    }
}

/// Bounds with a distance that can be divided.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if size < TINY {
        return (0.0, 1.0);
    }
    let least = size * LEAST_SPAN;
    if high - low >= least {
        return (low, high);
    }
    let middle = low + (high - low) / 2.0;
    (middle - least / 2.0, middle + least / 2.0)
}

/// The lowest of 1, 2 and 5 times a power of ten that is not below `rough`, a positive number.
pub(crate) fn round_step(rough: f64, steps: Steps) -> f64 {
    let size = power_of_ten(magnitude(rough));
    let is_enough = |step: &f64| *step >= rough * (1.0 - 1e-9);
    let found = [1.0, 2.0, 5.0].map(|factor| factor * size).into_iter().find(is_enough);
    let step = found.unwrap_or(10.0 * size);
    if steps == Steps::Whole { step.max(1.0) } else { step }
}

/// Whether an axis from the lowest to the highest value begins, or ends, at zero: unless they are far
/// from it and near each other.
pub(crate) fn with_zero(low: f64, high: f64) -> (f64, f64) {
    let is_far = |near: f64, far: f64| near > far / 2.0 && far - near > far * LEAST_SPAN;
    if low > 0.0 && !is_far(low, high) {
        (0.0, high)
    } else if high < 0.0 && !is_far(-high, -low) {
        (low, 0.0)
    } else {
        (low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64) -> String {
        Scale::rounded(low, high, 5.0, Steps::Any).labels().join(" ")
    }

    #[test]
    fn ticks_are_round_numbers() {
        for (low, high, expected) in [
            (0.0, 10.0, "0 2 4 6 8 10"),
            (0.0, 1.0, "0 0.2 0.4 0.6 0.8 1.0"),
            (-3.0, 4.0, "-4 -2 0 2 4"),
            (0.0, 47_000.0, "0 10k 20k 30k 40k 50k"),
            (0.0, 1.1e6, "0 0.5M 1.0M 1.5M"),
            (12_345.0, 12_349.0, "12340 12345 12350 12355"),
            (0.0, 3e-7, "0 1e-7 2e-7 3e-7"),
            (0.0, 9e20, "0 0.2e21 0.4e21 0.6e21 0.8e21 1.0e21"),
            (-1e300, 1e300, "-1.0e300 -0.5e300 0 0.5e300 1.0e300"),
            (0.0, 0.0, "0 0.2 0.4 0.6 0.8 1.0"),
            (1e-310, 2e-310, "0 0.2 0.4 0.6 0.8 1.0"),
        ] {
            assert_eq!(labels(low, high), expected, "{low} to {high}");
        }
    }

    #[test]
    fn counts_have_whole_steps() {
        assert_eq!(Scale::rounded(0.0, 2.0, 5.0, Steps::Whole).labels(), ["0", "1", "2"]);
        assert_eq!(Scale::exact(0.0, 1.0, 5.0, Steps::Whole).labels(), ["0", "1"]);
    }

    #[test]
    fn one_position_is_in_the_middle() {
        let scale = Scale::exact(7.0, 7.0, 5.0, Steps::Any);
        assert_eq!((scale.labels(), scale.at(7.0)), (vec!["7".to_owned()], 0.5));
        let times = Scale::exact(1_700_000_000.0, 1_700_000_060.0, 3.0, Steps::Any);
        assert_eq!(times.labels()[1], "1700000020");
    }

    #[test]
    fn zero_is_shown_where_it_is_near() {
        assert_eq!(with_zero(1.0, 10.0), (0.0, 10.0));
        assert_eq!(with_zero(5.0, 5.0), (0.0, 5.0));
        assert_eq!(with_zero(9.0, 10.0), (9.0, 10.0));
        assert_eq!(with_zero(-10.0, -1.0), (-10.0, 0.0));
        assert_eq!(with_zero(-1.0, 10.0), (-1.0, 10.0));
    }
}
