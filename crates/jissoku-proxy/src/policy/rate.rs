//! Requests per second, and at once, of each client: in tables of fixed size, without locks.
//!
//! Rates are counted by the generic cell rate algorithm (ITU-T I.371), one time per key in one word:
//! each request moves the key's time on by the interval between two requests. A request whose time
//! would lead the present by more than the burst is too much.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::policy::random::mix;

/// The key of a client's address; of IPv6 the first 64 bits, since a client has all below them.
/// Different for each `seed`, so that clients cannot choose addresses that collide.
pub fn address_key(address: IpAddr, seed: u64) -> u64 {
    let bits = match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or_default(),
    };
    let version = u64::from(address.to_canonical().is_ipv6());
    mix(mix(bits ^ seed).wrapping_add(version))
}

const US: u64 = 1000;
const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// A rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RatePolicy {
    /// Requests within `every_ns`.
    pub requests: u32,
    /// The time for them.
    pub every_ns: u64,
    /// Requests at once, after none for long; at least 1.
    pub burst: u32,
}

impl RatePolicy {
    fn interval_us(self) -> u64 {
        (self.every_ns / u64::from(self.requests.max(1)) / US).max(1)
    }
}

/// The times of all keys. A key that is not found has used nothing; when all its slots are taken, the
/// key that has used least is forgotten, which lets at most one burst more through.
#[derive(Debug)]
pub struct RateTable {
    /// 16 bits of the key, 48 bits of its time in microseconds.
    slots: Vec<AtomicU64>,
}

impl RateTable {
    /// The usual size, 512 KiB.
    pub const SLOTS: usize = 65_536;

    /// A table for about this many keys.
    pub fn new(slots: usize) -> Self {
        Self { slots: (0..slot_count(slots)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts a request of `key`, unless it is too much.
    ///
    /// # Errors
    ///
    /// The time in nanoseconds after which a request is permitted: 429 with Retry-After.
    pub fn check(&self, key: u64, policy: RatePolicy, now_ns: u64) -> Result<(), u64> {
        let now_us = now_ns / US;
        let interval_us = policy.interval_us();
        let burst_us = interval_us.saturating_mul(u64::from(policy.burst.max(1)) - 1);
        loop {
            let (slot, word) = self.slot_of(key);
            let time_us = if word >> TIME_BITS == tag(key) { word & TIME_MASK } else { 0 };
            let lead_us = time_us.saturating_sub(now_us);
            if lead_us > burst_us {
                return Err((lead_us - burst_us) * US);
            }
            let after = tag(key) << TIME_BITS | ((time_us.max(now_us) + interval_us) & TIME_MASK);
            if slot.compare_exchange(word, after, Relaxed, Relaxed).is_ok() {
                return Ok(());
            }
        }
    }

    /// The slot of a key, or the one that it takes over: that with the earliest time.
    fn slot_of(&self, key: u64) -> (&AtomicU64, u64) {
        let group = self.slots.get(slots_of_key(key, self.slots.len())).unwrap_or_default();
        group
            .iter()
            .map(|slot| (slot, slot.load(Relaxed)))
            .min_by_key(|(_, word)| (word >> TIME_BITS != tag(key), word & TIME_MASK))
            .expect("a table has at least one group of slots")
    }
}

/// Never 0, which is an empty slot.
const fn tag(key: u64) -> u64 {
    let bits = key >> TIME_BITS;
    if bits == 0 { 1 } else { bits }
}

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
        let count = slot_count(slots);
        Arc::new(Self { slots: (0..count).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Counts a request of `key`. A key without a free slot is permitted uncounted.
    ///
    /// # Errors
    ///
    /// `max` are under way.
    pub fn acquire(self: &Arc<Self>, key: u64, max: u16) -> Result<Permit, TooMany> {
        let places = slots_of_key(key, self.slots.len());
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

/// Slots in which a key may be: those of a cache line.
const SLOTS_PER_KEY: usize = 8;

/// The size of a table for about `slots` keys.
fn slot_count(slots: usize) -> usize {
    slots.next_multiple_of(SLOTS_PER_KEY).max(SLOTS_PER_KEY)
}

fn slots_of_key(key: u64, count: usize) -> Range<usize> {
    let groups = u64::try_from(count / SLOTS_PER_KEY).unwrap_or(1);
    let start = usize::try_from(key % groups).unwrap_or_default() * SLOTS_PER_KEY;
    start..start + SLOTS_PER_KEY
}

#[cfg(test)]
mod tests;
