//! The interval log of HdrHistogram, version 1.3: a line for each second of the window and each URL, with all
//! bins of its latencies. Its histograms add up to those of the report.

use std::fmt::Write as _;

use crate::histogram::Histogram;
use crate::interval::Interval;
use crate::outcome::Outcome;

const SECOND_NS: u64 = 1_000_000_000;

/// The log while it grows.
#[derive(Debug)]
pub struct IntervalLog {
    lines: String,
    /// Of each URL, what has been told of, and how many seconds of it.
    told: Vec<(Histogram, u64)>,
}

impl IntervalLog {
    /// An empty one, for so many URLs.
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        Self { lines: String::new(), told: vec![(Histogram::new(), 0); lanes] }
    }

    /// Writes a second down that is over.
    pub fn hear(&mut self, second: &Interval) {
        let lanes = self.told.len();
        if let Some((told, seconds)) = self.told.get_mut(second.lane) {
            told.add(&second.latency);
            *seconds = second.number + 1;
            let place = (second.number * SECOND_NS, SECOND_NS);
            line(&mut self.lines, tag(second.lane, lanes), place, &second.latency);
        }
    }

    /// The whole log of a window that opened so long after 1970, with what came after the last whole second.
    #[must_use]
    pub fn finish(mut self, outcome: &Outcome, opened_ns: u64) -> String {
        let lanes = self.told.len();
        for (number, (lane, (told, seconds))) in outcome.lanes.iter().zip(&self.told).enumerate() {
            let mut rest = Histogram::new();
            for (value, count) in lane.tally.latency.since(told) {
                rest.record_many(value, count);
            }
            if rest.count() > 0 {
                let start_ns = seconds * SECOND_NS;
                let place = (start_ns, outcome.duration_ns.saturating_sub(start_ns));
                line(&mut self.lines, tag(number, lanes), place, &rest);
            }
        }
        format!(
            "#[Histogram log format version 1.3]\n#[StartTime: {} (seconds since epoch)]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n{}",
            thousandths(opened_ns / 1_000_000),
            self.lines
        )
    }
}

/// One URL has no need of a name.
fn tag(lane: usize, lanes: usize) -> Option<usize> {
    (lanes > 1).then_some(lane)
}

/// Starts and lengths are in seconds, and the longest latency is in milliseconds.
fn line(out: &mut String, tag: Option<usize>, (start_ns, length_ns): (u64, u64), bins: &Histogram) {
    if let Some(lane) = tag {
        let _infallible = write!(out, "Tag=url{lane},");
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
    use crate::outcome::LaneOutcome;

    fn second(lane: usize, number: u64, value_ns: u64) -> Interval {
        let mut latency = Histogram::new();
        latency.record_many(value_ns, 10);
        Interval { lane, number, length_ns: SECOND_NS, requests: 10, errors: 0, latency }
    }

    #[test]
    fn another_reader_finds_intervals_that_add_up() {
        let mut log = IntervalLog::new(2);
        let mut lanes = [LaneOutcome::default(), LaneOutcome::default()];
        for (lane, number) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let second = second(lane, number, 1_000_000 * (1 + number));
            lanes[lane].tally.latency.add(&second.latency);
            log.hear(&second);
        }
        lanes[0].tally.latency.record(5_000_000);
        let outcome = Outcome {
            lanes: lanes.into(),
            threads: Vec::new(),
            entries: Vec::new(),
            duration_ns: 2_250_000_000,
            longest_gap_ns: 0,
            clock: "tsc",
            drift_ppm: 0.0,
            interrupted: false,
        };
        let text = log.finish(&outcome, 1_234_567_000_000);
        let mut counts = [0, 0];
        let mut places = Vec::new();
        let mut reader = Deserializer::new();
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            match entry.expect("it can be read") {
                LogEntry::StartTime(start) => assert_eq!(start, Duration::from_millis(1_234_567)),
                LogEntry::BaseTime(_) => unreachable!("times count from the start"),
                LogEntry::Interval(interval) => {
                    let lane =
                        usize::from(interval.tag().expect("there are two").as_str() == "url1");
                    let blob = STANDARD.decode(interval.encoded_histogram()).expect("it is base64");
                    let bins: hdrhistogram::Histogram<u64> =
                        reader.deserialize(&mut &blob[..]).expect("it is a histogram");
                    counts[lane] += bins.len();
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
