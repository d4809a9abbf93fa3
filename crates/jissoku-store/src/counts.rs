//! What this process has done with a store, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Keys that were asked for.
    Gets,
    /// Those that had a value.
    Hits,
    /// Entries that were written.
    Puts,
    /// Entries that made room for others.
    Evictions,
    /// Expired entries that were removed.
    Expired,
}

/// How many things are counted.
const SIZE: usize = 5;

/// Counts, in the order of [`Count`].
pub type Counts = [u64; SIZE];

/// Counts that threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; SIZE]);

impl Counters {
    pub(crate) fn add(&self, count: Count, size: u64) {
        self.0[count as usize].fetch_add(size, Ordering::Relaxed);
    }

    pub(crate) fn add_all(&self, counts: &Counts) {
        for (counter, count) in self.0.iter().zip(counts) {
            if *count > 0 {
                counter.fetch_add(*count, Ordering::Relaxed);
            }
        }
    }

    /// The counts, which begin at zero again.
    pub(crate) fn take(&self) -> Counts {
        self.0.each_ref().map(|counter| counter.swap(0, Ordering::Relaxed))
    }

    pub(crate) fn values(&self) -> Counts {
        self.0.each_ref().map(|counter| counter.load(Ordering::Relaxed))
    }
}
