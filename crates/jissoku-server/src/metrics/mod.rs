//! The server's own numbers, in OpenMetrics text, served by a server of their own.
//!
//! Workers count for themselves; nothing is summed before somebody asks.

mod cache;
mod counters;
mod text;

use std::sync::Arc;

use jissoku_os::clock;

use crate::log::Losses;
pub(crate) use cache::Cache;
use counters::Seats;
pub(crate) use counters::{Counting, Figure, Tally};

/// What is counted of a server, over all its workers and reloads.
#[derive(Debug)]
pub struct Metrics {
    seats: Seats,
    started_ns: u64,
    cache: Arc<Cache>,
    losses: Option<Arc<Losses>>,
}

impl Metrics {
    /// Nothing counted yet; the process counts as started now. Losses of access logs are told with the rest.
    #[must_use]
    pub fn new(losses: Option<Arc<Losses>>) -> Arc<Self> {
        let (seats, cache) = (Seats::default(), Arc::default());
        Arc::new(Self { seats, started_ns: clock::wall_ns(), cache, losses })
    }

    /// All of it as OpenMetrics text.
    #[must_use]
    pub fn text(&self) -> String {
        text::write(self)
    }

    pub(crate) fn counting(&self) -> Counting {
        self.seats.take()
    }

    /// Where a folder says what it holds.
    pub(crate) const fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
}
