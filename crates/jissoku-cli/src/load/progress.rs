//! The line that tells, once a second, how the measurement goes; only for a person at a terminal.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write as _};

use jissoku_load::report::hlog::IntervalLog;
use jissoku_load::{Plan, Second};

use super::errand::Curiosity;
use super::output;

/// What is done with each second of the window.
pub(super) struct Progress {
    lanes: usize,
    seconds: Option<u64>,
    is_shown: bool,
    rows: Option<RefCell<String>>,
    log: Option<RefCell<IntervalLog>>,
}

impl Progress {
    /// Shows seconds if a person looks on, and keeps rows and bins if they are wanted.
    pub(super) fn new(plan: &Plan, curiosity: Curiosity) -> Self {
        let lanes = plan.lanes.len();
        Self {
            lanes,
            seconds: plan.until.duration_ns.map(|duration_ns| duration_ns / 1_000_000_000),
            is_shown: !curiosity.events && io::stderr().is_terminal(),
            rows: curiosity.rows.then(RefCell::default),
            log: curiosity.log.then(|| RefCell::new(IntervalLog::new(lanes))),
        }
    }

    /// Whether anybody wants to hear of seconds.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_shown || self.rows.is_some() || self.log.is_some()
    }

    pub(super) fn hear(&self, second: &Second) {
        if let Some(rows) = &self.rows {
            rows.borrow_mut().push_str(&output::row(second));
        }
        if let Some(log) = &self.log {
            log.borrow_mut().hear(second);
        }
        if self.is_shown {
            let line = line(second, self.lanes, self.seconds);
            // The cursor goes back to the line's beginning, and what stood there is wiped out.
            let _written = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }

    /// Wipes the line out, and returns the rows and the bins.
    pub(super) fn finish(self) -> (String, Option<IntervalLog>) {
        if self.is_shown {
            let _written = write!(io::stderr(), "\r\x1b[K");
        }
        let rows = self.rows.map(RefCell::into_inner).unwrap_or_default();
        (rows, self.log.map(RefCell::into_inner))
    }
}

fn line(second: &Second, lanes: usize, seconds: Option<u64>) -> String {
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
        let second = Second { lane: 0, number: 2, requests: 20_000, errors: 3, latency };
        let told = "20000 requests/s, p99 1.250 ms, 3 errors, 7 s left";
        assert_eq!(line(&second, 1, Some(10)), told);
        let silent = Second { latency: jissoku_load::Histogram::new(), requests: 0, ..second };
        assert_eq!(line(&silent, 2, None), "lane 0: 0 requests/s, no answer, 3 errors, 3 s over");
    }
}
