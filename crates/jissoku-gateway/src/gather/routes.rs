//! Routes whose requests go to several servers.

use jissoku_server::ForwardedNotes;
use jissoku_upstream::fan_out::{BatchPolicy, Plan};
use jissoku_upstream::rate::Permit;

use crate::config::Forwarding;

/// A route with parts of its own.
#[derive(Debug)]
pub struct GatherRoute {
    pub(crate) plan: Plan,
    /// Of each part; none if the parts are those of one request.
    pub(crate) forwardings: Vec<Forwarding>,
}

/// A route whose requests go to several servers of one upstream.
#[derive(Debug)]
pub struct BroadcastRoute {
    /// Without parts.
    pub plan: Plan,
    /// To which upstream, and how long it may take.
    pub forwarding: Forwarding,
    /// To how many servers; `None`: to all.
    pub servers: Option<usize>,
}

/// A route whose requests list those of their parts.
#[derive(Debug)]
pub struct BatchRoute {
    /// Without parts.
    pub plan: Plan,
    /// What a client may ask for.
    pub policy: BatchPolicy,
    /// Of each route, whether parts may be for it.
    pub is_permitted: Vec<bool>,
}

/// What becomes of a request of a batch: it is forwarded, or answered with a status and a text.
pub(crate) type BatchPart = Result<(Forwarding, Option<Permit>, ForwardedNotes), (u16, String)>;

impl GatherRoute {
    /// `forwardings` has one entry for each part of `plan`, in the same order.
    #[must_use]
    pub const fn new(plan: Plan, forwardings: Vec<Forwarding>) -> Self {
        Self { plan, forwardings }
    }
}
