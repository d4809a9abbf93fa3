//! The generic cell rate algorithm (ITU-T I.371): one time per key, as one word.
//!
//! Each request moves the key's time on by the interval between two requests. A request whose time
//! would lead the present by more than the burst is too much.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::slots;

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
        Self { slots: (0..slots::count(slots)).map(|_| AtomicU64::new(0)).collect() }
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
        let group = self.slots.get(slots::of_key(key, self.slots.len())).unwrap_or_default();
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
