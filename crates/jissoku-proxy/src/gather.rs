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

use crate::Key;
use crate::client::Lost;
use crate::config::Forwarding;
use crate::exchange::{Ending, Exchange};
use crate::policy::fan_out::{Collection, Effect, Form, PartError, PartResult, Plan};
use crate::policy::fields::FieldRules;

pub(crate) use part::{PartRequest, PassedFields, part_request};

/// A route with parts of its own.
#[derive(Debug)]
pub struct GatherRoute {
    /// Which parts it has.
    pub plan: Plan,
    /// How each part is forwarded, in the same order.
    pub forwardings: Vec<Forwarding>,
    /// What is changed of the fields of responses.
    pub fields: FieldRules,
}

/// A request of a client that waits for its parts.
#[derive(Debug)]
pub(crate) struct Gathering {
    client: ConnectionId,
    route: Arc<GatherRoute>,
    collection: Collection,
    /// In the order of the plan.
    parts: Vec<PartState>,
    is_closed: bool,
    started_ns: u64,
    form: Form,
    /// Whether the client knows chunked bodies.
    is_chunked: bool,
    /// Parts that were written as they ended.
    written: u64,
    /// The size of a body that is written part by part so far; the head was sent if it is not 0.
    size: u64,
    /// Header lines of the response beside its own.
    lines: Vec<u8>,
    is_ended: bool,
    lost: Lost<LostGathering>,
}

impl Drop for Gathering {
    fn drop(&mut self) {
        if !self.is_ended {
            let (running, held) = (self.running().map(|(_, key)| key).collect(), self.held());
            self.lost.push(LostGathering { running, held });
        }
    }
}

/// What a gathering held that was dropped, and not ended.
#[derive(Debug)]
pub(crate) struct LostGathering {
    running: Vec<Key>,
    held: usize,
}

impl LostGathering {
    /// The exchanges of its parts, and the bytes of bodies that it held.
    pub(crate) fn into_held(self) -> (Vec<Key>, usize) {
        (self.running, self.held)
    }
}

#[derive(Debug)]
enum PartState {
    /// It is to be sent.
    Waiting(Box<Exchange>),
    Running(Key),
    Ended,
}

impl Gathering {
    /// Starts a gathered response: the client, whether it knows chunked bodies, and the form.
    pub(crate) fn new(
        (client, is_chunked, form): (ConnectionId, bool, Form),
        route: &Arc<GatherRoute>,
        parts: Vec<Exchange>,
        (now_ns, lost): (u64, Lost<LostGathering>),
    ) -> Self {
        let waiting = |exchange| PartState::Waiting(Box::new(exchange));
        Self {
            client,
            route: Arc::clone(route),
            collection: Collection::new(&route.plan, now_ns),
            parts: parts.into_iter().map(waiting).collect(),
            is_closed: false,
            started_ns: now_ns,
            form,
            is_chunked,
            written: 0,
            size: 0,
            lines: Vec::new(),
            is_ended: false,
            lost,
        }
    }

    /// With these header lines in its response.
    pub(crate) fn with_lines(mut self, lines: Vec<u8>) -> Self {
        self.lines = lines;
        self
    }

    pub(crate) const fn client(&self) -> ConnectionId {
        self.client
    }

    /// Bytes of bodies that it holds.
    pub(crate) fn held(&self) -> usize {
        self.collection.held()
    }

    /// When the response has to be there.
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.started_ns.saturating_add(self.route.plan.deadline_ns)
    }

    /// Whether a part that was asked at `asked_ns` had most of the time of the whole.
    pub(crate) fn had_most_of_the_time(&self, latency_ns: u64) -> bool {
        latency_ns >= self.route.plan.deadline_ns / 2
    }

    /// The parts that are under way or over, and their exchanges.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, Key)> {
        self.parts.iter().enumerate().filter_map(|(part, state)| match state {
            PartState::Running(key) => Some((part, *key)),
            PartState::Waiting(_) | PartState::Ended => None,
        })
    }

    /// The exchange of a part is another one from now on.
    pub(crate) fn set_running(&mut self, part: usize, key: Key) {
        self.parts[part] = PartState::Running(key);
    }

    /// The exchange of the next part that the plan allows to start now.
    pub(crate) fn begin_next(&mut self) -> Option<(usize, Exchange)> {
        loop {
            let part = self.collection.begin_next(&self.route.plan)?;
            let state = std::mem::replace(&mut self.parts[part], PartState::Ended);
            if let PartState::Waiting(mut exchange) = state {
                exchange.limit_whole(self.deadline_ns());
                return Some((part, *exchange));
            }
            self.parts[part] = state;
        }
    }

    /// Takes what the exchange of a part has received, unless more than `room` were held then. Returns
    /// whether the part has ended.
    pub(crate) fn collect(
        &mut self,
        part: usize,
        exchange: &mut Exchange,
        room: usize,
        now_ns: u64,
    ) -> bool {
        let collection = &mut self.collection;
        if let Some(fields) = exchange.take_part_fields() {
            collection.on_head(part, exchange.status(), fields);
        }
        let body = exchange.take_part_body();
        let mut effect = Effect::Continues;
        if !body.is_empty() {
            effect = if collection.held() + body.len() > room {
                collection.on_failure(part, PartError::SHORTAGE, now_ns)
            } else {
                collection.on_body(&self.route.plan, part, &body, now_ns)
            };
        }
        let effect = match exchange.ending() {
            None => effect,
            Some(Ending::Complete) => collection.on_end(part, now_ns),
            Some(Ending::Truncated) => {
                collection.on_failure(part, PartError::RESPONSE_INCOMPLETE, now_ns)
            }
            Some(Ending::Failed(_, error)) => {
                collection.on_failure(part, PartError::of(error), now_ns)
            }
        };
        effect != Effect::Continues
    }

    /// Ends the collection if the response is due. Returns the parts that are late, which are to be
    /// ended.
    pub(crate) fn close_if_due(&mut self, now_ns: u64) -> Vec<usize> {
        let late = self.collection.close_if_due(&self.route.plan, now_ns);
        self.is_closed |= late.is_some();
        late.unwrap_or_default()
    }

    /// A part ends. Returns its exchange if it is under way or over.
    pub(crate) fn end_part(&mut self, part: usize) -> Option<Key> {
        match std::mem::replace(&mut self.parts[part], PartState::Ended) {
            PartState::Running(key) => Some(key),
            PartState::Waiting(_) | PartState::Ended => None,
        }
    }

    /// All parts end. Returns the exchanges of those that are under way or over; none if they have
    /// ended before.
    pub(crate) fn end(&mut self) -> Option<Vec<Key>> {
        if std::mem::replace(&mut self.is_ended, true) {
            return None;
        }
        Some((0..self.parts.len()).filter_map(|part| self.end_part(part)).collect())
    }

    /// The name of a part, and its error if it has ended with one.
    pub(crate) fn part_outcome(&self, part: usize) -> (&str, Option<&'static str>) {
        let error = match self.collection.result(part) {
            Some((PartResult::Error(error), _)) => Some(error.name()),
            _ => None,
        };
        (&self.route.plan.parts[part].id, error)
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

    /// Has [`GatherState::take_due`] return the client when the response may be due, unless it is
    /// already.
    pub(crate) fn watch(&mut self, gathering: &Gathering) {
        if gathering.is_closed {
            return;
        }
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
