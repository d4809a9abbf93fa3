//! The server's metrics in OpenMetrics text, served by a server of their own.
//!
//! Each worker has its own counters; they are summed when the metrics are read.

mod cache;
mod counters;
mod text;

use std::sync::Arc;

use jissoku_os::clock;

use crate::log::DroppedRecords;
pub(crate) use cache::CacheGauge;
pub(crate) use counters::COUNTERS;
use counters::CounterShards;
pub(crate) use counters::{Counter, ShardHandle, ShardOwner};

/// The counters of a server, over all workers and reloads.
#[derive(Debug)]
pub struct Metrics {
    shards: CounterShards,
    started_ns: u64,
    cache: Arc<CacheGauge>,
    dropped: Option<Arc<DroppedRecords>>,
}

impl Metrics {
    /// Zeroed counters; the start time is now. `dropped` adds the dropped records of access logs.
    #[must_use]
    pub fn new(dropped: Option<Arc<DroppedRecords>>) -> Arc<Self> {
        let (shards, cache) = (CounterShards::default(), Arc::default());
        Arc::new(Self { shards, started_ns: clock::wall_ns(), cache, dropped })
    }

    /// All metrics as OpenMetrics text.
    #[must_use]
    pub fn text(&self) -> String {
        text::write(self)
    }

    /// The sums of all counters.
    pub(crate) fn values(&self) -> [u64; COUNTERS] {
        self.shards.values()
    }

    pub(crate) fn shard_owner(&self) -> ShardOwner {
        self.shards.take()
    }

    /// The gauge of the file cache.
    pub(crate) const fn cache(&self) -> &Arc<CacheGauge> {
        &self.cache
    }
}
