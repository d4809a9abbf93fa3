//! The counters of one worker. Only that worker writes; readers may see slightly stale values.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::stores::{StoreCounts, StoreRegistry};
use crate::app_times::AppTimes;

/// A counter of the metrics.
///
/// To add one: a variant here, its row in `FAMILIES` of `text.rs` at the same place of the order,
/// `Telemetry::count` where it happens, and `docs/serve.md`. Counters of upstreams are in
/// `upstreams.rs`, those of routes in `routes.rs`; a gauge is a line of `write` in `text.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Status1,
    Status2,
    Status3,
    Status4,
    Status5,
    Accepted,
    Closed,
    Refused,
    ReceivedBytes,
    SentBytes,
    HandshakeDeadline,
    HeadDeadline,
    BodyDeadline,
    WriteDeadline,
    IdleDeadline,
    LingerDeadline,
    HandshakesDone,
    HandshakesFailed,
    CacheHits,
    CacheConfirmed,
    CacheMisses,
    /// The last one: see [`Counter::COUNT`].
    CacheEvictions,
}

/// The number of values: counters, and behind them the histograms of the phases of requests.
pub(crate) const COUNTERS: usize = Counter::COUNT + AppTimes::NAMES.len() * HISTOGRAM_SIZE;

/// Upper bounds of the buckets of a histogram, in nanoseconds; above the last one is one more.
pub(super) const BOUNDS_NS: [u64; 12] = [
    50_000,
    100_000,
    250_000,
    1_000_000,
    2_500_000,
    10_000_000,
    25_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
];

/// Values of a histogram: its buckets, and the sum in nanoseconds.
const HISTOGRAM_SIZE: usize = BOUNDS_NS.len() + 2;

/// How often a phase had which duration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Histogram {
    /// By bucket; the last one is without a bound.
    pub(super) counts: [u64; BOUNDS_NS.len() + 1],
    pub(super) sum_ns: u64,
}

const fn first_of(phase: usize) -> usize {
    Counter::COUNT + phase * HISTOGRAM_SIZE
}

impl Counter {
    /// The number of counters.
    pub(super) const COUNT: usize = Self::CacheEvictions as usize + 1;

    /// The counter of responses with `status`.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            ..200 => Self::Status1,
            200..300 => Self::Status2,
            300..400 => Self::Status3,
            400..500 => Self::Status4,
            500.. => Self::Status5,
        }
    }
}

/// The counters of one worker, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Counters([AtomicU64; COUNTERS]);

impl Default for Counters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// The counters of one worker at a time. A worker that exits leaves its values to the next owner,
/// so that sums never decrease.
#[derive(Debug, Default)]
pub(super) struct CounterShard {
    counters: Counters,
    is_taken: AtomicBool,
    next: OnceLock<Arc<Self>>,
}

impl CounterShard {
    #[inline]
    fn add(&self, counter: Counter, size: u64) {
        self.add_at(counter as usize, size);
    }

    #[inline]
    fn add_at(&self, index: usize, size: u64) {
        // There is a single writer, so no locked instruction is needed.
        let counter = &self.counters.0[index];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(size), Ordering::Relaxed);
    }

    fn add_times(&self, times: AppTimes) {
        for (phase, time_ns) in times.phases_ns().into_iter().enumerate() {
            let bucket = BOUNDS_NS.partition_point(|&bound_ns| bound_ns < time_ns);
            self.add_at(first_of(phase) + bucket, 1);
            self.add_at(first_of(phase) + HISTOGRAM_SIZE - 1, time_ns);
        }
    }
}

