//! When requests are sent: after the previous response (closed loop), or at times that were fixed
//! before the start, whatever the server does (open loop).

use crate::plan::trace::Trace;

/// How often requests are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each connection sends its next request after the response to the last one.
    Closed,
    /// A constant rate.
    Constant {
        /// Requests per second on each target.
        rate_rps: u64,
    },
    /// A rate that changes linearly over the window; before it, the first rate.
    Ramp {
        /// Requests per second on each target when the window opens.
        from_rps: u64,
        /// Requests per second on each target when it closes.
        to_rps: u64,
    },
    /// The times of a trace, on one target; the run ends with the trace.
    Trace(Trace),
}

/// The arrival process of the open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Evenly spaced; the requests of several targets alternate.
    Constant,
    /// Poisson arrivals: exponentially distributed gaps, as from many independent users.
    Poisson,
}

/// What happens to a due request while all connections are busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBusy {
    /// It waits for a connection; its latency counts from its due time.
    Queue,
    /// A further connection is opened, up to a limit.
    Open {
        /// Connections per target, over all workers.
        connections_max: usize,
    },
    /// It is dropped and counted as shed.
    Drop,
}

impl Pace {
    /// Whether this is the closed loop.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// Requests per second on each target when the window opens and when it closes; `None` without
    /// a rate.
    pub(crate) fn rates(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Closed | Self::Trace(_) => None,
            Self::Constant { rate_rps } => Some((rate_rps, rate_rps)),
            Self::Ramp { from_rps, to_rps } => Some((from_rps, to_rps)),
        }
    }

    /// The trace to replay.
    pub(crate) fn trace(&self) -> Option<&Trace> {
        match self {
            Self::Trace(trace) => Some(trace),
            Self::Closed | Self::Constant { .. } | Self::Ramp { .. } => None,
        }
    }
}
