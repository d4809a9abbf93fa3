//! What the folders that are served hold in memory: one, and during a reload two.

use std::sync::atomic::{AtomicU64, Ordering};

/// Sums over all folders. Whoever adds takes away again, at the latest when it goes.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    names: AtomicU64,
    bytes: AtomicU64,
}

impl Cache {
    /// One more name is known, at this cost.
    pub(crate) fn add(&self, bytes: u64) {
        self.names.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many names were forgotten, that have cost so much.
    pub(crate) fn remove(&self, names: u64, bytes: u64) {
        self.names.fetch_sub(names, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Names and bytes.
    pub(super) fn held(&self) -> (u64, u64) {
        (self.names.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}
