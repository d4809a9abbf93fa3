//! The servers that a request can get now.

use crate::fleet::{Fleet, Server};
use crate::health::Admission;

/// What a choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection<'a> {
    /// Of the request, for `Balance::Hash`: `random::hash` of its key.
    pub hash: u64,
    /// Servers, by index, that this request must not get again.
    pub tried: &'a [usize],
    /// The present.
    pub now_ns: u64,
}

/// A server that can be chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) index: usize,
    pub(super) server: &'a Server,
    /// In thousandths of the configured unit; smaller after a return.
    pub(super) weight: u64,
    pub(super) in_flight: u64,
}

/// What a choice is made from: the servers of one admission that were not tried and are not full.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidates<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) selection: Selection<'a>,
    /// None is left: also ejected servers.
    pub(super) in_panic: bool,
}

impl<'a> Candidates<'a> {
    pub(super) fn iter(self) -> impl Iterator<Item = Candidate<'a>> {
        (0..self.fleet.servers().len()).filter_map(move |index| self.candidate(index))
    }

    pub(super) fn candidate(self, index: usize) -> Option<Candidate<'a>> {
        let server = self.fleet.servers().get(index)?;
        let is_admitted = match server.state().admission(self.selection.now_ns) {
            Admission::Serving | Admission::Trial => true,
            Admission::Ejected => self.in_panic,
            Admission::Never => false,
        };
        if !is_admitted || server.is_full() || self.selection.tried.contains(&index) {
            return None;
        }
        let permille = server.state().weight_permille(self.selection.now_ns, self.fleet.policy());
        Some(Candidate {
            index,
            server,
            weight: u64::from(server.weight()) * permille,
            in_flight: u64::from(server.state().in_flight()),
        })
    }
}
