//! A record of every request of the window, to verify the histograms.
//!
//! Requests that were never sent are not in it. Records are kept in memory, 32 bytes each, until
//! the end, so that writing does not disturb the measurement.

use crate::engine::connection::RequestTimes;
use crate::engine::error::RequestError;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// A correct response within the timeout.
    Ok,
    /// An error.
    Failed(RequestError),
    /// In flight when the window closed.
    Unanswered,
}

/// One request. Times are counted from the start of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// When it was due; in the closed loop, when it was sent.
    pub intended_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
    /// When its last byte was received, or when it was given up.
    pub done_ns: u64,
    /// Index of the target.
    pub target: u16,
    /// The status of the response; 0 if there is none.
    pub status: u16,
    /// How it ended.
    pub kind: RequestOutcome,
}

const _: () = assert!(size_of::<RequestRecord>() <= 32);

/// The records of one worker.
#[derive(Debug)]
pub(crate) struct RequestLog {
    origin_ns: u64,
    records: Vec<RequestRecord>,
}

impl RequestLog {
    /// An empty log of a load that starts at `origin_ns`.
    pub(crate) fn new(origin_ns: u64) -> Self {
        Self { origin_ns, records: Vec::new() }
    }

    /// Called when the window opens.
    pub(crate) fn open(&mut self) {
        self.records.clear();
    }

    /// Adds a request that ended at `done_ns`.
    pub(crate) fn note(
        &mut self,
        target: u16,
        times: RequestTimes,
        done_ns: u64,
        end: (u16, RequestOutcome),
    ) {
        let (status, kind) = end;
        let since = |at_ns: u64| at_ns.saturating_sub(self.origin_ns);
        let (intended_ns, sent_ns) = (since(times.due_ns), since(times.sent_ns));
        let done_ns = since(done_ns);
        self.records.push(RequestRecord { intended_ns, sent_ns, done_ns, target, status, kind });
    }

    pub(crate) fn into_records(self) -> Vec<RequestRecord> {
        self.records
    }
}
