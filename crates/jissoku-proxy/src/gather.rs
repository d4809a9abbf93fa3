//! One request of a client to several servers, and one response from theirs.
//!
//! Each part is an exchange of its own, on the connections of the worker. What has been received of
//! them, and whether the response is due, is decided by [`crate::policy::fan_out::Collection`], a
//! pure state.

pub(crate) mod answer;
mod part;

use std::sync::Arc;

use jissoku_os::driver::ConnectionId;
use jissoku_server::Timers;

use crate::client::Lost;
use crate::config::Forwarding;
use crate::exchange::Exchange;
use crate::policy::fan_out::{Collection, Form, Plan};
use crate::slab::Key;

pub(crate) use part::{PartRequest, PassedFields, error_of, part_request};

/// A route with parts of its own.
#[derive(Debug)]
pub struct GatherRoute {
    pub(crate) plan: Plan,
    /// Of each part.
    pub(crate) forwardings: Vec<Forwarding>,
}

impl GatherRoute {
    /// `forwardings` has one entry for each part of `plan`, in the same order.
    #[must_use]
    pub const fn new(plan: Plan, forwardings: Vec<Forwarding>) -> Self {
        Self { plan, forwardings }
    }
}

/// A request of a client that waits for its parts.
#[derive(Debug)]
pub(crate) struct Gathering {
    pub(crate) client: ConnectionId,
    pub(crate) route: Arc<GatherRoute>,
    pub(crate) collection: Collection,
    /// In the order of the plan.
    pub(crate) parts: Vec<PartState>,
    pub(crate) is_closed: bool,
    started_ns: u64,
    form: Form,
    /// Whether the client knows chunked bodies.
    is_chunked: bool,
    /// Parts that were written as they ended.
    written: u64,
    /// The size of a body that is written part by part so far; the head was sent if it is not 0.
    size: u64,
    /// Whether its parts were ended.
    pub(crate) is_ended: bool,
    lost: Lost<LostGathering>,
}

impl Drop for Gathering {
    fn drop(&mut self) {
        if !self.is_ended {
            let (parts, held) = (std::mem::take(&mut self.parts), self.collection.held());
            self.lost.push(LostGathering { parts, held });
        }
    }
}

/// What a gathering held that was dropped, and not ended.
#[derive(Debug)]
pub(crate) struct LostGathering {
    pub(crate) parts: Vec<PartState>,
    /// Bytes of bodies.
    pub(crate) held: usize,
}

/// The exchange of a part.
#[derive(Debug)]
pub(crate) enum PartState {
    /// It is to be sent.
    Waiting(Box<Exchange>),
    Running(Key),
    Ended,
}

impl Gathering {
    pub(crate) fn new(
        (client, is_chunked, form): (ConnectionId, bool, Form),
        route: &Arc<GatherRoute>,
        parts: Vec<PartState>,
        (now_ns, lost): (u64, Lost<LostGathering>),
    ) -> Self {
        Self {
            client,
            route: Arc::clone(route),
            collection: Collection::new(&route.plan, now_ns),
            parts,
            is_closed: false,
            started_ns: now_ns,
            form,
            is_chunked,
            written: 0,
            size: 0,
            is_ended: false,
            lost,
        }
    }

    /// The exchange of a part that is under way or over.
    pub(crate) fn exchange(&self, part: usize) -> Option<Key> {
        match self.parts.get(part)? {
            PartState::Running(key) => Some(*key),
            PartState::Waiting(_) | PartState::Ended => None,
        }
    }

    /// When the response has to be there.
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.started_ns.saturating_add(self.route.plan.deadline_ns)
    }
}

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
