//! Requests of one client at once: counts in a table of fixed size.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::slots;

const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The client has as many requests under way as it may: 429.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

/// Counts by key. Two workers that meet a new key at the same instant may count it apart.
#[derive(Debug)]
pub struct ConcurrencyTable {
    /// 48 bits of the key, 16 bits of its count; 0 is empty.
    slots: Vec<AtomicU64>,
}

/// A request under way, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    table: Arc<ConcurrencyTable>,
    /// `None`: all slots of the key were taken, and it is not counted.
    slot: Option<usize>,
}

impl ConcurrencyTable {
    /// A table for about this many keys at once.
    pub fn new(slots: usize) -> Arc<Self> {
        let count = slots::count(slots);
        Arc::new(Self { slots: (0..count).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Counts a request of `key`. A key without a free slot is permitted uncounted.
    ///
    /// # Errors
    ///
    /// `max` are under way.
    pub fn acquire(self: &Arc<Self>, key: u64, max: u16) -> Result<Permit, TooMany> {
        let places = slots::of_key(key, self.slots.len());
        loop {
            let word_at = |place: usize| self.slots.get(place).map(|slot| slot.load(Relaxed));
            let ours = places.clone().find(|place| {
                word_at(*place)
                    .is_some_and(|word| word != 0 && word >> COUNT_BITS == key >> COUNT_BITS)
            });
            let found = ours.or_else(|| places.clone().find(|place| word_at(*place) == Some(0)));
            let Some(place) = found else {
                return Ok(Permit { table: Arc::clone(self), slot: None });
            };
            let Some(slot) = self.slots.get(place) else { continue };
            let word = slot.load(Relaxed);
            let is_ours = word != 0 && word >> COUNT_BITS == key >> COUNT_BITS;
            if is_ours && word & COUNT_MASK >= u64::from(max) {
                return Err(TooMany);
            }
            let after = if is_ours { word + 1 } else { (key & !COUNT_MASK) | 1 };
            let is_free = is_ours || word == 0;
            if is_free && slot.compare_exchange(word, after, Relaxed, Relaxed).is_ok() {
                return Ok(Permit { table: Arc::clone(self), slot: Some(place) });
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let slot = self.slot.and_then(|place| self.table.slots.get(place));
        if let Some(slot) = slot {
            let less = |word: u64| Some(if word & COUNT_MASK <= 1 { 0 } else { word - 1 });
            // Never refused, so there is no result.
            let _before = slot.fetch_update(Relaxed, Relaxed, less);
        }
    }
}
