//! What a worker knows of all its gathered requests: their memory, and when they may be due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jissoku_os::driver::ConnectionId;

use super::gathering::Gathering;

/// Bytes of bodies that a worker holds for all its clients at most. Beyond it, requests are refused.
const MEMORY_MAX: usize = 64 * 1024 * 1024;

/// What a worker knows of all its gatherings.
#[derive(Debug, Default)]
pub(crate) struct GatherState {
    due: BinaryHeap<Reverse<(u64, ConnectionId)>>,
    held: usize,
}

impl GatherState {
    pub(crate) const fn is_full(&self) -> bool {
        self.held >= MEMORY_MAX
    }

    /// A gathering that held `before` bytes holds `after` now.
    pub(crate) const fn change(&mut self, before: usize, after: usize) {
        self.held = self.held.saturating_sub(before) + after;
    }

    /// Has [`GatherState::take_due`] return the client when the response may be due.
    pub(crate) fn watch(&mut self, gathering: &mut Gathering) {
        let due_ns = gathering.collection.next_deadline_ns(&gathering.route.plan);
        // An entry cannot be taken back: a client that is called without need does nothing.
        if due_ns < gathering.due_ns {
            gathering.due_ns = due_ns;
            self.due.push(Reverse((due_ns, gathering.client)));
        }
    }

    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<ConnectionId> {
        let is_due = self.earliest_ns()? <= now_ns;
        is_due.then(|| self.due.pop()).flatten().map(|Reverse((_, client))| client)
    }
}
