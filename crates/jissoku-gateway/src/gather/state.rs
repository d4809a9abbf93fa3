//! What a worker knows of all its gathered requests: their memory, and when they may be due.

use jissoku_os::driver::ConnectionId;
use jissoku_server::Timers;

use super::gathering::Gathering;

/// What a worker knows of all its gatherings.
#[derive(Debug)]
pub(crate) struct GatherState {
    due: Timers<ConnectionId>,
    /// Bytes of bodies that are held for all clients.
    held: usize,
    held_max: usize,
}

impl GatherState {
    pub(crate) fn new(held_max: usize) -> Self {
        Self { due: Timers::default(), held: 0, held_max }
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.held >= self.held_max
    }

    /// Bytes that a gathering may hold, of which `held` are counted already.
    pub(crate) const fn room(&self, held: usize) -> usize {
        self.held_max.saturating_sub(self.held.saturating_sub(held))
    }

    /// A gathering that held `before` bytes holds `after` now.
    pub(crate) const fn change(&mut self, before: usize, after: usize) {
        self.held = self.held.saturating_sub(before) + after;
    }

    /// Has [`GatherState::take_due`] return the client when the response may be due.
    pub(crate) fn watch(&mut self, gathering: &Gathering) {
        let due_ns = gathering.collection.next_deadline_ns(&gathering.route.plan);
        self.due.set(due_ns, gathering.client);
    }

    /// A gathering that held `held` bytes is over.
    pub(crate) fn end(&mut self, client: ConnectionId, held: usize) {
        self.due.cancel(client);
        self.change(held, 0);
    }

    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.due.earliest_ns()
    }

    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<ConnectionId> {
        self.due.take_due(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_hold_is_no_room() {
        let mut state = GatherState::new(100);
        assert_eq!(state.room(0), 100);
        state.change(0, 3);
        state.change(0, 95);
        assert_eq!((state.room(0), state.room(3)), (2, 5));
        state.change(3, 5);
        assert!(state.is_full());
        assert_eq!((state.room(0), state.room(5)), (0, 5));
    }
}
