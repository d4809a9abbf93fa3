//! What a connection waits for, and what it remembers of a request meanwhile.

use std::os::fd::OwnedFd;

use jissoku_http::Head;

use crate::handler::Plan;

/// What the connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of all.
    Fresh,
    /// To be told that there is no room for it.
    Refused,
    /// The first byte of another request.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a body, of which so many bytes have come.
    Body(u64),
    /// The end of a delay.
    Delay { due_ns: u64 },
    /// The head of its answer to leave before the body.
    Split,
    /// Its next turn: the stash holds more requests.
    Turn,
    /// The client, to read a refusal; so many bytes have been read past it.
    Linger(u64),
    /// Its end.
    Closing,
}

/// A request that was understood and is not answered yet.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) plan: Plan,
    pub(super) version: jissoku_http::Version,
    pub(super) keeps_alive: bool,
}

impl Request {
    #[inline]
    pub(super) const fn new(head: &Head, plan: Plan) -> Self {
        Self { plan, version: head.version, keeps_alive: head.keeps_alive }
    }
}

/// What planted causes have a connection remember.
#[derive(Debug, Default)]
pub(super) struct Burden {
    /// The socket, to ask for its peer.
    pub(super) peer: Option<OwnedFd>,
    /// Requests so far.
    pub(super) requests: u32,
}
