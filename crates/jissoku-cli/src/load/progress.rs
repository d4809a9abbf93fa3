//! The line that tells, once a second, how the measurement goes; only for a person at a terminal.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write as _};

use jissoku_load::report::hlog::IntervalLog;
use jissoku_load::report::timeseries::TimeSeries;
use jissoku_load::{Interval, Outcome, Plan};

use super::errand::Curiosity;

const SECOND_NS: u64 = 1_000_000_000;

/// What is done with each interval of the window.
pub(super) struct Progress {
    lanes: usize,
    seconds: Option<u64>,
    is_shown: bool,
    rows: Option<RefCell<TimeSeries>>,
    log: Option<RefCell<IntervalLog>>,
}

impl Progress {
    /// Shows seconds if a person looks on, and keeps rows and bins if they are wanted.
    pub(super) fn new(plan: &Plan, curiosity: Curiosity) -> Self {
        let lanes = plan.lanes.len();
        Self {
            lanes,
            seconds: plan.until.duration_ns.map(|duration_ns| duration_ns / SECOND_NS),
            is_shown: !curiosity.events && io::stderr().is_terminal(),
            rows: curiosity
                .rows
                .map(|(length_ns, layout)| TimeSeries::new(lanes, length_ns, layout).into()),
            log: curiosity.log.then(|| RefCell::new(IntervalLog::new(lanes))),
        }
    }

    /// Of intervals of which lengths somebody wants to hear.
    pub(super) fn lengths_ns(&self) -> Vec<u64> {
        let seconds = (self.is_shown || self.log.is_some()).then_some(SECOND_NS);
        let rows = self.rows.as_ref().map(|rows| rows.borrow().length_ns());
        let rows = rows.filter(|length_ns| Some(*length_ns) != seconds);
        seconds.into_iter().chain(rows).collect()
    }

    pub(super) fn hear(&self, interval: &Interval) {
        if let Some(rows) = &self.rows {
            let mut rows = rows.borrow_mut();
            if rows.length_ns() == interval.length_ns {
                rows.hear(interval);
            }
        }
        if interval.length_ns != SECOND_NS {
            return;
        }
        if let Some(log) = &self.log {
            log.borrow_mut().hear(interval);
        }
        if self.is_shown {
            let line = line(interval, self.lanes, self.seconds);
            // The cursor goes back to the line's beginning, and what stood there is wiped out.
            let _written = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }

    /// Wipes the line out, and returns the rows and the log of a window that opened so long after 1970.
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

fn line(second: &Interval, lanes: usize, seconds: Option<u64>) -> String {
    let whose = if lanes > 1 { format!("lane {}: ", second.lane) } else { String::new() };
    let p99 = second.latency.quantiles().map_or_else(
        || "no answer".to_owned(),
        |figures| format!("p99 {}.{:03} ms", figures.p99 / 1_000_000, figures.p99 / 1_000 % 1_000),
    );
    let over = second.number + 1;
    let left = seconds.map_or_else(
        || format!("{over} s over"),
        |seconds| format!("{} s left", seconds.saturating_sub(over)),
    );
    format!("{whose}{} requests/s, {p99}, {} errors, {left}", second.requests, second.errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_rate_latency_errors_and_what_is_left() {
        let mut latency = jissoku_load::Histogram::new();
        latency.record_many(1_250_000, 20_000);
        let second = Interval {
            lane: 0,
            number: 2,
            length_ns: SECOND_NS,
            requests: 20_000,
            errors: 3,
            latency,
        };
        let told = "20000 requests/s, p99 1.250 ms, 3 errors, 7 s left";
        assert_eq!(line(&second, 1, Some(10)), told);
        let silent = Interval { latency: jissoku_load::Histogram::new(), requests: 0, ..second };
        assert_eq!(line(&silent, 2, None), "lane 0: 0 requests/s, no answer, 3 errors, 3 s over");
    }
}
