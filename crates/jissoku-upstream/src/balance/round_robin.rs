//! In turn: each server collects its weight, the richest is chosen and pays the sum (nginx's smooth
//! weighted round robin). Of weights 5, 1, 1 the order is a a b a c a a.

use super::candidates::Candidates;
use crate::random::Random;

/// Turns that a new worker skips at most, so that workers do not begin with the same server.
const SKIPPED_MAX: u64 = 256;

/// What each server has collected.
#[derive(Debug, Clone)]
pub(super) struct Turns {
    collected: Vec<i64>,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Self { collected: Vec::new() }
    }

    pub(super) fn next(
        &mut self,
        candidates: Candidates<'_>,
        random: &mut Random,
    ) -> Option<usize> {
        let count = candidates.fleet.servers().len();
        if self.collected.len() != count {
            self.collected = vec![0; count];
            for _ in 0..random.below(candidates.fleet.total_weight().min(SKIPPED_MAX)) {
                self.turn(candidates);
            }
        }
        self.turn(candidates)
    }

    fn turn(&mut self, candidates: Candidates<'_>) -> Option<usize> {
        let mut best: Option<(usize, i64)> = None;
        let mut sum = 0;
        for candidate in candidates.iter() {
            let weight = i64::try_from(candidate.weight).unwrap_or(i64::MAX / 2);
            let collected = self.collected.get_mut(candidate.index)?;
            *collected = collected.saturating_add(weight);
            sum += weight;
            if best.is_none_or(|(_, most)| *collected > most) {
                best = Some((candidate.index, *collected));
            }
        }
        let (index, _) = best?;
        *self.collected.get_mut(index)? -= sum;
        Some(index)
    }
}
