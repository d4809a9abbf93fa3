//! The HdrHistogram interval log, version 1.3: a line per second of the window and target, with the
//! histogram of its latencies. The histograms add up to those of the report.

use std::fmt::Write as _;

use crate::engine::histogram::Histogram;
use crate::engine::interval::Interval;
use crate::engine::outcome::Outcome;

const SECOND_NS: u64 = 1_000_000_000;

/// A log under construction.
#[derive(Debug)]
pub struct IntervalLog {
    lines: String,
    /// What has been written, by target: latencies, and the number of seconds.
    reported: Vec<(Histogram, u64)>,
}

impl IntervalLog {
    /// An empty log for `targets` targets.
    pub fn new(targets: usize) -> Self {
        Self { lines: String::new(), reported: vec![(Histogram::new(), 0); targets] }
    }

    /// Appends a completed second.
    pub fn on_interval(&mut self, second: &Interval) {
        let targets = self.reported.len();
        if let Some((reported, seconds)) = self.reported.get_mut(second.target) {
            reported.add(&second.latency);
            *seconds = second.number + 1;
            let place = (second.number * SECOND_NS, SECOND_NS);
            line(&mut self.lines, tag(second.target, targets), place, &second.latency);
        }
    }

    /// The whole log, including the last partial second. The window opened `opened_ns` after 1970.
    #[must_use]
    pub fn finish(mut self, outcome: &Outcome, opened_ns: u64) -> String {
        let targets = self.reported.len();
        for (number, (target, (reported, seconds))) in
            outcome.targets.iter().zip(&self.reported).enumerate()
        {
            let mut rest = Histogram::new();
            for (value, count) in target.counters.latency.counts_since(reported) {
                rest.record_many(value, count);
            }
            if rest.count() > 0 {
                let start_ns = seconds * SECOND_NS;
                let place = (start_ns, outcome.duration_ns.saturating_sub(start_ns));
                line(&mut self.lines, tag(number, targets), place, &rest);
            }
        }
        let waited: u64 = outcome.targets.iter().map(|it| it.counters.waited.count()).sum();
        let others = if waited > 0 {
            format!("#[Correct responses only; requests without one: {waited}]\n")
        } else {
            String::new()
        };
        format!(
            "#[Histogram log format version 1.3]\n#[StartTime: {} (seconds since epoch)]\n{others}\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n{}",
            thousandths(opened_ns / 1_000_000),
            self.lines
        )
    }
}

/// A tag is needed only with several targets.
fn tag(target: usize, targets: usize) -> Option<usize> {
    (targets > 1).then_some(target)
}

/// Starts and lengths are in seconds, the maximum is in milliseconds.
fn line(out: &mut String, tag: Option<usize>, (start_ns, length_ns): (u64, u64), bins: &Histogram) {
    if let Some(target) = tag {
        let _infallible = write!(out, "Tag=url{target},");
    }
    let (start_s, length_s) =
        (thousandths(start_ns / 1_000_000), thousandths(length_ns / 1_000_000));
    let max_ms = thousandths(bins.max_ns() / 1_000);
    let _infallible = writeln!(out, "{start_s},{length_s},{max_ms},{}", bins.export());
}

fn thousandths(value: u64) -> String {
    format!("{}.{:03}", value / 1_000, value % 1_000)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::engine::outcome::TargetOutcome;

    fn second(target: usize, number: u64, value_ns: u64) -> Interval {
        let mut latency = Histogram::new();
        latency.record_many(value_ns, 10);
        Interval { target, number, length_ns: SECOND_NS, requests: 10, errors: 0, latency }
    }

    #[test]
    fn the_log_can_be_read_and_adds_up() {
        let mut log = IntervalLog::new(2);
        let mut targets = [TargetOutcome::default(), TargetOutcome::default()];
        for (target, number) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let second = second(target, number, 1_000_000 * (1 + number));
            targets[target].counters.latency.add(&second.latency);
            log.on_interval(&second);
        }
        targets[0].counters.latency.record(5_000_000);
        targets[1].counters.waited.record_many(9_000_000, 3);
        let outcome = Outcome {
            targets: targets.into(),
            threads: Vec::new(),
            records: Vec::new(),
            duration_ns: 2_250_000_000,
            longest_gap_ns: 0,
            longest_stall_ns: None,
            clock: "tsc",
            drift_ppm: 0.0,
            interrupted: false,
        };
        let text = log.finish(&outcome, 1_234_567_000_000);
        assert!(text.contains("\n#[Correct responses only; requests without one: 3]\n"), "{text}");
        let mut counts = [0, 0];
        let mut places = Vec::new();
        let mut reader = Deserializer::new();
        for record in IntervalLogIterator::new(text.as_bytes()) {
            match record.expect("it can be read") {
                LogEntry::StartTime(start) => assert_eq!(start, Duration::from_millis(1_234_567)),
                LogEntry::BaseTime(_) => unreachable!("times count from the start"),
                LogEntry::Interval(interval) => {
                    let target =
                        usize::from(interval.tag().expect("there are two").as_str() == "url1");
                    let blob = STANDARD.decode(interval.encoded_histogram()).expect("it is base64");
                    let bins: hdrhistogram::Histogram<u64> =
                        reader.deserialize(&mut &blob[..]).expect("it is a histogram");
                    counts[target] += bins.len();
                    places.push((interval.start_timestamp(), interval.duration()));
                }
            }
        }
        assert_eq!(counts, [21, 20]);
        let last = (Duration::from_secs(2), Duration::from_millis(250));
        assert_eq!((places.len(), places[4]), (5, last));
        assert!(
            text.contains(",2.001,") || text.contains(",2.000,"),
            "the maximum is in ms: {text}"
        );
    }
}
