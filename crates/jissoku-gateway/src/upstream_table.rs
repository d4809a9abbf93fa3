//! The connections of a worker to upstream servers, each with the timer of its state.

use jissoku_http::response_reader::ResponseReader;
use jissoku_server::Timers;

use crate::slab::{Key, Slab};
use crate::upstream::{State, Upstream};

/// Connections by key.
///
/// INVARIANT: each has one timer, which is that of its present state, unless it is to be closed or
/// its timer has just been taken. So a state cannot end because of the time of a former one.
#[derive(Debug)]
pub(crate) struct UpstreamTable {
    /// Of a response, at most.
    fields_max: u32,
    slab: Slab<Upstream>,
    timers: Timers<Key>,
}

impl UpstreamTable {
    /// Of no connections. A response may have `fields_max` fields.
    pub(crate) fn new(fields_max: u32) -> Self {
        Self { fields_max, slab: Slab::default(), timers: Timers::default() }
    }

    /// Adds a connection whose state ends at `deadline_ns`.
    pub(crate) fn insert(&mut self, upstream: Upstream, deadline_ns: u64) -> Key {
        let key = self.slab.insert(upstream);
        self.timers.set(deadline_ns, key);
        key
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<&mut Upstream> {
        self.slab.get(key)
    }

    pub(crate) fn get_ref(&self, key: Key) -> Option<&Upstream> {
        self.slab.get_ref(key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Upstream> {
        self.slab.values()
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.timers.cancel(key);
        self.slab.remove(key);
    }

    /// A connection changes its state, which something has to end before `deadline_ns`.
    pub(crate) fn enter(&mut self, key: Key, state: State, deadline_ns: u64) {
        if let Some(upstream) = self.slab.get(key) {
            upstream.set_state(state);
            self.timers.set(deadline_ns, key);
        }
    }

    /// The driver closes a connection at once: nothing is waited for.
    pub(crate) fn enter_closing(&mut self, key: Key) {
        if let Some(upstream) = self.slab.get(key) {
            upstream.set_state(State::Closing);
            self.timers.cancel(key);
        }
    }

    /// A connection gets a request, which is to be handed to the driver.
    pub(crate) fn begin(&mut self, key: Key, (exchange, is_head): (Key, bool), deadline_ns: u64) {
        if let Some(upstream) = self.slab.get(key) {
            let reader = ResponseReader::new(is_head).with_fields_max(self.fields_max);
            upstream.begin(exchange, reader);
            self.timers.set(deadline_ns, key);
        }
    }

    /// A connection keeps its state, and has until `deadline_ns` from now on.
    pub(crate) fn extend(&mut self, key: Key, deadline_ns: u64) {
        if self.slab.get_ref(key).is_some_and(|upstream| upstream.state() != State::Closing) {
            self.timers.set(deadline_ns, key);
        }
    }

    #[cfg(test)]
    pub(crate) const fn timer_count(&self) -> usize {
        self.timers.count()
    }

    /// When the state of a connection ends.
    pub(crate) fn deadline_ns(&self, key: Key) -> Option<u64> {
        self.timers.due_ns(key)
    }

    #[inline]
    pub(crate) fn earliest_ns(&self) -> Option<u64> {
        self.timers.earliest_ns()
    }

    /// A connection whose time is over; its state is to be ended or extended.
    #[inline]
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Key> {
        self.timers.take_due(now_ns)
    }
}
