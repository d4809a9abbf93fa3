//! Counts per interval of the window and target, as lines of JSON or CSV. The lines add up to the
//! report: what follows the last complete interval has a shorter line of its own.
//!
//! Latencies are those of correct responses. If there were errors, the mean and the percentiles of all
//! requests may be larger, which is said.

use std::fmt::Write as _;

use serde_json::json;

use super::accounting::rate;
use crate::engine::histogram::Histogram;
use crate::engine::interval::Interval;
use crate::engine::outcome::Outcome;

const SECOND_NS: u64 = 1_000_000_000;

const COLUMNS: &str = "start_s,length_s,target,requests,errors,rate_rps,mean_ns,min_ns,p50_ns,p90_ns,p99_ns,p999_ns,max_ns,is_lower_bound\n";

/// The format of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A JSON object per line.
    Json,
    /// CSV with a header.
    Csv,
}

/// Lines under construction.
#[derive(Debug)]
pub struct TimeSeries {
    text: String,
    layout: Layout,
    length_ns: u64,
    /// What has been written, by target.
    reported: Vec<Reported>,
}

#[derive(Clone, Debug)]
struct Reported {
    intervals: u64,
    requests: u64,
    errors: u64,
    latency: Histogram,
}

impl TimeSeries {
    /// An empty series for `targets` targets.
    pub fn new(targets: usize, length_ns: u64, layout: Layout) -> Self {
        let text = if layout == Layout::Csv { COLUMNS.to_owned() } else { String::new() };
        let nothing = Reported { intervals: 0, requests: 0, errors: 0, latency: Histogram::new() };
        Self { text, layout, length_ns, reported: vec![nothing; targets] }
    }

    /// The length of its intervals.
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Appends a completed interval.
    pub fn on_interval(&mut self, interval: &Interval) {
        if let Some(reported) = self.reported.get_mut(interval.target) {
            reported.intervals = interval.number + 1;
            reported.requests += interval.requests;
            reported.errors += interval.errors;
            reported.latency.add(&interval.latency);
            self.line(interval.number * self.length_ns, interval);
        }
    }

    /// All lines, including the last partial interval.
    #[must_use]
    pub fn finish(mut self, outcome: &Outcome) -> String {
        for (number, target) in outcome.targets.iter().enumerate().take(self.reported.len()) {
            let reported = &self.reported[number];
            let mut latency = Histogram::new();
            for (value, count) in target.counters.latency.counts_since(&reported.latency) {
                latency.record_many(value, count);
            }
            let start_ns = reported.intervals * self.length_ns;
            let rest = Interval {
                target: number,
                number: reported.intervals,
                length_ns: outcome.duration_ns.saturating_sub(start_ns),
                requests: target.counters.requests.saturating_sub(reported.requests),
                errors: target.counters.errors.total().saturating_sub(reported.errors),
                latency,
            };
            if rest.requests + rest.errors > 0 {
                self.line(start_ns, &rest);
            }
        }
        self.text
    }

    fn line(&mut self, start_ns: u64, interval: &Interval) {
        let Interval { target, length_ns, requests, errors, latency, .. } = interval;
        let percentiles = latency.quantiles();
        let is_lower_bound = *errors > 0;
        let _infallible = match self.layout {
            Layout::Json => {
                let row = json!({
                    "second": start_ns / SECOND_NS,
                    "start_ns": start_ns,
                    "length_ns": length_ns,
                    "target": target,
                    "requests": requests,
                    "errors": errors,
                    "latency_ns": percentiles,
                    "is_lower_bound": is_lower_bound,
                });
                writeln!(self.text, "{row}")
            }
            Layout::Csv => {
                let percentiles = percentiles.map_or(",,,,,,".to_owned(), |it| {
                    let [mean, min, p50, p90] = [it.mean, it.min, it.p50, it.p90];
                    format!("{mean},{min},{p50},{p90},{},{},{}", it.p99, it.p999, it.max)
                });
                let rate_rps = rate(*requests, *length_ns);
                let (start_s, length_s) = (decimal_s(start_ns), decimal_s(*length_ns));
                writeln!(
                    self.text,
                    "{start_s},{length_s},{target},{requests},{errors},{rate_rps:.3},{percentiles},{is_lower_bound}"
                )
            }
        };
    }
}

fn decimal_s(value_ns: u64) -> String {
    format!("{}.{:09}", value_ns / SECOND_NS, value_ns % SECOND_NS)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::engine::counters::Counters;
    use crate::engine::error::RequestError;
    use crate::engine::outcome::TargetOutcome;

    const LENGTH_NS: u64 = 100_000_000;

    /// Two intervals of three responses, the second on one target only, then one more response and
    /// an error.
    fn written(layout: Layout) -> String {
        let mut series = TimeSeries::new(2, LENGTH_NS, layout);
        let mut counters = [Counters::new(1), Counters::new(1)];
        for (target, number) in [(0, 0), (1, 0), (0, 1)] {
            let mut latency = Histogram::new();
            for _ in 0..3 {
                latency.record(1_000);
                counters[target].record_success(0, 1_000, 1_000);
            }
            let (requests, errors, length_ns) = (3, 0, LENGTH_NS);
            series.on_interval(&Interval { target, number, length_ns, requests, errors, latency });
        }
        counters[0].record_success(0, 2_000, 2_000);
        counters[0].record_error(RequestError::Status, 1);
        let targets =
            counters.map(|counters| TargetOutcome { counters, ..TargetOutcome::default() });
        series.finish(&Outcome {
            targets: targets.into(),
            threads: Vec::new(),
            records: Vec::new(),
            duration_ns: 250_000_000,
            longest_gap_ns: 0,
            longest_stall_ns: None,
            clock: "tsc",
            drift_ppm: 0.0,
            interrupted: false,
        })
    }

    #[test]
    fn lines_of_json_add_up_to_the_report() {
        let text = written(Layout::Json);
        let rows: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        let sum = |name: &str| rows.iter().filter_map(|row| row[name].as_u64()).sum::<u64>();
        assert_eq!((rows.len(), sum("requests"), sum("errors")), (4, 10, 1));
        let last = &rows[3];
        assert_eq!(
            (&last["start_ns"], &last["length_ns"]),
            (&200_000_000.into(), &50_000_000.into())
        );
        assert_eq!((&last["latency_ns"]["max"], &last["second"]), (&2_000.into(), &0.into()));
    }

    #[test]
    fn lines_of_csv_have_their_columns() {
        let text = written(Layout::Csv);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(format!("{}\n", lines[0]), COLUMNS);
        let first = "0.000000000,0.100000000,0,3,0,30.000,1000,1000,1000,1000,1000,1000,1000,false";
        assert_eq!((lines.len(), lines[1]), (5, first));
        assert!(lines.iter().all(|line| line.matches(',').count() == COLUMNS.matches(',').count()));
        let mut silent = TimeSeries::new(1, LENGTH_NS, Layout::Csv);
        let latency = Histogram::new();
        let nothing = Interval {
            target: 0,
            number: 2,
            length_ns: LENGTH_NS,
            requests: 0,
            errors: 4,
            latency,
        };
        silent.on_interval(&nothing);
        assert!(silent.text.ends_with("0.200000000,0.100000000,0,0,4,0.000,,,,,,,,true\n"));
    }
}
