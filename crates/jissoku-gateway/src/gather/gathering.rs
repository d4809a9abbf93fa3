//! A route whose requests go to several servers, and a client's request that does.

use std::sync::Arc;

use jissoku_os::driver::ConnectionId;
use jissoku_upstream::fan_out::{Collection, Form, Plan};

use crate::config::Forwarding;
use crate::exchange::Exchange;
use crate::lost::Lost;
use crate::slab::Key;

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
    pub(super) started_ns: u64,
    pub(super) form: Form,
    /// Whether the client knows chunked bodies.
    pub(super) is_chunked: bool,
    /// Parts that were written as they ended.
    pub(super) written: u64,
    /// The size of a body that is written part by part so far; the head was sent if it is not 0.
    pub(super) size: u64,
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
