//! What the percentiles would be if whoever waited in vain is like the others: the product-limit estimate
//! (Kaplan and Meier, 1958).
//!
//! A request that was given up after 2 s says nothing of what comes after 2 s, and counts until then. The
//! part of all requests that takes longer than some time is the product, over all times up to it, of the
//! parts that were not answered then of those that were still waited for. Where the longest waiting was in
//! vain, nobody knows the percentiles beyond, and there is no estimate of them. It rests on the giving up
//! having nothing to do with the answer: true of a window that closes, false of a server that has died.

use crate::histogram::Histogram;

/// For each of `shares` (ascending), the shortest time by which so large a part of all requests is answered.
pub(crate) fn estimates(
    answered: &Histogram,
    waited: &Histogram,
    shares: &[f64],
) -> Vec<Option<u64>> {
    let mut estimates = vec![None; shares.len()];
    let mut next = 0;
    let mut survival = Survival::of(answered.count() + waited.count());
    let mut gone = waited.bins().peekable();
    for (value_ns, count) in answered.bins() {
        // Who was given up in this bin was still waited for when its answers came.
        while let Some((_, count)) = gone.next_if(|(waited_ns, _)| *waited_ns < value_ns) {
            survival.lose(count);
        }
        survival.answer(count);
        let answered_part = 1.0 - survival.part();
        while shares.get(next).is_some_and(|share| answered_part >= share - ROUNDING) {
            estimates[next] = Some(value_ns.min(answered.max_ns()));
            next += 1;
        }
    }
    estimates
}

/// Shares are told in parts of 100,000, and products err by far less.
const ROUNDING: f64 = 1e-12;

/// The part of all requests that is not answered yet. While nobody is given up it is a quotient of counts,
/// so that there is nothing to round.
#[derive(Clone, Copy, Debug)]
struct Survival {
    /// What it was when somebody was given up last, and how many were left then.
    before: f64,
    left_before: u64,
    left: u64,
}

impl Survival {
    fn of(count: u64) -> Self {
        Self { before: 1.0, left_before: count, left: count }
    }

    fn part(&self) -> f64 {
        if self.left == 0 { 0.0 } else { self.before * float(self.left) / float(self.left_before) }
    }

    fn answer(&mut self, count: u64) {
        self.left -= count;
    }

    fn lose(&mut self, count: u64) {
        self.before = self.part();
        self.left -= count;
        self.left_before = self.left;
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHARES: [f64; 6] = [0.1, 0.5, 0.75, 0.9, 0.99, 1.0];

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for &value in values {
            histogram.record(value);
        }
        histogram
    }

    /// The part that is answered by each time, told plainly: everybody weighs the same, and who is given up
    /// leaves that weight in equal parts to all who are waited for longer (Efron, 1967).
    fn redistributed(answered: &[u64], waited: &[u64]) -> Vec<(u64, f64)> {
        let mut all: Vec<(u64, bool)> = answered.iter().map(|&value| (value, false)).collect();
        all.extend(waited.iter().map(|&value| (value, true)));
        // An answer at the same time comes first.
        all.sort_unstable();
        let mut weights = vec![1.0 / float(all.len() as u64); all.len()];
        let mut part = 0.0;
        let mut parts = Vec::new();
        for place in 0..all.len() {
            let (value, is_given_up) = all[place];
            if is_given_up {
                let heirs = float((all.len() - place - 1) as u64);
                let legacy = weights[place] / heirs;
                weights[place + 1..].iter_mut().for_each(|weight| *weight += legacy);
            } else {
                part += weights[place];
                parts.push((value, part));
            }
        }
        parts
    }

    #[test]
    fn a_textbook_case() {
        // Answered at 1, 3, 3 and 6; given up at 2, 3 and 5: 6/7, then 3/5 of that, then nothing.
        let found = estimates(&of(&[1, 3, 3, 6]), &of(&[2, 3, 5]), &[0.14, 0.4, 0.485, 0.486, 1.0]);
        assert_eq!(found, [Some(1), Some(3), Some(3), Some(6), Some(6)]);
    }

    #[test]
    fn nobody_knows_what_comes_after_the_last_giving_up() {
        let found = estimates(&of(&[1; 90]), &of(&[2_000; 10]), &[0.9, 0.91]);
        assert_eq!(found, [Some(1), None]);
        assert_eq!(estimates(&of(&[]), &of(&[1, 2]), &[0.5]), [None]);
        assert_eq!(estimates(&of(&[]), &of(&[]), &[0.5]), [None]);
    }

    proptest! {
        #[test]
        fn it_is_what_equal_parts_of_the_weights_come_to(
            answered in prop::collection::vec(0..60_u64, 0..80),
            waited in prop::collection::vec(0..60_u64, 0..80),
        ) {
            let parts = redistributed(&answered, &waited);
            let part_by = |value: Option<u64>, is_within: fn(&u64, &u64) -> bool| {
                let within = parts.iter().filter(|(time, _)| value.is_none_or(|value| is_within(time, &value)));
                within.map(|(_, part)| *part).fold(0.0, f64::max)
            };
            let found = estimates(&of(&answered), &of(&waited), &SHARES);
            for (share, estimate) in SHARES.iter().zip(found) {
                match estimate {
                    Some(_) => {
                        prop_assert!(part_by(estimate, u64::le) >= share - 1e-9);
                        prop_assert!(part_by(estimate, u64::lt) < share + 1e-9);
                    }
                    None => prop_assert!(part_by(None, u64::le) < share + 1e-9),
                }
            }
        }

        #[test]
        fn without_giving_up_it_is_the_plain_percentile(
            answered in prop::collection::vec(0..3_000_000_u64, 1..300),
        ) {
            let histogram = of(&answered);
            let found = estimates(&histogram, &Histogram::new(), &[0.5, 0.9, 0.99, 0.999]);
            let plain = [500, 900, 990, 999].map(|per_mille| Some(histogram.quantile(per_mille)));
            prop_assert_eq!(found, plain);
        }
    }
}
