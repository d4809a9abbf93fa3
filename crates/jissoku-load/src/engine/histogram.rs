//! A histogram of durations with logarithmic bins: plain additions, no locks, lossless export.
//!
//! The bins are those of HdrHistogram with three significant digits from 1 ns on: exact below 2,048
//! ns, 1,024 bins per power of two above, so that a bin is at most 0.1 % wide.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::Serialize;

/// Binary logarithm of the bins per power of two.
const BIN_BITS: u32 = 10;

/// The first bins are 1 ns wide.
const EXACT: u64 = 2 << BIN_BITS;

/// Longer durations (73 minutes and more) are counted in the last bin; `max` and `mean` stay exact.
const LONGEST_NS: u64 = (1 << 42) - 1;

const BINS: usize = index(LONGEST_NS) + 1;

/// A distribution of durations in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    bins: Box<[u64]>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

/// Summary of a distribution, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are their own description")]
pub struct Quantiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
    pub mean: u64,
    pub min: u64,
}

impl Histogram {
    /// An empty histogram whose memory has been touched, so that no `record` causes a page fault.
    pub fn new() -> Self {
        let mut bins = vec![0; BINS].into_boxed_slice();
        for bin in &mut bins {
            *std::hint::black_box(bin) = 0;
        }
        Self { bins, count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, duration_ns: u64) {
        self.bins[index(duration_ns.min(LONGEST_NS))] += 1;
        self.count += 1;
        self.sum += duration_ns;
        self.min = self.min.min(duration_ns);
        self.max = self.max.max(duration_ns);
    }

    /// Counts `count` equal durations.
    pub fn record_many(&mut self, duration_ns: u64, count: u64) {
        if count > 0 {
            self.bins[index(duration_ns.min(LONGEST_NS))] += count;
            self.count += count;
            self.sum = self.sum.saturating_add(duration_ns.saturating_mul(count));
            self.min = self.min.min(duration_ns);
            self.max = self.max.max(duration_ns);
        }
    }

    /// The durations counted since `earlier`, a former state of this histogram, as (value, count).
    pub(crate) fn counts_since(&self, earlier: &Self) -> Vec<(u64, u64)> {
        let pairs = self.bins.iter().zip(&earlier.bins).enumerate();
        let grown = pairs.filter(|(_, (now, then))| now > then);
        grown.map(|(bin, (now, then))| (upper_bound(bin), now - then)).collect()
    }

    /// Becomes equal to `now`, a later state of itself, and returns what was counted in between.
    pub(crate) fn catch_up(&mut self, now: &Self) -> Vec<(u64, u64)> {
        if now.count == self.count {
            return Vec::new();
        }
        // Everything was counted within this range.
        let range = index(now.min.min(LONGEST_NS))..=index(now.max.min(LONGEST_NS));
        let bins = self.bins[range.clone()].iter_mut().zip(&now.bins[range.clone()]).zip(range);
        let mut grown = Vec::new();
        for ((ours, &theirs), bin) in bins {
            if theirs > *ours {
                grown.push((upper_bound(bin), theirs - *ours));
                *ours = theirs;
            }
        }
        (self.count, self.sum, self.min, self.max) = (now.count, now.sum, now.min, now.max);
        grown
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.bins.iter_mut().zip(&other.bins) {
            *ours += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The same durations, but those of `old`, which are among them, replaced by those of `new`,
    /// which are as many and each at most as long.
    pub(crate) fn with_replaced(&self, old: &Self, new: &Self) -> Self {
        let mut all = self.clone();
        if old.count == 0 {
            return all;
        }
        for ((bin, old), new) in all.bins.iter_mut().zip(&old.bins).zip(&new.bins) {
            *bin = *bin + new - old;
        }
        all.sum = all.sum - old.sum + new.sum;
        all.min = all.min.min(new.min);
        if old.max == self.max {
            // The longest of the others is known by its bin.
            let last = all.bins.iter().rposition(|count| *count > 0).unwrap_or_default();
            all.max = upper_bound(last).min(self.max);
        }
        all
    }

    /// The sum of all durations.
    pub fn sum_ns(&self) -> u64 {
        self.sum
    }

    /// The longest duration; zero if there is none.
    pub fn max_ns(&self) -> u64 {
        self.max
    }

    /// All bins that are not empty, as (largest value, count), in ascending order.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bin, &count)| (upper_bound(bin), count))
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The summary; `None` for an empty histogram.
    pub fn quantiles(&self) -> Option<Quantiles> {
        (self.count > 0).then(|| Quantiles {
            p50: self.quantile(500),
            p90: self.quantile(900),
            p99: self.quantile(990),
            p999: self.quantile(999),
            max: self.max,
            mean: self.sum / self.count,
            min: self.min,
        })
    }

    /// The smallest bin such that `per_mille` of all durations do not exceed it, as its largest
    /// value.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let share = u128::from(self.count) * u128::from(per_mille);
        self.at_rank(u64::try_from(share.div_ceil(1000)).unwrap_or(u64::MAX).max(1))
    }

    /// The bin of the duration with this rank, as its largest value.
    pub fn at_rank(&self, rank: u64) -> u64 {
        let mut below = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            below += count;
            if below >= rank {
                return upper_bound(bin).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The histogram as HdrHistogram V2, deflated, in base64. Empty if encoding failed.
    pub fn export(&self) -> String {
        let Ok(mut coarse) = hdrhistogram::Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3)
        else {
            return String::new();
        };
        for (value, count) in self.bins() {
            coarse.saturating_record_n(value, count);
        }
        let mut bytes = Vec::new();
        match V2DeflateSerializer::new().serialize(&coarse, &mut bytes) {
            Ok(_) => STANDARD.encode(bytes),
            Err(_) => String::new(),
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "callers keep to LONGEST_NS: 33,792 bins")]
const fn index(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let shift = value.ilog2() - BIN_BITS;
    ((shift as usize) << BIN_BITS) + (value >> shift) as usize
}

/// The largest value of a bin.
const fn upper_bound(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < EXACT {
        return bin;
    }
    let shift = (bin >> BIN_BITS) - 1;
    let first = bin - (shift << BIN_BITS);
    ((first + 1) << shift) - 1
}

#[cfg(test)]
mod tests;
