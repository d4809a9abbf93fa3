//! Percentiles that say how well they are known.
//!
//! A request without an answer is not left out: it took at least as long as it was waited for. Counted
//! with that time it gives the least a percentile can be; counted as never answered, the most. Where the
//! two differ by more than chance, the percentile is told as a lower bound, and beside it what it is if
//! those requests are like the others (`product_limit.rs`). Then there is the interval that the number of
//! samples allows: a percentile p of n is between ranks np - 1.96 sqrt(np(1-p)) and np + 1.96 sqrt(np(1-p))
//! with 95 % confidence, whatever the distribution.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::product_limit;

/// Parts of a whole that percentiles are given in.
const WHOLE: u64 = 100_000;

/// The percentiles of a report, in parts of `WHOLE`.
const SHARES: [(&str, u64); 7] = [
    ("p50", 50_000),
    ("p75", 75_000),
    ("p90", 90_000),
    ("p95", 95_000),
    ("p99", 99_000),
    ("p99.9", 99_900),
    ("p99.99", 99_990),
];

/// With fewer samples above it, a percentile is not told at all.
const BEYOND_MIN: f64 = 10.0;

/// With fewer samples above it, a percentile is told with a warning.
const BEYOND_PLENTY: f64 = 100.0;

/// What one percentile is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// `p50` to `p99.99`.
    pub name: &'static str,
    /// The least it can be.
    pub value_ns: u64,
    /// Whether requests without an answer could make it larger.
    pub is_lower_bound: bool,
    /// What it is if requests without an answer are like the others; nobody knows, if without a value.
    pub estimate_ns: Option<u64>,
    /// Lower end of the interval that holds it with 95 % confidence.
    pub low_ns: u64,
    /// Upper end; without a value when requests without an answer leave it open.
    pub high_ns: Option<u64>,
    /// Whether there are samples enough to tell it.
    pub support: Support,
}

/// Whether a percentile has samples enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Support {
    /// At least 100 lie above it.
    Plenty,
    /// At least ten do.
    Few,
    /// So few that the figure says nothing.
    None,
}

/// The percentiles of what was answered, and of what was waited for in vain.
pub(crate) fn figures(answered: &Histogram, waited: &Histogram) -> Vec<Figure> {
    let mut least = answered.clone();
    least.add(waited);
    if least.count() == 0 {
        return Vec::new();
    }
    let shares = SHARES.map(|(_, share)| float(share) / float(WHOLE));
    let estimates = product_limit::estimates(answered, waited, &shares);
    let named = SHARES.iter().zip(estimates);
    named.map(|(share, estimate_ns)| figure(*share, estimate_ns, answered, &least)).collect()
}

