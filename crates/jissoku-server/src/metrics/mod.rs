//! The server's own numbers, in OpenMetrics text, served by a server of their own.
//!
//! Workers count for themselves; nothing is summed before somebody asks.

mod counters;
mod text;

use std::sync::Arc;

use jissoku_os::clock;

use crate::log::LogSink;
use counters::Seats;
pub(crate) use counters::{Counting, Figure};

/// What is counted of a server, over all its workers and reloads.
#[derive(Debug)]
pub struct Metrics {
    seats: Seats,
    started_ns: u64,
    log: Option<LogSink>,
}

impl Metrics {
    /// Nothing counted yet; the process counts as started now. Losses of `log` are told with the rest.
    #[must_use]
    pub fn new(log: Option<LogSink>) -> Arc<Self> {
        Arc::new(Self { seats: Seats::default(), started_ns: clock::wall_ns(), log })
    }

    /// All of it as OpenMetrics text.
    #[must_use]
    pub fn text(&self) -> String {
        text::write(self)
    }

    pub(crate) fn counting(&self) -> Counting {
        self.seats.take()
    }
}
