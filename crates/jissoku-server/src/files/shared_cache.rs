//! The file cache shared by all workers, by name. A worker takes its lock on a miss or a
//! revalidation, and never for a hit in its own cache.
//!
//! Eviction is by CLOCK: a hit sets at most one flag, and a scan of names that are requested once
//! does not evict popular entries. (SIEVE is as cheap on a hit, but has to remove entries from the
//! middle of a list.)

#![expect(
    clippy::disallowed_types,
    reason = "taken only by workers that are about to access the disk"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::entry::CacheEntry;
use crate::metrics::CacheGauge;

/// Maximum number of entries.
const ENTRIES_MAX: usize = 16_384;

/// Entries by name, within a memory budget.
#[derive(Debug)]
pub(super) struct SharedCache {
    entries: Mutex<Entries>,
    /// Weight that all worker caches together may hold.
    held_max: u64,
    workers: AtomicU64,
    gauge: OnceLock<Arc<CacheGauge>>,
}

#[derive(Debug)]
struct Entries {
    places: HashMap<Arc<[u8]>, usize>,
    slots: Vec<Slot>,
    /// Position of the CLOCK hand.
    hand: usize,
    weight: u64,
    weight_max: u64,
}

#[derive(Debug)]
struct Slot {
    name: Arc<[u8]>,
    entry: Arc<CacheEntry>,
    weight: u64,
}

impl SharedCache {
    /// Uses three quarters of `size_max`. The last quarter is for entries that were evicted here
    /// while worker caches still hold them.
    pub(super) fn new(size_max: u64) -> Self {
        let held_max = size_max / 4;
        let entries = Entries {
            places: HashMap::new(),
            slots: Vec::new(),
            hand: 0,
            weight: 0,
            weight_max: size_max - held_max,
        };
        let (entries, workers) = (Mutex::new(entries), AtomicU64::new(0));
        Self { entries, held_max, workers, gauge: OnceLock::new() }
    }

    /// Reports its size to the gauge from now on; only the first call has an effect.
    pub(super) fn report_to(&self, cache: &Arc<CacheGauge>) {
        let entries = self.lock();
        if self.gauge.set(Arc::clone(cache)).is_ok() {
            entries.slots.iter().for_each(|slot| cache.add(slot.weight));
        }
    }

    pub(super) fn add_worker(&self) {
        self.workers.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a worker that has ended, so that the one in its place gets its share.
    pub(super) fn remove_worker(&self) {
        self.workers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Weight that each worker cache may hold.
    pub(super) fn share_per_worker(&self) -> u64 {
        self.held_max / self.workers.load(Ordering::Relaxed).max(1)
    }

    /// The entry of `name`, valid or not.
    pub(super) fn find(&self, name: &[u8]) -> Option<Arc<CacheEntry>> {
        let entries = self.lock();
        let slot = &entries.slots[*entries.places.get(name)?];
        slot.entry.touch();
        Some(Arc::clone(&slot.entry))
    }

    /// Stores `entry` for `name`, if the current entry is still the one `seen` before the lookup.
    /// Returns the current entry: of two concurrent lookups the first to finish wins, so no worker
    /// goes back to an older state. Also returns the number of evicted entries.
    pub(super) fn keep(
        &self,
        name: &[u8],
        entry: Arc<CacheEntry>,
        seen: Option<&Arc<CacheEntry>>,
    ) -> (Arc<CacheEntry>, u64) {
        let kept = {
            let mut entries = self.lock();
            let kept = entries.keep(name, entry, seen);
            if let Some(cache) = self.gauge.get() {
                kept.added.iter().for_each(|&weight| cache.add(weight));
                let weight = kept.forgotten.iter().map(|slot| slot.weight).sum();
                cache.remove(kept.forgotten.len() as u64, weight);
            }
            kept
        };
        // Evicted entries are freed and files closed outside the lock.
        let evicted = kept.forgotten.iter().filter(|slot| *slot.name != *name).count();
        (kept.known, evicted as u64)
    }

    /// Every operation leaves the data consistent, so a poisoned lock is used on.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedCache {
    fn drop(&mut self) {
        if let Some(cache) = self.gauge.get() {
            let entries = self.lock();
            cache.remove(entries.slots.len() as u64, entries.weight);
        }
    }
}

/// The result of storing an entry.
#[derive(Debug)]
struct Kept {
    known: Arc<CacheEntry>,
    /// Removed entries: the previous one of the name, and evicted ones.
    forgotten: Vec<Slot>,
    /// Its weight, if it was added.
    added: Option<u64>,
}

impl Entries {
    fn keep(
        &mut self,
        name: &[u8],
        entry: Arc<CacheEntry>,
        seen: Option<&Arc<CacheEntry>>,
    ) -> Kept {
        let mut forgotten = Vec::new();
        if let Some(&place) = self.places.get(name) {
            let known = &self.slots[place].entry;
            if Arc::ptr_eq(known, &entry) || !seen.is_some_and(|seen| Arc::ptr_eq(known, seen)) {
                return Kept { known: Arc::clone(known), forgotten, added: None };
            }
            forgotten.push(self.take(place));
        }
        let weight = 2 * name.len() as u64 + entry.weight();
        if weight > self.weight_max {
            return Kept { known: entry, forgotten, added: None };
        }
        while self.weight + weight > self.weight_max || self.slots.len() == ENTRIES_MAX {
            let place = self.least_referenced();
            forgotten.push(self.take(place));
        }
        let name: Arc<[u8]> = name.into();
        self.places.insert(Arc::clone(&name), self.slots.len());
        self.slots.push(Slot { name, entry: Arc::clone(&entry), weight });
        self.weight += weight;
        Kept { known: entry, forgotten, added: Some(weight) }
    }

    /// Advances the hand to the first entry whose referenced bit is not set.
    fn least_referenced(&mut self) -> usize {
        // Bounded by one round, in case entries are referenced meanwhile.
        for _ in 0..=self.slots.len() {
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            if !self.slots[self.hand].entry.take_referenced() {
                break;
            }
        }
        self.hand
    }

    /// Removes an entry; the last one is moved to its index.
    fn take(&mut self, place: usize) -> Slot {
        let slot = self.slots.swap_remove(place);
        self.places.remove(&slot.name);
        self.weight -= slot.weight;
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(Arc::clone(&moved.name), place);
        }
        slot
    }
}

#[cfg(test)]
mod tests;
