//! What the oracle is to do.

use crate::delay::Delay;

/// Everything the oracle does is said here, and drawn from the seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How long each answer takes.
    pub delay: Delay,
    /// How many answers are worked on at once; `None` for any number.
    pub workers: Option<usize>,
    /// An answer's time begins when the answer before it on its connection is due.
    pub is_serial: bool,
    /// Spans in which nothing is answered.
    pub freezes: Vec<Freeze>,
    /// Answers per second while what a freeze has piled up is given out.
    pub drain_rps: u64,
    /// No two answers are due in the same slot of this length.
    pub apart_ns: u64,
    /// What goes wrong, each with its probability.
    pub faults: Vec<(Fault, f64)>,
    /// How a body's end is told.
    pub framing: Framing,
    /// Bytes of a body.
    pub body_size: usize,
    /// A body is written in so many pieces.
    pub pieces: usize,
    /// Time between the pieces.
    pub piece_gap_ns: u64,
    /// Connections are not accepted before so long after the start.
    pub accept_after_ns: u64,
    /// How many connections the kernel may hold for us.
    pub backlog: Option<u16>,
    /// Decides times and faults.
    pub seed: u64,
    /// How many requests can be written down; all memory for them is taken at the start.
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

/// A span in which nothing is answered, counted from the arrival of the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// When it begins.
    pub start_ns: u64,
    /// How long it is; `None`: it does not end.
    pub duration_ns: Option<u64>,
}

/// What can be wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is.
    None,
    /// Its status is 500.
    Status,
    /// The connection is reset in the middle of the body.
    Reset,
    /// The connection ends in good order in the middle of the body.
    Truncated,
    /// One byte of the body has one wrong bit.
    Flipped,
    /// The connection ends in good order, and no answer came.
    Dropped,
}

impl Fault {
    /// Its number in the written log.
    #[must_use]
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

/// How the end of a body is told (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length`.
    Length,
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// By the end of the connection.
    Close,
}
