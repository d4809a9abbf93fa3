//! The fewest requests in flight per weight.

use std::cmp::Ordering;

use super::candidates::{Candidate, Candidates};
use crate::random::Random;

/// Up to this many servers all are compared.
pub(super) const SCAN_MAX: usize = 16;

/// Draws before a scan replaces them, when few of many servers can be chosen.
const DRAWS_MAX: usize = 8;

/// Compares all; of equal ones a random one, so that workers do not choose the same.
pub(super) fn scan(
    candidates: Candidates<'_>,
    random: &mut Random,
    compare: impl Fn(&Candidate<'_>, &Candidate<'_>) -> Ordering,
) -> Option<usize> {
    let mut best: Option<Candidate<'_>> = None;
    let mut equal = 1;
    for candidate in candidates.iter() {
        let order = best.map_or(Ordering::Less, |best| compare(&candidate, &best));
        equal = match order {
            Ordering::Less => 1,
            Ordering::Equal => equal + 1,
            Ordering::Greater => equal,
        };
        if order == Ordering::Less || (order == Ordering::Equal && random.below(equal) == 0) {
            best = Some(candidate);
        }
    }
    best.map(|best| best.index)
}

/// The better of two different servers that are drawn by their weights.
pub(super) fn two_choices(
    candidates: Candidates<'_>,
    random: &mut Random,
    compare: impl Fn(&Candidate<'_>, &Candidate<'_>) -> Ordering,
) -> Option<usize> {
    let mut first: Option<Candidate<'_>> = None;
    for _ in 0..DRAWS_MAX {
        let except = first.map(|first| first.index);
        let Some(drawn) = candidates.fleet.draw(except, random) else { break };
        let Some(candidate) = candidates.candidate(drawn) else { continue };
        match first {
            None => first = Some(candidate),
            Some(other) => {
                let better = if compare(&candidate, &other).is_lt() { candidate } else { other };
                return Some(better.index);
            }
        }
    }
    // One server alone has nothing to be better than.
    scan(candidates, random, compare)
}

/// By requests per weight, with the one that is to come.
pub(super) fn compare(one: &Candidate<'_>, other: &Candidate<'_>) -> Ordering {
    let ours = u128::from(one.in_flight + 1) * u128::from(other.weight);
    ours.cmp(&(u128::from(other.in_flight + 1) * u128::from(one.weight)))
}
