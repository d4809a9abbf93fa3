//! Every single request of the window, for who wants to hold the histograms against it.
//!
//! What was never sent is not in it. An entry is 32 bytes of memory until the end; writing them down
//! meanwhile would cost the very time that is measured.

use crate::connection::Stamp;
use crate::fault::Fault;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It was answered rightly and in time.
    Ok,
    /// It was not.
    Failed(Fault),
    /// It was on its way when the window closed.
    Unanswered,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it was to be sent, from the beginning of the load; in the closed loop when it was.
    pub intended_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
    /// When its last byte came or it was given up.
    pub done_ns: u64,
    /// To which of the URLs.
    pub lane: u16,
    /// The answer's status; 0 if none is known.
    pub status: u16,
    /// How it ended.
    pub kind: Kind,
}

const _: () = assert!(size_of::<Entry>() <= 32);

/// One thread's entries.
#[derive(Debug)]
pub(crate) struct Ledger {
    origin_ns: u64,
    entries: Vec<Entry>,
}

impl Ledger {
    /// An empty one, for a load that begins at `origin_ns`.
    pub(crate) fn new(origin_ns: u64) -> Self {
        Self { origin_ns, entries: Vec::new() }
    }

    /// The window opens: nothing has been noted yet.
    pub(crate) fn open(&mut self) {
        self.entries.clear();
    }

    /// Notes a request that met its end at `done_ns`, with its answer's status.
    pub(crate) fn note(&mut self, lane: u16, stamp: Stamp, done_ns: u64, end: (u16, Kind)) {
        let (status, kind) = end;
        let since = |at_ns: u64| at_ns.saturating_sub(self.origin_ns);
        let (intended_ns, sent_ns) = (since(stamp.due_ns), since(stamp.sent_ns));
        let done_ns = since(done_ns);
        self.entries.push(Entry { intended_ns, sent_ns, done_ns, lane, status, kind });
    }

    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }
}