fn figure(
    (name, share): (&'static str, u64),
    estimate_ns: Option<u64>,
    answered: &Histogram,
    least: &Histogram,
) -> Figure {
    let count = least.count();
    let rank = rank(count, share);
    let (mean, beyond) = (float(count) * float(share) / float(WHOLE), {
        float(count) * float(WHOLE - share) / float(WHOLE)
    });
    let reach = whole(1.96 * (mean * beyond / float(count)).sqrt());
    let most = |rank: u64| (rank <= answered.count()).then(|| answered.at_rank(rank));
    let value_ns = least.at_rank(rank);
    // Two neighbouring bins are the same answer, and so few that chance moves the rank further, as
    // those that happen to be on their way at the end, make no difference either.
    let are_few = least.count() - answered.count() <= reach;
    let same = |most: u64| are_few || most <= value_ns + value_ns / 500 + 1;
    Figure {
        name,
        value_ns,
        is_lower_bound: !most(rank).is_some_and(same),
        estimate_ns,
        low_ns: least.at_rank(rank.saturating_sub(reach).max(1)),
        high_ns: most((rank + reach).min(count)),
        support: match beyond {
            BEYOND_PLENTY.. => Support::Plenty,
            BEYOND_MIN..BEYOND_PLENTY => Support::Few,
            _ => Support::None,
        },
    }
}

fn rank(count: u64, share: u64) -> u64 {
    let rank = (u128::from(count) * u128::from(share)).div_ceil(u128::from(WHOLE));
    u64::try_from(rank).unwrap_or(count).max(1)
}

#[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a square root")]
fn whole(value: f64) -> u64 {
    value.ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = (u64, u64)>) -> Histogram {
        let mut histogram = Histogram::new();
        for (value, count) in values {
            histogram.record_many(value, count);
        }
        histogram
    }

    fn named(figures: &[Figure], name: &str) -> Figure {
        *figures.iter().find(|figure| figure.name == name).expect("it is among them")
    }

    #[test]
    fn a_stall_to_the_end_leaves_lower_bounds() {
        // 20,000 answers of 1 ms, then 10,000 requests that waited from 1 ms to 10 s in vain.
        let answered = of([(1_000_000, 20_000)]);
        let waited = of((1..=10_000).map(|place| (place * 1_000_000, 1)));
        let figures = figures(&answered, &waited);
        let close = |name, wanted_ns: u64| {
            let figure = named(&figures, name);
            assert!(figure.value_ns.abs_diff(wanted_ns) <= wanted_ns / 500, "{figure:?}");
            figure
        };
        assert!(!close("p50", 1_000_000).is_lower_bound);
        assert!(close("p75", 2_500_000_000).is_lower_bound);
        assert!(close("p99", 9_700_000_000).is_lower_bound);
        assert!(close("p99.9", 9_970_000_000).is_lower_bound);
        assert_eq!(close("p99", 9_700_000_000).high_ns, None);
        // One in three was answered, and of the others nobody can tell.
        assert_eq!(named(&figures, "p75").estimate_ns, None);
    }

    #[test]
    fn who_was_given_up_early_is_taken_to_be_like_the_others() {
        // Half of all are given up after 1 ms; of the others nine in ten take 2 ms and one takes 4 ms.
        let answered = of([(2_000_000, 90_000), (4_000_000, 10_000)]);
        let figures = figures(&answered, &of([(1_000_000, 100_000)]));
        let half = named(&figures, "p50");
        assert!(half.is_lower_bound && half.value_ns < 1_010_000, "{half:?}");
        let estimate = |name| named(&figures, name).estimate_ns.map(|ns| ns.div_ceil(10_000) / 100);
        assert_eq!(
            [estimate("p50"), estimate("p90"), estimate("p95")],
            [Some(2), Some(2), Some(4)]
        );
    }

    #[test]
    fn what_is_merely_under_way_at_the_end_changes_nothing() {
        let answered = of([(10_000_000, 100_000)]);
        let figures = figures(&answered, &of((0..64).map(|age| (age * 100_000, 1))));
        for name in ["p50", "p90", "p99"] {
            assert!(!named(&figures, name).is_lower_bound, "{name}");
        }
    }

    #[test]
    fn one_time_out_in_a_thousand_is_seen_where_it_matters() {
        let answered = of([(1_000_000, 90_000), (2_000_000, 9_900)]);
        let figures = figures(&answered, &of([(2_000_000_000, 100)]));
        assert!(!named(&figures, "p99").is_lower_bound);
        assert!(named(&figures, "p99.99").is_lower_bound);
        assert_eq!(named(&figures, "p99.9").high_ns, None);
    }

    #[test]
    fn the_interval_spans_the_ranks_that_chance_allows() {
        let figures = figures(&of((1..=1000).map(|value| (value, 1))), &Histogram::new());
        let half = named(&figures, "p50");
        assert_eq!((half.value_ns, half.low_ns, half.high_ns), (500, 469, Some(531)));
        assert_eq!(half.support, Support::Plenty);
        assert_eq!(named(&figures, "p99").support, Support::Few);
        assert_eq!(named(&figures, "p99.9").support, Support::None);
    }

    #[test]
    fn nothing_has_no_percentiles() {
        assert_eq!(figures(&Histogram::new(), &Histogram::new()), Vec::new());
    }
}
