//! Mean, deviation and extremes of what a histogram counted.

use super::float;

/// How values are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) mean: f64,
    pub(super) deviation: f64,
    pub(super) max: f64,
    /// The part of all values within one deviation.
    pub(super) within_percent: f64,
}

impl Spread {
    /// Of values and how often there are; all zero when there are none.
    pub(super) fn of(values: impl Iterator<Item = (u64, u64)>) -> Self {
        let values: Vec<(f64, f64)> =
            values.map(|(value, count)| (float(value), float(count))).collect();
        let count = values.iter().map(|(_, count)| count).sum::<f64>().max(1.0);
        let mean = values.iter().map(|(value, count)| value * count).sum::<f64>() / count;
        let square = |(value, count): &(f64, f64)| (value - mean).powi(2) * count;
        let deviation = (values.iter().map(square).sum::<f64>() / count).sqrt();
        let near = values.iter().filter(|(value, _)| (value - mean).abs() <= deviation);
        let within_percent = near.map(|(_, count)| count).sum::<f64>() / count * 100.0;
        let max = values.iter().map(|(value, _)| *value).fold(0.0, f64::max);
        let min = values.iter().map(|(value, _)| *value).reduce(f64::min).unwrap_or(0.0);
        Self { min, mean, deviation, max, within_percent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_of_its_values() {
        let spread = Spread::of([(10, 2), (20, 2)].into_iter());
        let wanted =
            Spread { min: 10.0, mean: 15.0, deviation: 5.0, max: 20.0, within_percent: 100.0 };
        assert_eq!(spread, wanted);
        let nothing = Spread { min: 0.0, mean: 0.0, deviation: 0.0, max: 0.0, within_percent: 0.0 };
        assert_eq!(Spread::of(std::iter::empty()), nothing);
    }
}
