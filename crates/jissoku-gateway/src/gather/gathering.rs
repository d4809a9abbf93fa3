//! A client's request that goes to several servers.

use std::sync::Arc;

use jissoku_os::driver::ConnectionId;
use jissoku_upstream::fan_out::{Collection, Form};
use jissoku_upstream::rate::Permit;

use super::flight_key::FlightKey;
use super::routes::GatherRoute;
use crate::exchange::Exchange;
use crate::lost::Lost;
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
    /// Parts that were written as they ended.
    pub(super) written: u64,
    /// The size of a body that is written part by part so far; the head was sent if it is not 0.
    pub(super) size: u64,
    /// Count the parts of a batch until it is dropped.
    pub(crate) permits: Vec<Permit>,
    /// Whether its parts were ended.
    pub(crate) is_ended: bool,
    lost: Lost<LostGathering>,
}

impl Drop for Gathering {
    fn drop(&mut self) {
        if !self.is_ended {
            let (parts, held) = (std::mem::take(&mut self.parts), self.collection.held());
            self.lost.push(LostGathering { client: self.client, parts, held });
        }
    }
}

/// What a gathering held that was dropped, and not ended.
#[derive(Debug)]
pub(crate) struct LostGathering {
    pub(crate) client: ConnectionId,
    pub(crate) parts: Vec<PartState>,
    /// Bytes of bodies.
    pub(crate) held: usize,
}

/// The exchange of a part.
#[derive(Debug)]
pub(crate) enum PartState {
    /// It is to be sent. Others with the same key may get its response.
    Waiting(Box<Exchange>, Option<Box<FlightKey>>),
    Running(Key),
    /// Its request is this shared one. `is_joined`: another part had sent it.
    Shared {
        flight: Key,
        is_joined: bool,
    },
    Ended,
}

impl From<Exchange> for PartState {
    fn from(exchange: Exchange) -> Self {
        Self::Waiting(Box::new(exchange), None)
    }
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
            permits: Vec::new(),
            is_ended: false,
            lost,
        }
    }

    /// When the response has to be there.
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.started_ns.saturating_add(self.route.plan.deadline_ns)
    }
}
