//! The percentile text of the HdrHistogram plotter: values in milliseconds, with five steps per
//! halving of the remaining fraction.

use std::fmt::Write as _;

use crate::engine::histogram::Histogram;

/// Steps per halving of the remaining fraction.
const STEPS: u64 = 5;

/// Columns `Value Percentile TotalCount 1/(1-Percentile)`, followed by a summary, of correct responses;
/// beside them, `others` requests have none.
pub fn percentiles(histogram: &Histogram, others: u64) -> String {
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let count = histogram.count();
    let (mut below, mut wanted, mut step) = (0_u64, 0.0, 1.0 / float(2 * STEPS));
    for (value, here) in histogram.bins() {
        below += here;
        let reached = ratio(below, count);
        if reached < wanted && below < count {
            continue;
        }
        let value = ms(value.min(histogram.max_ns()));
        if below < count {
            let inverse = 1.0 / (1.0 - reached);
            let _infallible =
                writeln!(out, "{value:>12.3} {reached:>14.12} {below:>10} {inverse:>14.2}");
        } else {
            let _infallible = writeln!(out, "{value:>12.3} {reached:>14.12} {below:>10}");
        }
        while wanted <= reached && reached < 1.0 {
            // After `STEPS` steps the remaining fraction is halved, and so is the step.
            if 1.0 - wanted <= step * float(STEPS) {
                step /= 2.0;
            }
            wanted += step;
        }
    }
    let (mean, deviation) = moments(histogram);
    let max = ms(histogram.max_ns());
    let _infallible =
        writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]");
    let _infallible = writeln!(out, "#[Max     = {max:>12.3}, Total count    = {count:>12}]");
    out.push_str("#[Buckets =           33, SubBuckets     =         2048]\n");
    if others > 0 {
        let _infallible =
            writeln!(out, "#[Correct responses only; requests without one: {others}]");
    }
    out
}

fn moments(histogram: &Histogram) -> (f64, f64) {
    if histogram.count() == 0 {
        return (0.0, 0.0);
    }
    let mean = float(histogram.sum_ns()) / float(histogram.count()) / 1e6;
    let square = |(value, count): (u64, u64)| (ms(value) - mean).powi(2) * float(count);
    let squares: f64 = histogram.bins().map(square).sum();
    (mean, (squares / float(histogram.count())).sqrt())
}

fn ms(value_ns: u64) -> f64 {
    float(value_ns) / 1e6
}

fn ratio(part: u64, whole: u64) -> f64 {
    float(part) / float(whole)
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53 for months")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_become_finer_and_the_last_row_is_complete() {
        let mut histogram = Histogram::new();
        (1..=100_000_u64).for_each(|value| histogram.record(value * 1_000));
        let text = percentiles(&histogram, 7);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().filter_map(|cell| cell.parse().ok()).collect())
            .collect();
        assert!((30..200).contains(&rows.len()), "{}", rows.len());
        assert!(rows.windows(2).all(|pair| pair[0][1] < pair[1][1] && pair[0][0] < pair[1][0]));
        let last = rows.last().expect("there are rows");
        assert_eq!((last[1], last[2], last.len()), (1.0, 100_000.0, 3));
        // Values are uniform up to 100 ms, so each is at its percentile.
        assert!(rows.iter().all(|row| (row[0] / 100.0 - row[1]).abs() < 0.002), "{text}");
        assert!(text.contains("Total count    =       100000]"), "{text}");
        assert!(text.ends_with("#[Correct responses only; requests without one: 7]\n"), "{text}");
    }

    #[test]
    fn an_empty_histogram_has_no_rows() {
        assert_eq!(percentiles(&Histogram::new(), 0).lines().count(), 5);
    }
}
