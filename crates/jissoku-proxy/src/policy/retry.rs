//! May a failed request be sent again, where, and when.
//!
//! A proxy must not repeat what may have had an effect (RFC 9110 section 9.2.2, RFC 9112 section
//! 9.3.1). What may be repeated is limited by a budget, since retries multiply the load of servers
//! that already fail.

mod budget;
mod hedge;

use crate::policy::random::Random;

pub use budget::{Budget, BudgetPolicy};
pub use hedge::{HedgeAfter, HedgeDelay};

/// The wait before a second retry; doubled for each that follows.
const BACKOFF_NS: u64 = 25_000_000;

/// Doublings at most: 25 ms to 1.6 s.
const DOUBLINGS_MAX: u32 = 6;

/// What a route permits.
#[expect(clippy::struct_excessive_bools, reason = "causes that are independent of each other")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all. Failed connects are not counted: they end with the servers.
    pub tries_max: u32,
    /// After failed connects.
    pub on_connect: bool,
    /// After connections that ended before the response.
    pub on_reset: bool,
    /// After responses that are late, with a time for each try.
    pub on_timeout: bool,
    /// After responses with a status for which the upstream asks to retry.
    pub on_status: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { tries_max: 2, on_connect: true, on_reset: true, on_timeout: false, on_status: true }
    }
}

/// How a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No connection: refused, timed out, or the server's backlog is full. Nothing was sent.
    Connect,
    /// A kept connection ended before the first byte of the response: its server closed it as idle
    /// while the request was on its way (RFC 9112 section 9.3.1).
    ClosingRace,
    /// A new connection ended before the first byte of the response.
    Reset,
    /// No response within the time for a try.
    Timeout,
    /// A response with a status for which the upstream asks to retry.
    Status,
}

/// How far a try has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Attempt {
    /// Whether its connection had served another request before.
    pub is_reused: bool,
    /// What was received of its response.
    pub received: Received,
    /// Whether the whole request is still there, and repeating it has no further effect (RFC 9110
    /// section 9.2.2).
    pub is_repeatable: bool,
    /// Whether the client has received a byte of a response, if only of an interim one.
    pub has_relayed: bool,
    /// Tries before this one that count.
    pub tries: u32,
    /// Whether a reused connection has already been replaced for this request.
    pub was_replaced: bool,
    /// The time that the request has left.
    pub left_ns: u64,
}

/// What was received of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// No byte.
    Nothing,
    /// Less than the head of the final response.
    Part,
    /// Its head, which was passed on.
    Head,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Once more on a new connection, the same server included. Neither counted nor budgeted.
    Fresh,
    /// At another server, after a wait.
    Other {
        /// In nanoseconds; 0 for the first.
        after_ns: u64,
    },
    /// The failure is the answer.
    No,
}

impl RetryPolicy {
    /// One try; only a reused connection that was closed is replaced.
    pub const NONE: Self = Self {
        tries_max: 1,
        on_connect: false,
        on_reset: false,
        on_timeout: false,
        on_status: false,
    };

    /// Decides about one try that ended with `cause`, and spends the budget if it is repeated.
    pub fn decide(
        self,
        cause: Cause,
        attempt: &Attempt,
        budget: &Budget,
        now_ns: u64,
        random: &mut Random,
    ) -> Retry {
        if !self.permits(cause, attempt) {
            return Retry::No;
        }
        if cause == Cause::ClosingRace {
            return Retry::Fresh;
        }
        let after_ns = match attempt.tries {
            0 => 0,
            tries => random.below(BACKOFF_NS << tries.min(DOUBLINGS_MAX)),
        };
        if after_ns < attempt.left_ns && budget.try_spend(now_ns) {
            Retry::Other { after_ns }
        } else {
            Retry::No
        }
    }

    /// Whether it may be repeated, if there is time and a budget for that.
    fn permits(self, cause: Cause, attempt: &Attempt) -> bool {
        let is_wanted = match cause {
            Cause::Connect => self.on_connect,
            Cause::ClosingRace => !attempt.was_replaced,
            Cause::Reset => self.on_reset,
            Cause::Timeout => self.on_timeout,
            Cause::Status => self.on_status,
        };
        let was_sent = cause != Cause::Connect;
        let is_counted = was_sent && cause != Cause::ClosingRace;
        // Before a connection there is nothing that could be gone or have had an effect.
        let is_harmless = !was_sent || attempt.is_repeatable;
        let has_tries = !is_counted || attempt.tries + 1 < self.tries_max;
        !attempt.has_relayed && is_harmless && is_wanted && has_tries
    }
}

#[cfg(test)]
mod tests;
