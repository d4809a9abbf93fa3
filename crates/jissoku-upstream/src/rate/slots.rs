//! Where a key may be in a table: a group of slots that share a cache line.

use std::ops::Range;

const SLOTS_PER_KEY: usize = 8;

/// The size of a table for about `slots` keys.
pub(super) fn count(slots: usize) -> usize {
    slots.next_multiple_of(SLOTS_PER_KEY).max(SLOTS_PER_KEY)
}

/// The slots of a key in a table of `count` slots.
pub(super) fn of_key(key: u64, count: usize) -> Range<usize> {
    let groups = u64::try_from(count / SLOTS_PER_KEY).unwrap_or(1);
    let start = usize::try_from(key % groups).unwrap_or_default() * SLOTS_PER_KEY;
    start..start + SLOTS_PER_KEY
}
