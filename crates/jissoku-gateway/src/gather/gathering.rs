//! A client's request that goes to several servers.

use std::sync::Arc;

use jissoku_os::driver::ConnectionId;
use jissoku_upstream::fan_out::Collection;
use jissoku_upstream::rate::Permit;

use super::form::Form;
use super::routes::GatherRoute;
use crate::exchange::Exchange;
use crate::slab::Key;

/// A request of a client that waits for its parts.
#[derive(Debug)]
pub(crate) struct Gathering {
    pub(crate) client: ConnectionId,
    pub(crate) route: Arc<GatherRoute>,
    pub(crate) collection: Collection,
    /// In the order of the plan.
    pub(crate) parts: Vec<PartState>,
    pub(crate) is_closed: bool,
    pub(super) started_ns: u64,
    pub(super) form: Form,
    /// Whether the client knows chunked bodies.
    pub(super) is_chunked: bool,
    /// Parts that were written as lines.
    pub(super) written: u64,
    /// The size of a body of lines so far; the head was sent if it is not 0.
    pub(super) size: u64,
    /// The time of the earliest entry in [`super::GatherState`].
    pub(super) due_ns: u64,
    /// Count the parts of a batch until it is dropped.
    pub(crate) permits: Vec<Permit>,
}

/// The exchange of a part.
#[derive(Debug)]
pub(crate) enum PartState {
    Waiting(Box<Exchange>),
    Running(Key),
    Ended,
}

impl From<Exchange> for PartState {
    fn from(exchange: Exchange) -> Self {
        Self::Waiting(Box::new(exchange))
    }
}

impl Gathering {
    pub(crate) fn new(
        (client, is_chunked, form): (ConnectionId, bool, Form),
        route: &Arc<GatherRoute>,
        parts: Vec<PartState>,
        now_ns: u64,
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
            due_ns: u64::MAX,
            permits: Vec::new(),
        }
    }

    /// When the response has to be there.
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.started_ns.saturating_add(self.route.plan.deadline_ns)
    }

    /// The exchange of a part that runs.
    pub(crate) fn running(&self, part: usize) -> Option<Key> {
        match self.parts.get(part) {
            Some(PartState::Running(key)) => Some(*key),
            _ => None,
        }
    }
}
