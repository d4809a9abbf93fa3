//! The size of the file caches: one, and during a reload two.

use std::sync::atomic::{AtomicU64, Ordering};

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