impl CounterShard {
    fn try_take(&self) -> bool {
        self.is_taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// All shards, as a linked list.
#[derive(Debug, Default)]
pub(super) struct CounterShards {
    first: OnceLock<Arc<CounterShard>>,
}

impl CounterShards {
    /// Claims the first free shard.
    pub(super) fn take(&self) -> ShardOwner {
        let mut place = &self.first;
        loop {
            let shard = place.get_or_init(Arc::default);
            if shard.try_take() {
                return ShardOwner { shard: Arc::clone(shard), stores: Arc::default() };
            }
            place = &shard.next;
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<CounterShard>> {
        std::iter::successors(self.first.get(), |shard| shard.next.get())
    }

    /// The sum over all workers, including those that have exited.
    pub(super) fn sum(&self, counter: Counter) -> u64 {
        self.sum_at(counter as usize)
    }

    /// The sums of all counters, in their order.
    pub(super) fn values(&self) -> [u64; COUNTERS] {
        std::array::from_fn(|index| self.sum_at(index))
    }

    /// The durations of a phase, over all workers.
    pub(super) fn histogram(&self, phase: usize) -> Histogram {
        let first = first_of(phase);
        Histogram {
            counts: std::array::from_fn(|bucket| self.sum_at(first + bucket)),
            sum_ns: self.sum_at(first + HISTOGRAM_SIZE - 1),
        }
    }

    fn sum_at(&self, index: usize) -> u64 {
        self.iter().map(|shard| shard.counters.0[index].load(Ordering::Relaxed)).sum()
    }

    /// The number of running workers.
    pub(super) fn active_count(&self) -> usize {
        self.iter().filter(|shard| shard.is_taken.load(Ordering::Relaxed)).count()
    }
}

/// Exclusive ownership of a shard by a worker.
#[derive(Debug)]
pub(crate) struct ShardOwner {
    shard: Arc<CounterShard>,
    stores: Arc<StoreRegistry>,
}

impl ShardOwner {
    /// Counts `size` more of `counter`.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, size: u64) {
        self.shard.add(counter, size);
    }

    /// Counts the phases of a request.
    pub(crate) fn add_times(&self, times: AppTimes) {
        self.shard.add_times(times);
    }

    /// Adds what `values` have grown by since `before`, which are values of another process.
    pub(crate) fn add_growth(&self, before: &[u64; COUNTERS], values: &[u64; COUNTERS]) {
        for (counter, (value, before)) in
            self.shard.counters.0.iter().zip(values.iter().zip(before))
        {
            let grown = counter.load(Ordering::Relaxed).wrapping_add(value.wrapping_sub(*before));
            counter.store(grown, Ordering::Relaxed);
        }
    }

    /// Counts of stores go to `stores`.
    pub(super) fn with_stores(mut self, stores: &Arc<StoreRegistry>) -> Self {
        self.stores = Arc::clone(stores);
        self
    }

    /// Adds what another process has done with the store `name` since `before`.
    pub(crate) fn add_store_growth(&self, name: &str, before: &StoreCounts, counts: &StoreCounts) {
        self.stores.add_growth(name, before, counts);
    }

    /// A second handle to the same shard, for the same worker.
    pub(crate) fn shard_handle(&self) -> ShardHandle {
        ShardHandle(Some(Arc::clone(&self.shard)))
    }
}

/// A second handle of a worker to its shard, or to none.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardHandle(Option<Arc<CounterShard>>);

impl ShardHandle {
    /// Counts `size` more of `counter`.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, size: u64) {
        if let Some(shard) = &self.0 {
            shard.add(counter, size);
        }
    }
}

impl Drop for ShardOwner {
    fn drop(&mut self) {
        self.shard.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_an_exited_worker_are_kept() {
        let shards = CounterShards::default();
        let (first, second) = (shards.take(), shards.take());
        first.add(Counter::Accepted, 3);
        second.add(Counter::Accepted, 4);
        assert_eq!((shards.sum(Counter::Accepted), shards.active_count()), (7, 2));
        drop(first);
        assert_eq!((shards.sum(Counter::Accepted), shards.active_count()), (7, 1));
        let third = shards.take();
        third.add(Counter::Accepted, 1);
        assert_eq!((shards.sum(Counter::Accepted), shards.active_count()), (8, 2));
        assert_eq!(shards.iter().count(), 2);
    }

    #[test]
    fn a_time_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        let shards = CounterShards::default();
        let worker = shards.take();
        for queue_ns in [0, 50_000, 50_001, 10_000_000_000, 10_000_000_001] {
            worker.add_times(AppTimes { queue_ns, app_ns: 7, write_ns: 0 });
        }
        let found = shards.histogram(0);
        assert_eq!(found.counts[..2], [2, 1]);
        assert_eq!(found.counts[BOUNDS_NS.len() - 1..], [1, 1]);
        assert_eq!(found.sum_ns, 20_000_100_002);
        assert_eq!((shards.histogram(1).counts[0], shards.histogram(1).sum_ns), (5, 35));
        assert!(BOUNDS_NS.is_sorted());
    }

    #[test]
    fn responses_are_counted_by_class() {
        assert_eq!(Counter::of_status(101), Counter::Status1);
        assert_eq!(Counter::of_status(206), Counter::Status2);
        assert_eq!(Counter::of_status(499), Counter::Status4);
        assert_eq!(Counter::of_status(505), Counter::Status5);
    }
}

/// Sums over all file caches. A cache subtracts what it added, at the latest when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct CacheGauge {
    names: AtomicU64,
    bytes: AtomicU64,
}

impl CacheGauge {
    /// Adds an entry of this weight.
    pub(crate) fn add(&self, bytes: u64) {
        self.names.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts `names` entries of `bytes` in total.
    pub(crate) fn remove(&self, names: u64, bytes: u64) {
        self.names.fetch_sub(names, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Names and bytes.
    pub(super) fn held(&self) -> (u64, u64) {
        (self.names.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}
