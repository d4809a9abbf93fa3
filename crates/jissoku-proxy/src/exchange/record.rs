//! What the access log, the metrics and the response say of an exchange.

use jissoku_server::{Forwarded, ForwardedAnomalies, ForwardedOutcome, HedgeResult};

use super::{Ending, Exchange};
use crate::diagnostics;
use crate::policy::health::Outcome;

impl Exchange {
    /// It is beyond the rate of its route, which is a dry run.
    pub(crate) const fn record_rate(&mut self) {
        self.record.notes.add(ForwardedAnomalies::OVER_RATE);
    }

    /// Its response, although it may be complete, is a failure of its server, or not.
    pub(crate) const fn record_failure(&mut self, is_failure: bool) {
        self.record.is_failure |= is_failure;
    }

    /// What its end, which was `outcome` so far, says about its server. Asked once for each server.
    pub(crate) const fn server_outcome(&mut self, outcome: Outcome) -> Outcome {
        let is_failure = std::mem::replace(&mut self.record.is_failure, false);
        match outcome {
            Outcome::Success if is_failure => Outcome::Failure,
            other => other,
        }
    }

    /// The head of the response was written, whose server may have failed with it. Returns whether it
    /// was early.
    pub(crate) fn begin_response(&mut self, is_failure: bool, now_ns: u64) -> bool {
        self.record.phases.receive_head(now_ns);
        self.record.is_failure |= is_failure;
        self.record.notes.has(ForwardedAnomalies::EARLY)
    }

    /// Says in the head of the response, which was just written, how the request was forwarded, if its
    /// client gets diagnostics.
    pub(crate) fn add_diagnostics(&mut self, next_hop: &str, now_ns: u64) {
        if let Some(lines) = self.diagnostics(next_hop, None, now_ns) {
            self.output.add_fields(&lines);
        }
    }

    /// Header lines about how the request was forwarded, if its client gets diagnostics; `error` is the
    /// type of its failure.
    pub(super) fn diagnostics(
        &self,
        next_hop: &str,
        error: Option<&str>,
        now_ns: u64,
    ) -> Option<String> {
        let status = Some(self.output.status()).filter(|status| *status != 0);
        let phases = Some((&self.record.phases, now_ns));
        self.record.is_diagnosed.then(|| diagnostics::lines(next_hop, status, error, phases))
    }

    /// How long its last server has taken.
    pub(crate) const fn latency_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.record.phases.connecting_ns)
    }

    /// Whether that says something about the server. Errors are often faster than what they take the
    /// place of, and an upload is as fast as its client.
    pub(crate) const fn has_usable_latency(&self) -> bool {
        self.upload.is_none() && self.output.status() < 500
    }

    /// Whether it was to be forwarded: its client has sent enough of it.
    pub(crate) const fn has_begun(&self) -> bool {
        self.record.phases.begun_ns != 0
    }

    /// When it was to be forwarded.
    #[cfg(test)]
    pub(crate) const fn begun_ns(&self) -> u64 {
        self.record.phases.begun_ns
    }

    /// Why there is no complete response, by error type.
    pub(crate) const fn error(&self) -> Option<&'static str> {
        match self.ending {
            Some(Ending::Failed(_, error)) => Some(error),
            Some(Ending::Truncated) => self.record.error,
            Some(Ending::Complete) | None => None,
        }
    }

    /// What the access log says of it when it is over, but for where. `copy` is its second copy if none
    /// had a response: the client has left before.
    pub(crate) fn logged(
        &self,
        copy: Option<&Self>,
        error: Option<&'static str>,
        end_ns: u64,
    ) -> Forwarded<'_> {
        let connections = |exchange: &Self| exchange.assignment.connections;
        let outcome = ForwardedOutcome {
            status: self.output.status(),
            tries: connections(self) + copy.map_or(0, connections),
            is_reused: self.assignment.is_reused,
            phases_ns: self.record.phases.durations_ns(end_ns),
            hedge: self.hedge.or_else(|| copy.map(|_| HedgeResult::Lost)),
            notes: self.record.notes,
            error,
        };
        let response = self.record.malformed.as_deref().unwrap_or_default();
        Forwarded { response, outcome, ..Forwarded::default() }
    }
}
