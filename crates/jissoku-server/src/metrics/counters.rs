//! The counters of one worker. Only that worker writes; readers may see slightly stale values.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A counter. The order is that of `text::FAMILIES`, which has one row for each.
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
    CacheEvictions,
}

/// The number of counters.
pub(crate) const COUNTERS: usize = Counter::COUNT;

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
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters([AtomicU64; Counter::COUNT]);

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
        // There is a single writer, so no locked instruction is needed.
        let counter = &self.counters.0[counter as usize];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(size), Ordering::Relaxed);
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
                return ShardOwner { shard: Arc::clone(shard) };
            }
            place = &shard.next;
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<CounterShard>> {
        std::iter::successors(self.first.get(), |shard| shard.next.get())
    }

    /// The sum over all workers, including those that have exited.
    pub(super) fn sum(&self, counter: Counter) -> u64 {
        let at =
            |shard: &Arc<CounterShard>| shard.counters.0[counter as usize].load(Ordering::Relaxed);
        self.iter().map(at).sum()
    }

    /// The sums of all counters, in their order.
    pub(super) fn values(&self) -> [u64; COUNTERS] {
        let at = |index: usize| {
            self.iter().map(|shard| shard.counters.0[index].load(Ordering::Relaxed)).sum()
        };
        std::array::from_fn(at)
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
}

impl ShardOwner {
    /// Counts `size` more of `counter`.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, size: u64) {
        self.shard.add(counter, size);
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
    fn responses_are_counted_by_class() {
        assert_eq!(Counter::of_status(101), Counter::Status1);
        assert_eq!(Counter::of_status(206), Counter::Status2);
        assert_eq!(Counter::of_status(499), Counter::Status4);
        assert_eq!(Counter::of_status(505), Counter::Status5);
    }
}
