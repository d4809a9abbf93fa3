//! Retries as a share of the requests of the last 10 s, of all workers.
//!
//! Unlike a bucket of fixed size, it permits to repeat all requests of a short failure, and yet no
//! more than the share of a long one.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const SECOND_NS: u64 = 1_000_000_000;
const WINDOW_S: u64 = 10;

/// Slots, by second modulo their number: more than the window, so that it never meets itself.
const SLOTS: usize = 16;

/// Counts of requests; workers beyond this number share them.
const SHARDS: usize = 32;

/// How many retries are permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetPolicy {
    /// Retries, in percent of the requests of the last 10 s.
    pub percent: u32,
    /// Retries for each of the 10 s, if that is more.
    pub per_second_min: u32,
}

impl Default for BudgetPolicy {
    fn default() -> Self {
        Self { percent: 20, per_second_min: 3 }
    }
}

/// Requests and retries of the last seconds.
#[derive(Debug)]
pub struct Budget {
    policy: BudgetPolicy,
    /// By worker, so that no two write to the same cache line for each request.
    requests: [Counts; SHARDS],
    retries: Counts,
}

impl Budget {
    /// An unused budget.
    pub fn new(policy: BudgetPolicy) -> Self {
        Self { policy, requests: Default::default(), retries: Counts::default() }
    }

    /// Notes a request of a client, of the worker of this number.
    pub fn count_request(&self, worker: usize, now_ns: u64) {
        if let Some(requests) = self.requests.get(worker % SHARDS) {
            requests.add(now_ns);
        }
    }

    /// Takes one retry, if there is one. Workers that ask at once may each take the last.
    pub fn try_spend(&self, now_ns: u64) -> bool {
        let requests: u64 = self.requests.iter().map(|counts| counts.sum(now_ns)).sum();
        let earned = requests * u64::from(self.policy.percent) / 100;
        let permitted = earned.max(u64::from(self.policy.per_second_min) * WINDOW_S);
        let is_within = self.retries.sum(now_ns) < permitted;
        if is_within {
            self.retries.add(now_ns);
        }
        is_within
    }
}

/// Events of each second: its number in the upper half of a word, the count in the lower.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts([AtomicU64; SLOTS]);

impl Counts {
    fn add(&self, now_ns: u64) {
        let second = now_ns / SECOND_NS;
        let index = usize::try_from(second).unwrap_or_default() % SLOTS;
        let Some(slot) = self.0.get(index) else { return };
        let is_current = |word: u64| word >> 32 == second & 0xffff_ffff;
        let next = |word| Some(if is_current(word) { word + 1 } else { second << 32 | 1 });
        // Never refused, so there is no result.
        let _before = slot.fetch_update(Relaxed, Relaxed, next);
    }

    fn sum(&self, now_ns: u64) -> u64 {
        let second = now_ns / SECOND_NS;
        let words = self.0.iter().map(|slot| slot.load(Relaxed));
        words
            .filter(|word| (second & 0xffff_ffff).wrapping_sub(word >> 32) < WINDOW_S)
            .map(|word| word & 0xffff_ffff)
            .sum()
    }
}
