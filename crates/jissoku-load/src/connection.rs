//! One connection, as small as the loop can have it: its hot state is one cache line.

use std::os::fd::OwnedFd;

use crate::reader::Reader;

/// Where a connection stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is no socket.
    Closed,
    /// A socket is on its way to the server.
    Connecting,
    /// The socket stands, and hands are shaken (TLS).
    Shaking,
    /// Requests can be sent.
    Open,
    /// The last answer is whole, and the server's end is awaited.
    Ending,
}

/// A connection's state between two events.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether it stands in one certain queue"
)]
pub(crate) struct Connection {
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) lane: u16,
    pub(crate) phase: Phase,
    /// Whether it stands in the lane's line of free connections.
    pub(crate) queued: bool,
    /// Whether it stands in the thread's line of time-out checks.
    pub(crate) timed: bool,
    /// Whether its becoming writable is reported, since the kernel would not take everything.
    pub(crate) armed: bool,
    /// Whether it has been given a request.
    pub(crate) used: bool,
    /// Requests without an answer, at most the pipeline's depth.
    pub(crate) outstanding: u16,
    /// Where the oldest of them stands among the connection's stamps.
    pub(crate) oldest: u16,
    /// The shape of the next request.
    pub(crate) next: u16,
    /// The shape of the oldest request without an answer.
    pub(crate) asked: u16,
    /// Which of the connections that were in this place.
    pub(crate) generation: u16,
    /// Requests that may still be sent on it.
    pub(crate) left: u32,
    /// When connecting or ending began, or when it came to stand in line for a request.
    pub(crate) since_ns: u64,
    /// Bytes of the requests in flight that the kernel would not take yet.
    pub(crate) unsent: usize,
    /// Where they end among the bytes of the lane's rotation.
    pub(crate) unsent_end: usize,
    /// What has come of an unfinished answer.
    pub(crate) reader: Option<Box<Reader>>,
}

const _: () = assert!(size_of::<Connection>() <= 64);

/// When a request was to be sent, and when it was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamp {
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
}

impl Connection {
    /// A connection whose first request is of shape `next`.
    pub(crate) fn new(lane: u16, next: u16) -> Self {
        Self {
            socket: None,
            lane,
            phase: Phase::Closed,
            queued: false,
            timed: false,
            armed: false,
            used: false,
            outstanding: 0,
            oldest: 0,
            next,
            asked: next,
            generation: 0,
            left: u32::MAX,
            since_ns: 0,
            unsent: 0,
            unsent_end: 0,
            reader: None,
        }
    }

    /// The socket, if answers can come on it.
    #[inline]
    pub(crate) fn readable(&self) -> Option<&OwnedFd> {
        match self.phase {
            Phase::Open | Phase::Ending => self.socket.as_ref(),
            Phase::Closed | Phase::Connecting | Phase::Shaking => None,
        }
    }

    /// Whether another request may be sent, with up to `depth` in flight.
    #[inline]
    pub(crate) fn can_take(&self, depth: u16) -> bool {
        self.outstanding < depth && self.left > 0
    }

    /// Drops the socket and everything that was under way on it.
    pub(crate) fn reset(&mut self) {
        self.socket = None;
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::Closed;
        self.armed = false;
        self.used = false;
        self.outstanding = 0;
        self.asked = self.next;
        self.unsent = 0;
        self.reader = None;
    }
}

/// A connection's index as the queues keep it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a plan with more connections is refused")]
pub(crate) fn short(index: usize) -> u32 {
    index as u32
}
