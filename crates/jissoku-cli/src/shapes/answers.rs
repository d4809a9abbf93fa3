//! What the shapes of hey and oha tell of answers: percentiles, a histogram of eleven bars, statuses.

use std::collections::BTreeMap;

use jissoku_load::report::TargetReport;
use jissoku_load::{Histogram, RequestRecord, TargetOutcome};

use super::float;
use crate::load::measure::Measurement;

/// From the fastest to the slowest in so many steps.
const STEPS: usize = 10;

/// Percentiles are asked for in parts of this.
const WHOLE: u64 = 100_000;

/// All latencies, with requests that had no answer in time at the time they waited.
pub(super) fn everyone(counted: &TargetOutcome) -> Histogram {
    let mut everyone = counted.counters.latency.clone();
    everyone.add(&counted.counters.waited);
    everyone
}

/// What so many of 100,000 do not exceed; zero when nothing was counted.
pub(super) fn at(histogram: &Histogram, parts: u64) -> u64 {
    if histogram.count() == 0 {
        return 0;
    }
    let share = u128::from(histogram.count()) * u128::from(parts);
    histogram.at_rank(u64::try_from(share.div_ceil(u128::from(WHOLE))).unwrap_or(u64::MAX).max(1))
}

/// Upper ends of bars in nanoseconds, and what is in each; the first holds the fastest alone.
pub(super) fn bars(histogram: &Histogram) -> Vec<(f64, u64)> {
    let Some(known) = histogram.quantiles() else { return Vec::new() };
    let (min, max) = (float(known.min), float(known.max));
    let step = (max - min) / float(STEPS as u64);
    let mut bars: Vec<(f64, u64)> =
        (0..=STEPS as u64).map(|number| (min + step * float(number), 0)).collect();
    for (number, (value, count)) in histogram.bins().enumerate() {
        // A bin is told by its largest value, which is above the fastest of all.
        let value = if number == 0 { min } else { float(value).min(max) };
        let place = bars.iter().position(|(end, _)| value <= *end).unwrap_or(STEPS);
        bars[place].1 += count;
    }
    bars
}

/// A bar of at most `longest` signs.
pub(super) fn bar(count: u64, most: u64, longest: u64, round_up: u64) -> String {
    let signs = (count * longest + round_up).checked_div(most).unwrap_or(0);
    (0..signs).map(|_| '■').collect()
}

/// Answers by status, right ones and wrong ones.
pub(super) fn statuses(records: &[RequestRecord]) -> BTreeMap<u16, u64> {
    let mut found = BTreeMap::new();
    for record in records.iter().filter(|record| record.status > 0) {
        *found.entry(record.status).or_default() += 1;
    }
    found
}

/// What became of requests without a whole answer, by kind.
pub(super) fn errors_by_kind(target: &TargetReport) -> Vec<(&'static str, u64)> {
    let kinds = target.errors.by_name().into_iter();
    kinds.filter(|(kind, count)| *kind != "status" && *count > 0).collect()
}

/// What both tools count as if it were an answer like another.
pub(super) fn remarks(measurement: &Measurement, target: &TargetReport) -> Vec<String> {
    let mut remarks = Vec::new();
    let wrong = target.errors.total();
    if wrong > 0 {
        let seconds = measurement.report.duration_s.max(f64::MIN_POSITIVE);
        let rate = float(target.requests + wrong) / seconds;
        remarks.push(format!(
            "rate, latencies and histogram are of right answers (2xx, 3xx); with the {wrong} others it \
             would be {rate:.2} requests/s"
        ));
    }
    if target.errors.status > 0 {
        remarks.push(format!("{} answers have a status of failure", target.errors.status));
    }
    let statuses = statuses(&measurement.outcome.records);
    let moved: u64 = statuses.range(300..400).map(|(_, count)| count).sum();
    if moved > 0 {
        remarks.push(format!("redirects are not followed: {moved} answers are some"));
    }
    remarks.push("data are all bytes received, the heads of answers too".to_owned());
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_reach_from_the_fastest_to_the_slowest() {
        let mut histogram = Histogram::new();
        assert_eq!(bars(&histogram), []);
        histogram.record(1_000_000);
        histogram.record_many(5_400_000, 6);
        histogram.record_many(11_000_000, 3);
        let counts: Vec<u64> = bars(&histogram).iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 0, 0, 0, 0, 6, 0, 0, 0, 0, 3]);
        let ends = bars(&histogram);
        assert_eq!((ends[0].0, ends[1].0, ends[10].0), (1e6, 2e6, 1.1e7));
        let mut same = Histogram::new();
        same.record_many(7, 5);
        assert_eq!(bars(&same)[0].1, 5);
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(28, 28, 40, 14).chars().count(), 40);
        assert_eq!(bar(1, 28, 40, 14).chars().count(), 1);
        assert_eq!(bar(1, 36, 32, 0), "");
        assert_eq!(bar(0, 0, 40, 0), "");
    }

    #[test]
    fn who_waited_in_vain_is_in_the_percentiles() {
        let mut counted = TargetOutcome::default();
        counted.counters.latency.record_many(1_000, 98);
        counted.counters.waited.record_many(2_000_000_000, 2);
        let all = everyone(&counted);
        assert_eq!((at(&all, 98_000), at(&all, 99_000) > 1_990_000_000), (1_000, true));
        assert_eq!(at(&Histogram::new(), 50_000), 0);
    }
}
