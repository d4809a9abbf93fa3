//! One connection. Its state fits one cache line.

use std::os::fd::OwnedFd;

use crate::protocol::response_reader::ResponseReader;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// There is no socket.
    Closed,
    /// The socket is connecting.
    Connecting,
    /// The TLS handshake is in progress.
    Handshaking,
    /// The WebSocket handshake is in progress.
    Upgrading,
    /// Requests can be sent.
    Open,
    /// The last response is complete, and the server is expected to close.
    AwaitingClose,
}

/// What is done when the timer of a connection is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerKind {
    /// Fails the connection if it has waited for too long.
    Timeout,
    /// Connects again.
    Retry,
    /// Closes the connection, which the server has announced and not done.
    Close,
    /// Sends the delayed request (think time, ramp-up).
    Delay,
}

/// A connection between two events.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) target: u16,
    pub(crate) state: ConnectionState,
    /// Whether it is in the target's queue of free connections (open loop), or its next request is
    /// delayed (closed loop).
    pub(crate) is_queued: bool,
    /// What its timer is for, if it has one.
    pub(crate) timer: Option<TimerKind>,
    /// Whether it waits for writability, since the kernel accepted only a part.
    pub(crate) awaits_writable: bool,
    /// Whether it has sent a request.
    pub(crate) has_sent: bool,
    /// Requests in flight, at most the pipeline depth.
    pub(crate) outstanding: u16,
    /// The slot of the oldest of them in `Connections::request_times`.
    pub(crate) oldest: u16,
    /// The next request of the cycle.
    pub(crate) next_spec: u16,
    /// The request of the cycle that the next response belongs to.
    pub(crate) awaited_spec: u16,
    /// Counts the connections that have used this slot.
    pub(crate) generation: u16,
    /// Requests that may still be sent on it.
    pub(crate) requests_left: u32,
    /// When connecting, the handshake or closing began, or when it was queued as free.
    pub(crate) since_ns: u64,
    /// Prepared bytes that the kernel has not accepted yet.
    pub(crate) unsent: usize,
    /// Where they end in the request cycle's bytes.
    pub(crate) unsent_end: usize,
    /// State of an incomplete response.
    pub(crate) reader: Option<Box<ResponseReader>>,
}

const _: () = assert!(size_of::<Connection>() <= 64);

/// When a request was due, and when it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestTimes {
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
}

impl Connection {
    /// A connection that starts with request `next_spec` of the cycle.
    pub(crate) fn new(target: u16, next_spec: u16) -> Self {
        Self {
            socket: None,
            target,
            state: ConnectionState::Closed,
            is_queued: false,
            timer: None,
            awaits_writable: false,
            has_sent: false,
            outstanding: 0,
            oldest: 0,
            next_spec,
            awaited_spec: next_spec,
            generation: 0,
            requests_left: u32::MAX,
            since_ns: 0,
            unsent: 0,
            unsent_end: 0,
            reader: None,
        }
    }

    /// The socket, if responses can come on it.
    #[inline]
    pub(crate) fn readable(&self) -> Option<&OwnedFd> {
        match self.state {
            ConnectionState::Open | ConnectionState::AwaitingClose => self.socket.as_ref(),
            ConnectionState::Closed
            | ConnectionState::Connecting
            | ConnectionState::Handshaking
            | ConnectionState::Upgrading => None,
        }
    }

    /// Whether another request may be sent, with up to `depth` in flight.
    #[inline]
    pub(crate) fn has_capacity(&self, depth: u16) -> bool {
        self.outstanding < depth && self.requests_left > 0
    }

    /// Whether a request can be sent now.
    #[inline]
    pub(crate) fn can_send(&self, depth: u16) -> bool {
        self.state == ConnectionState::Open && self.unsent == 0 && self.has_capacity(depth)
    }

    /// Identifies the connection: the index of its slot, and its generation.
    #[inline]
    pub(crate) fn id(&self, index: usize) -> u64 {
        index as u64 | u64::from(self.generation) << 32
    }

    /// Drops the socket and all state of its requests.
    pub(crate) fn reset(&mut self) {
        self.socket = None;
        self.generation = self.generation.wrapping_add(1);
        self.state = ConnectionState::Closed;
        self.awaits_writable = false;
        self.has_sent = false;
        self.outstanding = 0;
        self.awaited_spec = self.next_spec;
        self.unsent = 0;
        self.reader = None;
    }
}

/// A connection's index as it is stored in queues.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a plan with more connections is refused")]
pub(crate) fn compact_index(index: usize) -> u32 {
    index as u32
}
