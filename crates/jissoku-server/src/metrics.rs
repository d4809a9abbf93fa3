//! The server's metrics in OpenMetrics text, served by a server of their own.
//!
//! Each worker has its own counters; they are summed when the metrics are read.

mod counters;
mod lines;
mod routes;
mod stores;
mod text;
mod upstreams;

use std::sync::Arc;

use jissoku_os::clock;

use crate::log::DroppedRecords;
pub(crate) use counters::COUNTERS;
use counters::CounterShards;
pub(crate) use counters::{CacheGauge, Counter, ShardHandle, ShardOwner};
use routes::RouteRegistry;
pub use routes::{RouteCounter, RouteCounters};
pub(crate) use stores::STORE_COUNTS;
use stores::StoreRegistry;
pub use stores::{StoreCounts, StoreSample};
use upstreams::UpstreamRegistry;
pub use upstreams::{UpstreamCounter, UpstreamCounters, UpstreamServer, UpstreamState};

/// The counters of a server, over all workers and reloads.
#[derive(Debug)]
pub struct Metrics {
    shards: CounterShards,
    started_ns: u64,
    cache: Arc<CacheGauge>,
    dropped: Option<Arc<DroppedRecords>>,
    upstreams: UpstreamRegistry,
    routes: RouteRegistry,
    stores: Arc<StoreRegistry>,
}

impl Metrics {
    /// The number of the layout of [`Metrics::values`].
    pub(crate) const LAYOUT: u32 = text::LAYOUT;

    /// Zeroed counters; the start time is now. `dropped` adds the dropped records of access logs.
    pub fn new(dropped: Option<Arc<DroppedRecords>>) -> Arc<Self> {
        let (shards, cache) = (CounterShards::default(), Arc::default());
        let (started_ns, upstreams) = (clock::wall_ns(), UpstreamRegistry::default());
        let (routes, stores) = (RouteRegistry::default(), Arc::default());
        Arc::new(Self { shards, started_ns, cache, dropped, upstreams, routes, stores })
    }

    /// The counters of the upstream of this name. They begin at zero at the first call.
    pub fn upstream(&self, name: &str) -> Arc<UpstreamCounters> {
        self.upstreams.get(name)
    }

    /// The counters of routes with this path. They begin at zero at the first call.
    pub fn route(&self, path: &str) -> Arc<RouteCounters> {
        self.routes.get(path)
    }

    /// `read` returns the stores of the server from now on, as this process sees them.
    pub fn set_stores(&self, read: impl Fn() -> Vec<StoreSample> + Send + Sync + 'static) {
        self.stores.set(Box::new(read));
    }

    /// All metrics as OpenMetrics text.
    pub fn text(&self) -> String {
        text::write(self)
    }

    /// The sums of all counters.
    pub(crate) fn values(&self) -> [u64; COUNTERS] {
        self.shards.values()
    }

    pub(crate) fn shard_owner(&self) -> ShardOwner {
        self.shards.take().with_stores(&self.stores)
    }

    pub(crate) const fn cache(&self) -> &Arc<CacheGauge> {
        &self.cache
    }
}
