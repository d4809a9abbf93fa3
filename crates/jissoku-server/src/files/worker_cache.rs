//! The cache of one worker, by request path. A hit costs one map lookup: no lock, no system call,
//! no memory that other workers write.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::{CacheEntry, CacheRef};
use crate::metrics::ShardHandle;

/// Maximum number of paths. When it is reached the cache is cleared: the shared cache still has the
/// entries, so that a miss costs a lock and no system call.
const PATHS_MAX: usize = 4096;

/// Longer paths are not cached.
const PATH_SIZE_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct WorkerCache {
    cached: HashMap<Box<[u8]>, Arc<CacheRef>>,
    weight: u64,
    pub(super) shard_handle: ShardHandle,
}

impl WorkerCache {
    /// An empty cache; hits are counted by `shard_handle`.
    pub(super) fn counted(shard_handle: ShardHandle) -> Self {
        Self { shard_handle, ..Self::default() }
    }

    /// The entry for `path`, if it is cached and valid.
    #[inline]
    pub(super) fn find(
        &self,
        path: &[u8],
        now_ns: u64,
        revalidate_ns: u64,
    ) -> Option<Arc<CacheRef>> {
        let cached = self.cached.get(path)?;
        if !cached.entry().is_fresh(now_ns, revalidate_ns) {
            return None;
        }
        cached.entry().touch();
        Some(Arc::clone(cached))
    }

    /// Caches the entry for `path`, within a total weight of `weight_max`.
    pub(super) fn keep(
        &mut self,
        path: &[u8],
        entry: Arc<CacheEntry>,
        weight_max: u64,
    ) -> Arc<CacheRef> {
        match self.cached.get(path) {
            Some(cached) if Arc::ptr_eq(cached.entry(), &entry) => return Arc::clone(cached),
            _ => self.forget(path),
        }
        let weight = weight(path, &entry);
        let cached = Arc::new(CacheRef::new(entry));
        if self.cached.len() == PATHS_MAX || self.weight + weight > weight_max {
            self.cached.clear();
            self.weight = 0;
        }
        if path.len() <= PATH_SIZE_MAX && weight <= weight_max {
            self.weight += weight;
            self.cached.insert(path.into(), Arc::clone(&cached));
        }
        cached
    }

    fn forget(&mut self, path: &[u8]) {
        if let Some(cached) = self.cached.remove(path) {
            self.weight -= weight(path, cached.entry());
        }
    }
}

fn weight(path: &[u8], entry: &CacheEntry) -> u64 {
    path.len() as u64 + entry.weight()
}

#[cfg(test)]
mod tests {
    use super::super::entry::EntryKind;
    use super::*;

    fn missing() -> Arc<CacheEntry> {
        Arc::new(CacheEntry::new(EntryKind::Missing, Vec::new(), true, 100))
    }

    #[test]
    fn an_entry_is_valid_for_the_revalidation_time() {
        let mut known = WorkerCache::default();
        let entry = missing();
        known.keep(b"/a", Arc::clone(&entry), u64::MAX);
        assert!(known.find(b"/a", 149, 50).is_some());
        assert!(known.find(b"/a", 150, 50).is_none());
        assert!(known.find(b"/a", 100, 0).is_none());
        assert!(known.find(b"/b", 100, 50).is_none());
        entry.confirm(120);
        assert!(known.find(b"/a", 150, 50).is_some());
    }

    #[test]
    fn the_weight_is_within_its_limit() {
        let mut known = WorkerCache::default();
        let one = weight(b"/0000", &missing());
        for number in 0..100 {
            known.keep(format!("/{number:04}").as_bytes(), missing(), 10 * one);
            let sum: u64 =
                known.cached.iter().map(|(path, cached)| weight(path, cached.entry())).sum();
            assert_eq!(known.weight, sum);
            assert!(sum <= 10 * one);
        }
        known.keep(b"/0099", missing(), 10 * one);
        assert!(known.find(b"/0099", 100, 50).is_some());
        known.keep(b"/dear", missing(), one - 1);
        assert!(known.cached.is_empty(), "nothing may be held");
        known.keep(&[b'/'; PATH_SIZE_MAX + 1], missing(), u64::MAX);
        assert!(known.cached.is_empty(), "a path may be too long");
    }

    #[test]
    fn the_cache_is_cleared_at_the_maximum_number_of_paths() {
        let mut known = WorkerCache::default();
        for number in 0..=PATHS_MAX {
            known.keep(number.to_string().as_bytes(), missing(), u64::MAX);
        }
        assert_eq!(known.cached.len(), 1);
    }
}
