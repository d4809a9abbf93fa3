//! Where every request has gone.

use serde::Serialize;

use crate::outcome::LaneOutcome;

/// `carried + sent = ok + http_errors + io_errors + timeouts + unanswered`; the rest was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Accounting {
    /// On their way when the window opened.
    pub carried: u64,
    /// Sent in the window.
    pub sent: u64,
    /// Answered rightly and in time.
    pub ok: u64,
    /// Answered with something else: status, length, body, or no HTTP.
    pub http_errors: u64,
    /// Lost with their connection.
    pub io_errors: u64,
    /// Not answered in time.
    pub timeouts: u64,
    /// On their way when the window closed.
    pub unanswered: u64,
    /// Due, and not sent yet when the window closed.
    pub never_sent: u64,
    /// Due, and given up for want of a connection.
    pub shed: u64,
    /// Answers that nobody had asked for.
    pub unasked: u64,
    /// Attempts to connect that failed.
    pub connect_errors: u64,
}

impl Accounting {
    pub(crate) fn of(lane: &LaneOutcome) -> Self {
        let tally = &lane.tally;
        let faults = &tally.faults;
        Self {
            carried: tally.carried,
            sent: tally.sent,
            ok: tally.requests,
            http_errors: faults.status + faults.length + faults.body + faults.malformed
                - tally.unasked,
            io_errors: faults.read + faults.write + faults.closed,
            timeouts: faults.timeout,
            unanswered: lane.in_flight,
            never_sent: lane.unanswered - lane.in_flight,
            shed: tally.shed,
            unasked: tally.unasked,
            connect_errors: faults.connect,
        }
    }

    /// The part of all requests that ended without a right answer, or were given up unsent.
    #[must_use]
    pub fn error_fraction(&self) -> f64 {
        let failed = self.http_errors
            + self.io_errors
            + self.timeouts
            + self.shed
            + self.unasked
            + self.connect_errors;
        super::ratio(failed, self.ok + failed)
    }
}
