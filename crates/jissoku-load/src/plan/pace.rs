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
        /// The rate on each target.
        rate: Rate,
    },
    /// A rate that changes linearly over the window; before it, the first rate.
    Ramp {
        /// The rate on each target when the window opens.
        from: Rate,
        /// The rate on each target when it closes.
        to: Rate,
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

/// Requests per time, as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// This many requests,
    pub(crate) requests: u64,
    /// in this time.
    pub(crate) period_ns: u64,
}

impl Rate {
    /// `requests` requests in each `period_ns`.
    pub const fn new(requests: u64, period_ns: u64) -> Self {
        let (mut divisor, mut rest) = (requests, period_ns);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        let divisor = if divisor == 0 { 1 } else { divisor };
        Self { requests: requests / divisor, period_ns: period_ns / divisor }
    }

    /// A whole number of requests per second.
    pub const fn per_second(requests: u64) -> Self {
        Self::new(requests, 1_000_000_000)
    }

    /// Requests per second; exactly, if that is a whole number.
    #[expect(clippy::cast_precision_loss, reason = "rates are used to a few digits")]
    pub fn rps(self) -> f64 {
        self.requests as f64 * (1e9 / self.period_ns as f64)
    }

    /// The time of `count` parts of requests, with `parts` to a request; `u64::MAX` at most. In
    /// integers, so that it never drifts.
    pub(crate) fn time_ns(self, count: u64, parts: u64) -> u64 {
        let requests = u128::from(self.requests.max(1)) * u128::from(parts);
        let time_ns = u128::from(count) * u128::from(self.period_ns) / requests;
        u64::try_from(time_ns).unwrap_or(u64::MAX)
    }
}

impl Pace {
    /// A constant number of requests per second on each target.
    pub const fn constant(rate_rps: u64) -> Self {
        Self::Constant { rate: Rate::per_second(rate_rps) }
    }

    /// Whether this is the closed loop.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }

    /// The rates on each target when the window opens and when it closes, if there are any.
    pub(crate) fn rates(&self) -> Option<(Rate, Rate)> {
        match *self {
            Self::Closed | Self::Trace(_) => None,
            Self::Constant { rate } => Some((rate, rate)),
            Self::Ramp { from, to } => Some((from, to)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rates_are_exact() {
        for rate_rps in [1, 3, 7, 999, 1_000, 49_999, 123_457, 999_999_999, 1_000_000_000_u32] {
            let found = Rate::per_second(u64::from(rate_rps)).rps();
            assert_eq!(found.to_bits(), f64::from(rate_rps).to_bits(), "{found}");
        }
        assert_eq!(Rate::new(30, 60_000_000_000), Rate::new(1, 2_000_000_000));
    }
}
