//! Rendezvous hashing with bounded load.
//!
//! Each server has a score for each key, and the highest wins: without a table, a server that leaves
//! moves exactly its own keys, evenly to all others. Costs a hash per server; a ring or Maglev's
//! table would pay beyond some hundred servers. A server with more than 1.25 of its fair share in
//! flight passes the key on to the next score (Mirrokni, Thorup and Zadimoghaddam 2018), which
//! bounds what one popular key can do.

use super::candidates::{Candidate, Candidates};
use crate::random::mix;

pub(super) fn pick(candidates: Candidates<'_>) -> Option<usize> {
    let total: u64 = candidates.iter().map(|candidate| candidate.in_flight + 1).sum();
    let count = u64::try_from(candidates.iter().count()).unwrap_or(u64::MAX);
    let in_flight = total - count;
    let weights: u64 =
        candidates.iter().map(|candidate| u64::from(candidate.server.weight())).sum();
    // A server is within its bound if in_flight < ceil(1.25 * (all in flight + 1) * its share).
    let has_room = |candidate: &Candidate<'_>| {
        let bound = u128::from(in_flight + 1) * 5 * u128::from(candidate.server.weight());
        u128::from(candidate.in_flight) * 4 * u128::from(weights) < bound
    };
    let score = |candidate: &Candidate<'_>| {
        let hash = mix(candidates.selection.hash ^ candidate.server.hash);
        if candidates.fleet.has_equal_weights() {
            hash
        } else {
            weighted(hash, candidate.server.weight())
        }
    };
    // Other workers change the numbers meanwhile; if none seems to have room, the bound is void.
    let key =
        |candidate: &Candidate<'_>| (has_room(candidate), score(candidate), candidate.server.hash);
    candidates.iter().max_by_key(key).map(|candidate| candidate.index)
}

/// -weight / ln(hash / 2^64), as an integer of the same order: each server wins its weight's share.
#[expect(clippy::cast_precision_loss, reason = "53 bits of a hash are as random as 64")]
fn weighted(hash: u64, weight: u32) -> u64 {
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    // Positive floats are ordered as their bits are.
    (-f64::from(weight) / uniform.ln()).to_bits()
}
