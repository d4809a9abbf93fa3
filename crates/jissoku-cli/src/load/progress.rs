//! The progress line, once per second, if stderr is a terminal.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write as _};

use jissoku_load::report::hlog::IntervalLog;
use jissoku_load::report::timeseries::{Layout, TimeSeries};
use jissoku_load::{Interval, Outcome, Plan};

const SECOND_NS: u64 = 1_000_000_000;

/// What is written to stderr while a measurement runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A line each second, if stderr is a terminal.
    #[default]
    Line,
    /// A line when the window opens and closes.
    Events,
    Nothing,
}

/// What is reported while a measurement runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgressOptions {
    pub(crate) shown: Shown,
    /// A time series, with the length of its intervals.
    pub(crate) rows: Option<(u64, Layout)>,
    /// An interval log.
    pub(crate) log: bool,
    /// Whether the load starts at a time that is read from stdin.
    pub(crate) armed: bool,
}

/// Handles the intervals of the window.
pub(super) struct Progress {
    targets: usize,
    seconds: Option<u64>,
    is_shown: bool,
    rows: Option<RefCell<TimeSeries>>,
    log: Option<RefCell<IntervalLog>>,
}

impl Progress {
    /// Shows progress on a terminal, and keeps the time series and the interval log if requested.
    pub(super) fn new(plan: &Plan, progress_options: ProgressOptions) -> Self {
        let targets = plan.targets.len();
        Self {
            targets,
            seconds: plan.stop.duration_ns.map(|duration_ns| duration_ns / SECOND_NS),
            is_shown: progress_options.shown == Shown::Line && io::stderr().is_terminal(),
            rows: progress_options
                .rows
                .map(|(length_ns, layout)| TimeSeries::new(targets, length_ns, layout).into()),
            log: progress_options.log.then(|| RefCell::new(IntervalLog::new(targets))),
        }
    }

    /// The lengths of the intervals to observe.
    pub(super) fn lengths_ns(&self) -> Vec<u64> {
        let seconds = (self.is_shown || self.log.is_some()).then_some(SECOND_NS);
        let rows = self.rows.as_ref().map(|rows| rows.borrow().length_ns());
        let rows = rows.filter(|length_ns| Some(*length_ns) != seconds);
        seconds.into_iter().chain(rows).collect()
    }

    pub(super) fn on_interval(&self, interval: &Interval) {
        if let Some(rows) = &self.rows {
            let mut rows = rows.borrow_mut();
            if rows.length_ns() == interval.length_ns {
                rows.on_interval(interval);
            }
        }
        if interval.length_ns != SECOND_NS {
            return;
        }
        if let Some(log) = &self.log {
            log.borrow_mut().on_interval(interval);
        }
        if self.is_shown {
            let line = line(interval, self.targets, self.seconds);
            // Returns to the beginning of the line and clears it.
            let _written = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }

    /// Clears the line, and returns the time series and the interval log of a window that opened
    /// `opened_ns` after 1970.
    pub(super) fn finish(self, outcome: Option<&Outcome>, opened_ns: u64) -> (String, String) {
        if self.is_shown {
            let _written = write!(io::stderr(), "\r\x1b[K");
        }
        let Some(outcome) = outcome else { return Default::default() };
        let rows = self.rows.map(|rows| rows.into_inner().finish(outcome));
        let log = self.log.map(|log| log.into_inner().finish(outcome, opened_ns));
        (rows.unwrap_or_default(), log.unwrap_or_default())
    }
}

fn line(second: &Interval, targets: usize, seconds: Option<u64>) -> String {
    let whose = if targets > 1 { format!("target {}: ", second.target) } else { String::new() };
    let p99 = second.latency.quantiles().map_or_else(
        || "no response".to_owned(),
        |percentiles| {
            format!("p99 {}.{:03} ms", percentiles.p99 / 1_000_000, percentiles.p99 / 1_000 % 1_000)
        },
    );
    let over = second.number + 1;
    let left = seconds.map_or_else(
        || format!("{over} s elapsed"),
        |seconds| format!("{} s left", seconds.saturating_sub(over)),
    );
    format!("{whose}{} requests/s, {p99}, {} errors, {left}", second.requests, second.errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rate_latency_errors_and_remaining_time() {
        let mut latency = jissoku_load::Histogram::new();
        latency.record_many(1_250_000, 20_000);
        let second = Interval {
            target: 0,
            number: 2,
            length_ns: SECOND_NS,
            requests: 20_000,
            errors: 3,
            latency,
        };
        let reported = "20000 requests/s, p99 1.250 ms, 3 errors, 7 s left";
        assert_eq!(line(&second, 1, Some(10)), reported);
        let silent = Interval { latency: jissoku_load::Histogram::new(), requests: 0, ..second };
        assert_eq!(
            line(&silent, 2, None),
            "target 0: 0 requests/s, no response, 3 errors, 3 s elapsed"
        );
    }
}
