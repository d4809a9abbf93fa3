//! The product-limit estimate of percentiles with right-censored samples (Kaplan and Meier, 1958).
//!
//! A request that was given up after 2 s says nothing about longer times, and counts until then.
//! The survival function at a time is the product, over all times up to it, of one minus the
//! fraction of requests still waited for that were answered then. If the longest waits are
//! censored, the percentiles beyond have no estimate. It assumes that giving up is independent of
//! the response: true of a window that closes, false of a server that has died.

use crate::engine::histogram::Histogram;

/// For each of `shares` (ascending), the shortest time by which that fraction of requests is
/// answered.
pub(crate) fn estimates(
    answered: &Histogram,
    waited: &Histogram,
    shares: &[f64],
) -> Vec<Option<u64>> {
    let mut estimates = vec![None; shares.len()];
    let mut next = 0;
    let mut survival = Survival::of(answered.count() + waited.count());
    let mut censored = waited.bins().peekable();
    for (value_ns, count) in answered.bins() {
        // A request censored in this bin was still waited for when the bin's responses came.
        while let Some((_, count)) = censored.next_if(|(waited_ns, _)| *waited_ns < value_ns) {
            survival.censor(count);
        }
        survival.observe(count);
        let answered_part = 1.0 - survival.fraction();
        while shares.get(next).is_some_and(|share| answered_part >= share - ROUNDING) {
            estimates[next] = Some(value_ns.min(answered.max_ns()));
            next += 1;
        }
    }
    estimates
}

/// Shares have five digits; the products' rounding errors are far smaller.
const ROUNDING: f64 = 1e-12;

/// The survival function. Without censoring it is a quotient of counts, so that nothing is rounded.
#[derive(Clone, Copy, Debug)]
struct Survival {
    /// Its value at the last censoring, and the requests at risk then.
    before: f64,
    at_risk_before: u64,
    at_risk: u64,
}

impl Survival {
    fn of(count: u64) -> Self {
        Self { before: 1.0, at_risk_before: count, at_risk: count }
    }

    fn fraction(&self) -> f64 {
        if self.at_risk == 0 {
            0.0
        } else {
            self.before * float(self.at_risk) / float(self.at_risk_before)
        }
    }

    fn observe(&mut self, count: u64) {
        self.at_risk -= count;
    }

    fn censor(&mut self, count: u64) {
        self.before = self.fraction();
        self.at_risk -= count;
        self.at_risk_before = self.at_risk;
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

    /// The reference: every request has the same weight, and a censored one distributes its weight
    /// equally over all that were waited for longer (Efron, 1967).
    fn redistributed(answered: &[u64], waited: &[u64]) -> Vec<(u64, f64)> {
        let mut all: Vec<(u64, bool)> = answered.iter().map(|&value| (value, false)).collect();
        all.extend(waited.iter().map(|&value| (value, true)));
        // A response at the same time comes first.
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
        // Answered at 1, 3, 3 and 6; censored at 2, 3 and 5: 6/7, then 3/5 of that, then zero.
        let found = estimates(&of(&[1, 3, 3, 6]), &of(&[2, 3, 5]), &[0.14, 0.4, 0.485, 0.486, 1.0]);
        assert_eq!(found, [Some(1), Some(3), Some(3), Some(6), Some(6)]);
    }

    #[test]
    fn there_is_no_estimate_beyond_the_last_censored_request() {
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
