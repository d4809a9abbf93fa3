//! Points in time at which something is looked at again: one entry for each connection.
//!
//! An entry cannot be taken back: when it is due, its owner compares it with its deadline and may
//! add itself again. So a later deadline costs nothing but a store. Those of owners that are gone are
//! dropped before they could end a wait.

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

    /// Drops the entries of owners that are gone, up to the first one that is not.
    #[inline]
    pub(crate) fn drop_gone(&mut self, is_there: impl Fn(Key) -> bool) {
        while let Some(Reverse((_, token))) = self.heap.peek()
            && !is_there(Key::from_token(*token))
        {
            self.heap.pop();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn an_owner_that_is_gone_ends_no_wait() {
        let (mut slab, mut deadlines) = (Slab::default(), Deadlines::default());
        let keys = [10, 20, 30, 40].map(|due_ns| {
            let key = slab.insert(());
            deadlines.add(due_ns, key);
            key
        });
        for key in [keys[0], keys[1], keys[3]] {
            slab.remove(key);
        }
        deadlines.drop_gone(|key| slab.get_ref(key).is_some());
        assert_eq!(deadlines.earliest_ns(), Some(30));
        assert_eq!(deadlines.take_due(40), Some(keys[2]));
        deadlines.drop_gone(|key| slab.get_ref(key).is_some());
        assert_eq!(deadlines.earliest_ns(), None);
    }
}
