//! Timers of a worker: connections that wait for a point in time.
//!
//! A binary heap. A hierarchical timing wheel in its place did not pay: with 10,000 pending delays,
//! adding and taking one cost 33 ns in the heap and 26 ns in the wheel (52 and 45 ns if delays
//! vary), of about 24 us of CPU time per request with 10,000 connections, 25,000 requests/s and a
//! delay of 250 ms. There, heap over wheel was 1.03 (95 % 0.86 to 1.22; 12 pairs of runs, 2 cores).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Keys that wait for a point in time.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    heap: BinaryHeap<Reverse<Entry<K>>>,
}

/// Ordered by due time.
#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    due_ns: u64,
    key: K,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new() }
    }
}

impl<K> Timers<K> {
    /// Has `key` returned by [`Timers::take_due`] at `due_ns`. It cannot be cancelled: a connection
    /// that is called without need does nothing.
    pub(crate) fn add(&mut self, due_ns: u64, key: K) {
        self.heap.push(Reverse(Entry { due_ns, key }));
    }

    /// The earliest due time.
    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.due_ns)
    }

    /// Removes a key that is due.
    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<K> {
        let is_due = self.earliest_ns()? <= now_ns;
        is_due.then(|| self.heap.pop()).flatten().map(|Reverse(entry)| entry.key)
    }
}

impl<K> Ord for Entry<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due_ns.cmp(&other.due_ns)
    }
}

impl<K> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K> Eq for Entry<K> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_due_in_the_order_of_their_times() {
        let mut timers = Timers::default();
        for (due_ns, key) in [(30, 'c'), (20, 'b'), (10, 'a'), (20, 'b'), (u64::MAX, 'd')] {
            timers.add(due_ns, key);
        }
        assert_eq!((timers.earliest_ns(), timers.take_due(9)), (Some(10), None));
        let mut due = |now_ns| std::iter::from_fn(|| timers.take_due(now_ns)).collect::<String>();
        assert_eq!([due(29), due(29), due(30), due(u64::MAX)], ["abb", "", "c", "d"]);
        assert_eq!(timers.earliest_ns(), None);
    }
}
