//! The outcomes of all requests.

use serde::Serialize;

use crate::engine::outcome::TargetOutcome;

/// `carried + sent = ok + http_errors + io_errors + timeouts + unanswered`; the rest was never
/// sent. With a limit of requests, all outcomes add up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Accounting {
    /// In flight when the window opened.
    pub carried: u64,
    /// Sent in the window.
    pub sent: u64,
    /// Correct responses within the timeout.
    pub ok: u64,
    /// Responses with an unexpected status, length or body, or invalid HTTP.
    pub http_errors: u64,
    /// Lost with their connection.
    pub io_errors: u64,
    /// Not answered within the timeout.
    pub timeouts: u64,
    /// In flight when the window closed.
    pub unanswered: u64,
    /// Due and not sent when the window closed.
    pub never_sent: u64,
    /// Due and dropped for lack of a free connection.
    pub shed: u64,
    /// Unsolicited responses.
    pub unsolicited: u64,
    /// Requests of a limit that were given up because a connection attempt failed.
    pub not_connected: u64,
    /// Failed connection attempts; each is repeated, and only with a limit of requests does it
    /// stand for one.
    pub connect_errors: u64,
}

impl Accounting {
    pub(crate) fn of(target: &TargetOutcome) -> Self {
        let counters = &target.counters;
        let errors = &counters.errors;
        Self {
            carried: counters.carried,
            sent: counters.sent,
            ok: counters.requests,
            http_errors: errors.status + errors.length + errors.body + errors.malformed
                - counters.unsolicited,
            io_errors: errors.read + errors.write + errors.closed,
            timeouts: errors.timeout,
            unanswered: target.in_flight,
            never_sent: target.unanswered - target.in_flight,
            shed: counters.shed,
            unsolicited: counters.unsolicited,
            not_connected: counters.not_connected,
            connect_errors: errors.connect,
        }
    }

    /// All requests by their outcome.
    pub fn by_outcome(&self) -> [(&'static str, u64); 8] {
        [
            ("ok", self.ok),
            ("http_error", self.http_errors),
            ("io_error", self.io_errors),
            ("timeout", self.timeouts),
            ("unanswered", self.unanswered),
            ("never_sent", self.never_sent),
            ("shed", self.shed),
            ("not_connected", self.not_connected),
        ]
    }

    /// Requests that were due and have no correct, timely response: those whose times are bounds.
    pub fn without_response(&self) -> u64 {
        self.http_errors
            + self.io_errors
            + self.timeouts
            + self.unanswered
            + self.never_sent
            + self.shed
    }

    /// Requests that ended without a correct response, or were dropped.
    pub fn failed(&self) -> u64 {
        self.http_errors
            + self.io_errors
            + self.timeouts
            + self.shed
            + self.unsolicited
            + self.not_connected
    }

    /// The fraction of requests without a correct response, including those that were dropped.
    pub fn error_fraction(&self) -> f64 {
        ratio(self.failed(), self.ok + self.failed())
    }
}

pub(super) fn rate(count: u64, duration_ns: u64) -> f64 {
    ratio(count, duration_ns) * 1e9
}

/// A rate in requests per second for people, with three decimal places below 100.
pub fn rate_text(rate_rps: f64) -> String {
    let text = if rate_rps < 100.0 { format!("{rate_rps:.3}") } else { format!("{rate_rps:.0}.") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

pub(super) fn seconds(duration_ns: u64) -> f64 {
    float(duration_ns) / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53 for months")]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}
