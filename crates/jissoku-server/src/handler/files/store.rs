//! What all workers know by name. It is locked by a worker that does not know a path, or has to look again;
//! what a worker knows and may believe never comes here.
//!
//! What to forget is chosen by CLOCK: a hand goes round the entries, spares the ones that somebody has asked
//! for since it last came by, and takes the first other. A hit writes one flag, and usually not even that, so
//! nothing moves on the path of a request, and a thousand names that are asked for once displace no
//! favourite. (SIEVE is as cheap on a hit, but has to take entries out of the middle of a list.)

#![expect(clippy::disallowed_types, reason = "who needs this lock is about to ask the disk")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::entry::Entry;
use crate::metrics::Cache;

/// Names that are kept, whatever they stand for.
const ENTRIES_MAX: usize = 16_384;

/// Entries by name, within a budget.
#[derive(Debug)]
pub(super) struct Store {
    entries: Mutex<Entries>,
    /// What workers may hold on to, all together.
    held_max: u64,
    workers: AtomicU64,
    /// Who wants to know how much it is.
    told: OnceLock<Arc<Cache>>,
}

#[derive(Debug)]
struct Entries {
    places: HashMap<Arc<[u8]>, usize>,
    slots: Vec<Slot>,
    /// Where the hand is.
    hand: usize,
    charge: u64,
    charge_max: u64,
}

#[derive(Debug)]
struct Slot {
    name: Arc<[u8]>,
    entry: Arc<Entry>,
    charge: u64,
}

impl Store {
    /// Keeps entries whose costs add up to three quarters of `size_max`. The last quarter is for those that
    /// were forgotten here while a worker still knows them.
    pub(super) fn new(size_max: u64) -> Self {
        let held_max = size_max / 4;
        let entries = Entries {
            places: HashMap::new(),
            slots: Vec::new(),
            hand: 0,
            charge: 0,
            charge_max: size_max - held_max,
        };
        let (entries, workers) = (Mutex::new(entries), AtomicU64::new(0));
        Self { entries, held_max, workers, told: OnceLock::new() }
    }

    /// Tells `cache` from now on how much is held; only the first one that is to be told is.
    pub(super) fn tell(&self, cache: &Arc<Cache>) {
        let entries = self.lock();
        if self.told.set(Arc::clone(cache)).is_ok() {
            entries.slots.iter().for_each(|slot| cache.add(slot.charge));
        }
    }

    /// One more worker will hold on to what it knows.
    pub(super) fn add_worker(&self) {
        self.workers.fetch_add(1, Ordering::Relaxed);
    }

    /// How much each of them may hold on to.
    pub(super) fn share_per_worker(&self) -> u64 {
        self.held_max / self.workers.load(Ordering::Relaxed).max(1)
    }

    /// What is known of `name`, believable or not.
    pub(super) fn find(&self, name: &[u8]) -> Option<Arc<Entry>> {
        let entries = self.lock();
        let slot = &entries.slots[*entries.places.get(name)?];
        slot.entry.want();
        Some(Arc::clone(&slot.entry))
    }

    /// Keeps `entry` for `name`, if what is known is still what was `seen` before the look that `entry` comes
    /// from. Returns what is known now: of two looks at the same time nobody can say which saw more, so the
    /// first to come back counts, and no worker goes back to what was before. Returns also how many others
    /// were forgotten for it.
    pub(super) fn keep(
        &self,
        name: &[u8],
        entry: Arc<Entry>,
        seen: Option<&Arc<Entry>>,
    ) -> (Arc<Entry>, u64) {
        let kept = {
            let mut entries = self.lock();
            let kept = entries.keep(name, entry, seen);
            if let Some(cache) = self.told.get() {
                kept.added.iter().for_each(|&charge| cache.add(charge));
                let charge = kept.forgotten.iter().map(|slot| slot.charge).sum();
                cache.remove(kept.forgotten.len() as u64, charge);
            }
            kept
        };
        // What was forgotten is freed, or closed, with nobody waiting.
        let evicted = kept.forgotten.iter().filter(|slot| *slot.name != *name).count();
        (kept.known, evicted as u64)
    }

    /// Between two statements that use it, what it guards is whole; whoever panicked left it so.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(cache) = self.told.get() {
            let entries = self.lock();
            cache.remove(entries.slots.len() as u64, entries.charge);
        }
    }
}

/// What came of keeping an entry.
#[derive(Debug)]
struct Kept {
    known: Arc<Entry>,
    /// What was not kept for it: what its own name stood for, and others.
    forgotten: Vec<Slot>,
    /// What it costs, if it was not known.
    added: Option<u64>,
}

impl Entries {
    fn keep(&mut self, name: &[u8], entry: Arc<Entry>, seen: Option<&Arc<Entry>>) -> Kept {
        let mut forgotten = Vec::new();
        if let Some(&place) = self.places.get(name) {
            let known = &self.slots[place].entry;
            if Arc::ptr_eq(known, &entry) || !seen.is_some_and(|seen| Arc::ptr_eq(known, seen)) {
                return Kept { known: Arc::clone(known), forgotten, added: None };
            }
            forgotten.push(self.take(place));
        }
        let charge = 2 * name.len() as u64 + entry.charge();
        if charge > self.charge_max {
            return Kept { known: entry, forgotten, added: None };
        }
        while self.charge + charge > self.charge_max || self.slots.len() == ENTRIES_MAX {
            let place = self.least_wanted();
            forgotten.push(self.take(place));
        }
        let name: Arc<[u8]> = name.into();
        self.places.insert(Arc::clone(&name), self.slots.len());
        self.slots.push(Slot { name, entry: Arc::clone(&entry), charge });
        self.charge += charge;
        Kept { known: entry, forgotten, added: Some(charge) }
    }

    /// Moves the hand to the first entry that nobody has asked for since it last came by.
    fn least_wanted(&mut self) -> usize {
        // After one round nobody is spared; whoever is asked for meanwhile cannot keep the hand going.
        for _ in 0..=self.slots.len() {
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            if !self.slots[self.hand].entry.take_wanted() {
                break;
            }
        }
        self.hand
    }

    /// Takes an entry out; the last one takes its place.
    fn take(&mut self, place: usize) -> Slot {
        let slot = self.slots.swap_remove(place);
        self.places.remove(&slot.name);
        self.charge -= slot.charge;
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(Arc::clone(&moved.name), place);
        }
        slot
    }
}

#[cfg(test)]
mod tests;
