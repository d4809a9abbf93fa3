//! Points in time at which something is looked at again: one entry for each connection.
//!
//! An entry cannot be taken back: when it is due, its owner compares it with its deadline and may
//! add itself again. So a later deadline costs nothing but a store.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::slab::Key;

/// Keys by the time at which they are due.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Deadlines {
    pub(crate) fn add(&mut self, due_ns: u64, key: Key) {
        self.heap.push(Reverse((due_ns, key.token())));
    }

    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// Removes a key that is due.
    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Key> {
        let is_due = self.earliest_ns()? <= now_ns;
        let entry = is_due.then(|| self.heap.pop()).flatten();
        entry.map(|Reverse((_, token))| Key::from_token(token))
    }
}
