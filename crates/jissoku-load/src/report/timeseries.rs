//! What happened in each interval of the window on each URL, as a line of JSON or of CSV. The lines add up to what the
//! report counts: what came after the last whole interval has a shorter one of its own.

use std::fmt::Write as _;

use serde_json::json;

use crate::histogram::Histogram;
use crate::interval::Interval;
use crate::outcome::Outcome;

const SECOND_NS: u64 = 1_000_000_000;

const COLUMNS: &str = "start_s,length_s,lane,requests,errors,rate_rps,mean_ns,min_ns,p50_ns,p90_ns,p99_ns,p999_ns,max_ns\n";

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// An object to each line.
    Json,
    /// Columns, with their names in the first line.
    Csv,
}

/// The lines while they grow.
#[derive(Debug)]
pub struct TimeSeries {
    text: String,
    layout: Layout,
    length_ns: u64,
    /// Of each URL, what has been told of.
    told: Vec<Told>,
}

#[derive(Clone, Debug)]
struct Told {
    intervals: u64,
    requests: u64,
    errors: u64,
    latency: Histogram,
}

impl TimeSeries {
    /// Of intervals of one length, on so many URLs.
    #[must_use]
    pub fn new(lanes: usize, length_ns: u64, layout: Layout) -> Self {
        let text = if layout == Layout::Csv { COLUMNS.to_owned() } else { String::new() };
        let nothing = Told { intervals: 0, requests: 0, errors: 0, latency: Histogram::new() };
        Self { text, layout, length_ns, told: vec![nothing; lanes] }
    }

    /// Of what length its intervals are.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Writes an interval down that is over.
    pub fn hear(&mut self, interval: &Interval) {
        if let Some(told) = self.told.get_mut(interval.lane) {
            told.intervals = interval.number + 1;
            told.requests += interval.requests;
            told.errors += interval.errors;
            told.latency.add(&interval.latency);
            self.line(interval.number * self.length_ns, interval);
        }
    }

    /// All lines, with what came after the last whole interval.
    #[must_use]
    pub fn finish(mut self, outcome: &Outcome) -> String {
        for (number, lane) in outcome.lanes.iter().enumerate().take(self.told.len()) {
            let told = &self.told[number];
            let mut latency = Histogram::new();
            for (value, count) in lane.tally.latency.since(&told.latency) {
                latency.record_many(value, count);
            }
            let start_ns = told.intervals * self.length_ns;
            let rest = Interval {
                lane: number,
                number: told.intervals,
                length_ns: outcome.duration_ns.saturating_sub(start_ns),
                requests: lane.tally.requests.saturating_sub(told.requests),
                errors: lane.tally.faults.total().saturating_sub(told.errors),
                latency,
            };
            if rest.requests + rest.errors > 0 {
                self.line(start_ns, &rest);
            }
        }
        self.text
    }

    fn line(&mut self, start_ns: u64, interval: &Interval) {
        let Interval { lane, length_ns, requests, errors, latency, .. } = interval;
        let figures = latency.quantiles();
        let _infallible = match self.layout {
            Layout::Json => {
                let row = json!({
                    "second": start_ns / SECOND_NS,
                    "start_ns": start_ns,
                    "length_ns": length_ns,
                    "lane": lane,
                    "requests": requests,
                    "errors": errors,
                    "latency_ns": figures,
                });
                writeln!(self.text, "{row}")
            }
            Layout::Csv => {
                let figures = figures.map_or(",,,,,,".to_owned(), |it| {
                    let [mean, min, p50, p90] = [it.mean, it.min, it.p50, it.p90];
                    format!("{mean},{min},{p50},{p90},{},{},{}", it.p99, it.p999, it.max)
                });
                let rate_rps = super::rate(*requests, *length_ns);
                let (start_s, length_s) = (decimal_s(start_ns), decimal_s(*length_ns));
                writeln!(
                    self.text,
                    "{start_s},{length_s},{lane},{requests},{errors},{rate_rps:.3},{figures}"
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
    use crate::fault::Fault;
    use crate::outcome::LaneOutcome;
    use crate::tally::Tally;

    const LENGTH_NS: u64 = 100_000_000;

    /// Two intervals of three answers, the second on one URL alone, and then one more answer and an error.
    fn written(layout: Layout) -> String {
        let mut series = TimeSeries::new(2, LENGTH_NS, layout);
        let mut tallies = [Tally::new(1), Tally::new(1)];
        for (lane, number) in [(0, 0), (1, 0), (0, 1)] {
            let mut latency = Histogram::new();
            for _ in 0..3 {
                latency.record(1_000);
                tallies[lane].answered(0, 1_000, 1_000);
            }
            let (requests, errors, length_ns) = (3, 0, LENGTH_NS);
            series.hear(&Interval { lane, number, length_ns, requests, errors, latency });
        }
        tallies[0].answered(0, 2_000, 2_000);
        tallies[0].failed(Fault::Status, 1);
        let lanes = tallies.map(|tally| LaneOutcome { tally, ..LaneOutcome::default() });
        series.finish(&Outcome {
            lanes: lanes.into(),
            threads: Vec::new(),
            entries: Vec::new(),
            duration_ns: 250_000_000,
            longest_gap_ns: 0,
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
        let first = "0.000000000,0.100000000,0,3,0,30.000,1000,1000,1000,1000,1000,1000,1000";
        assert_eq!((lines.len(), lines[1]), (5, first));
        assert!(lines.iter().all(|line| line.matches(',').count() == COLUMNS.matches(',').count()));
        let mut silent = TimeSeries::new(1, LENGTH_NS, Layout::Csv);
        let latency = Histogram::new();
        let nothing =
            Interval { lane: 0, number: 2, length_ns: LENGTH_NS, requests: 0, errors: 4, latency };
        silent.hear(&nothing);
        assert!(silent.text.ends_with("0.200000000,0.100000000,0,0,4,0.000,,,,,,,\n"));
    }
}
