//! The phases of a connection and the state of a pending request.

use std::os::fd::OwnedFd;

use jissoku_http::Head;

use crate::handler::ResponsePlan;

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of the connection.
    AwaitingFirst,
    /// The 503 for a connection over the limit is to be written.
    OverLimit,
    /// The first byte of the next request.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a body, of which this many bytes were received.
    Body(u64),
    /// The end of a delay.
    Delay { due_ns: u64 },
    /// The head of the response was sent; its body follows (injected fault).
    HeadSent,
    /// Other connections are served first; more input is buffered.
    Yielded,
    /// Lingering close after an error response; this many bytes were discarded.
    Linger(u64),
    /// The connection is to be closed.
    Closing,
}

/// A parsed request that is not answered yet.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) plan: ResponsePlan,
    pub(super) version: jissoku_http::Version,
    pub(super) keeps_alive: bool,
}

impl Request {
    #[inline]
    pub(super) const fn new(head: &Head, plan: ResponsePlan) -> Self {
        Self { plan, version: head.version, keeps_alive: head.keeps_alive }
    }
}

/// State of injected faults.
#[derive(Debug, Default)]
pub(super) struct InjectionState {
    /// The socket, for `getpeername(2)`.
    pub(super) peer: Option<OwnedFd>,
    /// Requests so far.
    pub(super) requests: u32,
}
