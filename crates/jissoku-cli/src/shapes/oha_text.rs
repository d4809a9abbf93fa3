//! The text and the CSV that oha prints.

use clap::ValueEnum;
use jissoku_load::TargetOutcome;
use jissoku_load::report::TargetReport;

use super::answers::{at, bar, bars, errors_by_kind, everyone, statuses};
use super::float;
use super::spread::Spread;
use crate::load::measure::Measurement;

/// Signs of the longest bar.
const BAR: u64 = 32;

/// Percentiles as oha names them, in parts of 100,000.
pub(super) const PERCENTILES: [(&str, u64); 9] = [
    ("10", 10_000),
    ("25", 25_000),
    ("50", 50_000),
    ("75", 75_000),
    ("90", 90_000),
    ("95", 95_000),
    ("99", 99_000),
    ("99.9", 99_900),
    ("99.99", 99_990),
];

/// A unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Unit {
    Ns,
    Us,
    Ms,
    S,
    M,
    H,
}

impl Unit {
    /// The unit in which a usual latency has few digits.
    fn of(latency_ns: u64) -> Self {
        match latency_ns {
            0..1_000 => Self::Ns,
            1_000..1_000_000 => Self::Us,
            1_000_000..1_000_000_000 => Self::Ms,
            _ => Self::S,
        }
    }

    fn sign(self) -> (f64, &'static str) {
        match self {
            Self::Ns => (1.0, "ns"),
            Self::Us => (1e3, "us"),
            Self::Ms => (1e6, "ms"),
            Self::S => (1e9, "sec"),
            Self::M => (60e9, "min"),
            Self::H => (3600e9, "hour"),
        }
    }

    pub(super) fn show(self, value_ns: f64) -> String {
        let (scale, sign) = self.sign();
        format!("{:.4} {sign}", value_ns / scale)
    }
}

/// The text for people.
pub(super) fn text(measurement: &Measurement, unit: Option<Unit>, aborted: u64) -> String {
    let (Some(target), Some(counted)) =
        (measurement.report.targets.first(), measurement.outcome.targets.first())
    else {
        return String::new();
    };
    let mean = target.latency_ns.map_or(0, |latency| latency.mean);
    let unit = unit.unwrap_or_else(|| Unit::of(mean));
    let mut text = vec![summary(measurement, target, unit)];
    text.push("\nResponse time histogram:\n".to_owned());
    text.extend(histogram(counted, unit));
    text.push("\nResponse time distribution:\n".to_owned());
    let everyone = everyone(counted);
    for (_, parts) in PERCENTILES.into_iter().filter(|_| everyone.count() > 0) {
        let value = unit.show(float(at(&everyone, parts)));
        text.push(format!("  {:.2}% in {value}\n", float(parts) / 1e3));
    }
    text.push("\n\nDetails (average, fastest, slowest):\n".to_owned());
    if counted.connect.count() > 0 {
        let Spread { min, mean, max, .. } = Spread::of(counted.connect.bins());
        let [mean, min, max] = [mean, min, max].map(|value| unit.show(value));
        text.push(format!("  DNS+dialup:\t{mean}, {min}, {max}\n"));
    }
    text.push("\nStatus code distribution:\n".to_owned());
    let mut statuses: Vec<(u16, u64)> =
        statuses(&measurement.outcome.records).into_iter().collect();
    statuses.sort_by_key(|(_, count)| u64::MAX - count);
    text.extend(statuses.iter().map(|(code, count)| format!("  [{code}] {count} responses\n")));
    let errors = errors(target, aborted);
    if !errors.is_empty() {
        text.push("\nError distribution:\n".to_owned());
        text.extend(errors.iter().map(|(kind, count)| format!("  [{count}] {kind}\n")));
    }
    text.concat()
}

/// Errors by kind, and what was under way when the time was over.
pub(super) fn errors(target: &TargetReport, aborted: u64) -> Vec<(&'static str, u64)> {
    let mut errors = errors_by_kind(target);
    if aborted > 0 {
        errors.push(("aborted due to deadline", aborted));
    }
    errors
}

/// The part of requests that ended and had a right answer.
pub(super) fn success(target: &TargetReport) -> f64 {
    float(target.requests) / float((target.requests + target.errors.total()).max(1))
}

fn summary(measurement: &Measurement, target: &TargetReport, unit: Unit) -> String {
    let seconds = measurement.report.duration_s;
    let mut text = vec![
        format!("Summary:\n  Success rate:\t{:.2}%\n", success(target) * 100.0),
        format!("  Total:\t{}\n", unit.show(seconds * 1e9)),
    ];
    if let Some(known) = target.latency_ns {
        for (name, value) in
            [("Slowest", known.max), ("Fastest", known.min), ("Average", known.mean)]
        {
            text.push(format!("  {name}:\t{}\n", unit.show(float(value))));
        }
    }
    text.push(format!("  Requests/sec:\t{:.4}\n\n", target.rate_rps));
    let received = float(target.bytes_received);
    text.push(format!("  Total data:\t{}\n", size(received)));
    if target.requests > 0 {
        text.push(format!("  Size/request:\t{}\n", size(received / float(target.requests))));
    }
    text.push(format!("  Size/sec:\t{}\n", size(received / seconds.max(f64::MIN_POSITIVE))));
    text.concat()
}

fn histogram(counted: &TargetOutcome, unit: Unit) -> Vec<String> {
    let (scale, sign) = unit.sign();
    let bars = bars(&counted.counters.latency);
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let rows: Vec<[String; 3]> = bars
        .into_iter()
        .map(|(end, count)| {
            let bar = bar(count, most, BAR, 0);
            [format!("{:.3}", end / scale), format!("[{count}]"), bar]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (ends, counts) = (width(0), width(1));
    rows.iter()
        .map(|[end, count, bar]| format!("  {end:>ends$} {sign} {count:<counts$} |{bar}\n"))
        .collect()
}

/// A line for each answer; cells of what is not measured are empty.
pub(super) fn csv(measurement: &Measurement) -> String {
    let mut records: Vec<_> =
        measurement.outcome.records.iter().filter(|record| record.status > 0).collect();
    records.sort_by_key(|record| record.sent_ns);
    let head = "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n";
    let mut text = vec![head.to_owned()];
    text.extend(records.into_iter().map(|record| {
        let took = record.done_ns.saturating_sub(record.intended_ns);
        let [sent, took] = [record.sent_ns, took].map(|value_ns| float(value_ns) / 1e9);
        format!("{sent},,,,{took},,{}\n", record.status)
    }));
    text.concat()
}

fn size(bytes: f64) -> String {
    match bytes {
        ..1024.0 => format!("{bytes:.0} B"),
        1024.0..1_048_576.0 => format!("{:.2} KiB", bytes / 1024.0),
        1_048_576.0..1_073_741_824.0 => format!("{:.2} MiB", bytes / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_the_columns_of_oha() {
        let mut counted = TargetOutcome::default();
        counted.counters.latency.record(2_000_000);
        counted.counters.latency.record_many(12_000_000, 36);
        let rows = histogram(&counted, Unit::Ms);
        assert_eq!(rows[0], "   2.000 ms [1]  |\n");
        assert_eq!(rows[10], format!("  12.000 ms [36] |{}\n", "■".repeat(32)));
        assert_eq!((size(480.0), size(5_202.0)), ("480 B".to_owned(), "5.08 KiB".to_owned()));
        assert_eq!(Unit::of(402_000).show(402_873.2), "402.8732 us");
    }
}
