//! Who is to be called when: a heap, because each request may ask for a delay of its own.
//!
//! Delays that are all the same come in order, and then adding one costs a comparison.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jissoku_os::driver::Key;

/// Connections that wait for a point in time.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Key)>>,
}

impl Timers {
    /// Has `key` returned by [`Timers::take_due`] at `due_ns`. It cannot be taken back: who is called and
    /// has no business left does nothing.
    pub(crate) fn add(&mut self, due_ns: u64, key: Key) {
        self.heap.push(Reverse((due_ns, key)));
    }

    /// The earliest point in time that anybody waits for.
    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// Takes one whose time has come.
    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Key> {
        if self.earliest_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((_, key))| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_taken_in_order_and_nobody_too_soon() {
        let mut timers = Timers::default();
        let key = Key::default();
        for due_ns in [30, 10, 20, 10] {
            timers.add(due_ns, key);
        }
        let mut take = |now_ns| (timers.take_due(now_ns).is_some(), timers.earliest_ns());
        assert_eq!(take(9), (false, Some(10)));
        assert_eq!(take(10), (true, Some(10)));
        assert_eq!(take(10), (true, Some(20)));
        assert_eq!(take(10), (false, Some(20)));
        assert_eq!(take(99), (true, Some(30)));
        assert_eq!(take(99), (true, None));
        assert_eq!(take(99), (false, None));
    }
}
