//! The least latency for the requests in flight: what one more would take, if they wait for each other.

use std::cmp::Ordering;

use super::candidates::{Candidate, Candidates};
use super::least;
use crate::random::Random;

/// Of a server of which nothing is known, but that its requests have no responses yet.
const UNKNOWN: f64 = 1e18;

/// The better of two random servers. With the best of all, every worker would choose the same until
/// its latency has changed.
pub(super) fn pick(candidates: Candidates<'_>, random: &mut Random) -> Option<usize> {
    let now_ns = candidates.selection.now_ns;
    least::two_choices(candidates, random, |one, other| compare(one, other, now_ns))
}

fn compare(one: &Candidate<'_>, other: &Candidate<'_>, now_ns: u64) -> Ordering {
    load(one, now_ns).total_cmp(&load(other, now_ns))
}

/// The latency times the requests in flight with the one that is to come, per weight. A server of
/// which nothing is known gets one request, and others when that has its response.
#[expect(clippy::cast_precision_loss, reason = "a comparison of latencies needs few digits")]
fn load(candidate: &Candidate<'_>, now_ns: u64) -> f64 {
    let latency = match candidate.server.state().latency_ns(now_ns) {
        Some(ns) => f64::from(ns),
        None if candidate.in_flight == 0 => 0.0,
        None => UNKNOWN,
    };
    latency * (candidate.in_flight + 1) as f64 / candidate.weight.max(1) as f64
}
