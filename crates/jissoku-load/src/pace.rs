//! When is a request to be sent? In the closed loop when the last one was answered; in the open loop at
//! a time that was fixed before anything was sent, whatever the server does.

use crate::trace::Trace;

/// How often requests are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each connection asks again as soon as it was answered.
    Closed,
    /// So many requests per second and lane.
    Constant {
        /// Requests per second on each lane.
        rate_rps: u64,
    },
    /// A rate that grows or shrinks evenly while the window is open; before it is as in its beginning.
    Ramp {
        /// Requests per second on each lane when the window opens.
        from_rps: u64,
        /// Requests per second on each lane when it closes.
        to_rps: u64,
    },
    /// Whenever a trace says so, on one lane; the end of the trace is the end.
    Trace(Trace),
}

/// How the requests of the open loop lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Evenly spaced; in a duet both lanes take turns.
    Constant,
    /// As from very many users who know nothing of each other: the gaps are exponentially distributed.
    Poisson,
}

/// What becomes of a due request while every connection is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBusy {
    /// It waits for the first connection that is free; its latency counts from its due time.
    Queue,
    /// Another connection is opened, up to so many on each lane.
    Open {
        /// Connections of each lane, over all threads.
        connections_max: usize,
    },
    /// It is given up, and counted as such.
    Drop,
}

impl Pace {
    /// Whether it is the closed loop's.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Requests per second on each lane when the window opens and when it closes; none where nobody asked
    /// for a rate.
    pub(crate) fn rates(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Closed | Self::Trace(_) => None,
            Self::Constant { rate_rps } => Some((rate_rps, rate_rps)),
            Self::Ramp { from_rps, to_rps } => Some((from_rps, to_rps)),
        }
    }

    /// The trace that is replayed.
    pub(crate) fn trace(&self) -> Option<&Trace> {
        match self {
            Self::Trace(trace) => Some(trace),
            Self::Closed | Self::Constant { .. } | Self::Ramp { .. } => None,
        }
    }
}
