//! The configuration of the oracle.

use crate::oracle::delay::Delay;

/// The behaviour of the oracle, including its random seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The distribution of delays.
    pub delay: Delay,
    /// Responses that are worked on at the same time; `None` for any number.
    pub workers: Option<usize>,
    /// Whether work on a request starts when the previous response on its connection is due.
    pub is_serial: bool,
    /// Intervals without responses.
    pub freezes: Vec<Freeze>,
    /// Responses per second after a freeze, until its backlog is sent.
    pub drain_rps: u64,
    /// Length of a departure slot, in nanoseconds: no two responses are due in the same one.
    pub apart_ns: u64,
    /// The injected faults, with their probabilities.
    pub faults: Vec<(InjectedFault, f64)>,
    /// The framing of bodies.
    pub framing: Framing,
    /// Size of a body, in bytes.
    pub body_size: usize,
    /// Number of pieces in which a body is sent.
    pub pieces: usize,
    /// Time between the pieces, in nanoseconds.
    pub piece_gap_ns: u64,
    /// Connections are not accepted before this time after the start, in nanoseconds.
    pub accept_after_ns: u64,
    /// The backlog of `listen(2)`; `None` for the default.
    pub backlog: Option<u16>,
    /// The seed of delays and faults.
    pub seed: u64,
    /// Capacity of the log; its memory is allocated at the start.
    pub entries: usize,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            delay: Delay::Constant(0),
            workers: None,
            is_serial: false,
            freezes: Vec::new(),
            drain_rps: 100_000,
            apart_ns: 10_000,
            faults: Vec::new(),
            framing: Framing::Length,
            body_size: 13,
            pieces: 1,
            piece_gap_ns: 0,
            accept_after_ns: 0,
            backlog: None,
            seed: 1,
            entries: 1 << 21,
        }
    }
}

/// An interval without responses, counted from the arrival of the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// Its start.
    pub start_ns: u64,
    /// Its length; `None` if it does not end.
    pub duration_ns: Option<u64>,
}

/// A fault of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// None.
    None,
    /// The status is 500.
    Status,
    /// The connection is reset in the middle of the body.
    Reset,
    /// The connection is closed in the middle of the body.
    Truncated,
    /// One bit of the body is flipped.
    Flipped,
    /// The connection is closed without a response.
    Dropped,
}

impl InjectedFault {
    /// Its number in the log.
    pub fn code(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Status => 1,
            Self::Reset => 2,
            Self::Truncated => 3,
            Self::Flipped => 4,
            Self::Dropped => 5,
        }
    }

    /// Whether the connection ends with it.
    pub(crate) fn ends_connection(self) -> bool {
        matches!(self, Self::Reset | Self::Truncated | Self::Dropped)
    }
}

/// The framing of bodies (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length`.
    Length,
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The end of the connection.
    Close,
}
