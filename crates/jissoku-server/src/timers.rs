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
