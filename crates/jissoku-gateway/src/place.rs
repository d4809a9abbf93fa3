//! Where a request is forwarded to, and where it was tried before.

use std::sync::Arc;

use jissoku_os::socket::Endpoint;
use jissoku_server::ForwardedNotes;
use jissoku_upstream::fleet::Lease;
use jissoku_upstream::retry::RetryPolicy;

use crate::config::Forwarding;
use crate::phases::Phases;

/// A request's place at a server.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) forwarding: Forwarding,
    /// Counts the request at its server.
    pub(crate) lease: Option<Lease>,
    /// The address of that server.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    /// Of the servers that `tried` refers to.
    pub(crate) version: u64,
    /// Indices of servers that have failed.
    pub(crate) tried: Vec<usize>,
    /// Tries that count: those that were sent.
    pub(crate) tries: u32,
    /// Whether a reused connection was replaced by a new one.
    pub(crate) was_replaced: bool,
    /// When the head of the response has to be there.
    pub(crate) until_ns: u64,
    /// When the response of which it is a part has to be there.
    pub(crate) whole_until_ns: u64,
    /// Of the request's key, for a choice by hash.
    pub(crate) hash: u64,
    pub(crate) wait: Wait,
    /// Connections that it was tried on.
    pub(crate) connections: u32,
    /// For the access log.
    pub(crate) phases: Phases,
    /// Why its response is incomplete, by error type.
    pub(crate) error: Option<&'static str>,
    /// The last failure that was followed by another try: the status for it and its error type.
    pub(crate) failure: Option<(u16, &'static str)>,
    /// Whether the response says how the request was forwarded.
    pub(crate) is_diagnosed: bool,
    /// Whether the response, although complete, is a failure of its server.
    pub(crate) is_failure: bool,
    /// What else was unusual, for the access log.
    pub(crate) notes: ForwardedNotes,
    /// The start of a response that is malformed, for the access log.
    pub(crate) malformed: Option<Box<[u8]>>,
}

/// How much of a malformed response is logged.
const MALFORMED_SIZE_MAX: usize = 200;

/// Whether a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    /// For its turn.
    Queue,
    /// Until it is sent again.
    Retry(u64),
}

impl Place {
    /// When the head of a response to a request that is sent now has to be there.
    pub(crate) fn head_deadline_ns(&self, now_ns: u64) -> u64 {
        let try_ns = self.forwarding.try_ns.unwrap_or(u64::MAX);
        self.until_ns.min(now_ns.saturating_add(try_ns))
    }

    /// The time that is left, in milliseconds.
    pub(crate) fn left_ms(&self, now_ns: u64) -> u64 {
        self.until_ns.min(self.whole_until_ns).saturating_sub(now_ns) / 1_000_000
    }

    /// The head of the response, which begins with `bytes`, is malformed.
    #[cold]
    pub(crate) fn keep_malformed(&mut self, bytes: &[u8]) {
        self.malformed = Some(bytes[..bytes.len().min(MALFORMED_SIZE_MAX)].into());
    }

    /// Its server has failed: it waits until `at_ns`, and is then sent to another.
    pub(crate) fn retry_at(&mut self, at_ns: u64) {
        self.tried.extend(self.lease.as_ref().map(Lease::index));
        self.was_replaced = false;
        self.wait = Wait::Retry(at_ns);
        self.phases.wait();
    }

    /// Of a second copy of the request, which has the same time, and gets another server.
    pub(crate) fn for_copy(&self) -> Self {
        let forwarding = Forwarding { hedge: None, retry: RetryPolicy::NONE, ..self.forwarding };
        let mut tried = self.tried.clone();
        tried.extend(self.lease.as_ref().map(Lease::index));
        let phases = Phases { begun_ns: self.phases.begun_ns, ..Phases::default() };
        Self {
            tried,
            version: self.version,
            until_ns: self.until_ns,
            whole_until_ns: self.whole_until_ns,
            notes: self.notes,
            phases,
            is_diagnosed: self.is_diagnosed,
            ..Self::new(forwarding, self.hash)
        }
    }

    pub(crate) const fn new(forwarding: Forwarding, hash: u64) -> Self {
        Self {
            forwarding,
            lease: None,
            endpoint: None,
            version: 0,
            tried: Vec::new(),
            tries: 0,
            was_replaced: false,
            until_ns: 0,
            whole_until_ns: u64::MAX,
            hash,
            wait: Wait::No,
            connections: 0,
            phases: Phases { begun_ns: 0, connecting_ns: 0, sent_ns: 0, head_ns: 0 },
            error: None,
            failure: None,
            is_diagnosed: false,
            is_failure: false,
            notes: ForwardedNotes::NONE,
            malformed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_a_head_includes_what_came_before() {
        for (try_ns, now_ns, deadline_ns) in
            [(None, 10, 100), (None, 90, 100), (Some(20), 10, 30), (Some(20), 90, 100)]
        {
            let mut place = Place::new(Forwarding { try_ns, ..Forwarding::new(0, 100) }, 0);
            place.until_ns = 100;
            assert_eq!(place.head_deadline_ns(now_ns), deadline_ns, "{try_ns:?} {now_ns}");
        }
    }
}
