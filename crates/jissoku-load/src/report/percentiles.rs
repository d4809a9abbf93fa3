//! Percentiles with confidence intervals, and lower bounds where requests have no response.
//!
//! A request without a response is right-censored: it took at least as long as it was waited for.
//! Counted with that time it gives the smallest value a percentile can have; counted as infinite,
//! the largest. Where the two differ by more than chance, the percentile is reported as a lower
//! bound, together with its Kaplan-Meier estimate (`kaplan_meier.rs`). The confidence interval is
//! the nonparametric one: percentile p of n samples lies between the ranks np - 1.96 sqrt(np(1-p))
//! and np + 1.96 sqrt(np(1-p)) with 95 % confidence, whatever the distribution.

use serde::Serialize;

use crate::engine::histogram::Histogram;
use crate::report::kaplan_meier;

/// Denominator of the shares below.
const WHOLE: u64 = 100_000;

/// The reported percentiles, in parts of `WHOLE`.
const SHARES: [(&str, u64); 7] = [
    ("p50", 50_000),
    ("p75", 75_000),
    ("p90", 90_000),
    ("p95", 95_000),
    ("p99", 99_000),
    ("p99.9", 99_900),
    ("p99.99", 99_990),
];

/// With fewer samples above it, a percentile is not reported.
const BEYOND_MIN: f64 = 10.0;

/// With fewer samples above it, a percentile is reported with a warning.
const BEYOND_PLENTY: f64 = 100.0;

/// One percentile of a latency distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// `p50` to `p99.99`.
    pub name: &'static str,
    /// Its value; a lower bound if `is_lower_bound`.
    pub value_ns: u64,
    /// Whether requests without a correct response could make it larger.
    pub is_lower_bound: bool,
    /// Its value if these requests took for ever; `None`: there is no limit.
    pub value_ns_max: Option<u64>,
    /// The Kaplan-Meier estimate; `None` where the data do not determine one.
    pub estimate_ns: Option<u64>,
    /// Lower end of the 95 % confidence interval.
    pub low_ns: u64,
    /// Upper end; `None` if requests without a response leave it open.
    pub high_ns: Option<u64>,
    /// Whether there are enough samples.
    pub support: Support,
}

/// Whether a percentile has enough samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Support {
    /// At least 100 samples lie above it.
    Plenty,
    /// At least ten samples lie above it.
    Few,
    /// Fewer; the value is meaningless.
    None,
}

/// The percentiles of the latencies of responses (`answered`) and of censored requests (`waited`).
pub(crate) fn percentiles(answered: &Histogram, waited: &Histogram) -> Vec<Percentile> {
    let mut least = answered.clone();
    least.add(waited);
    if least.count() == 0 {
        return Vec::new();
    }
    let shares = SHARES.map(|(_, share)| float(share) / float(WHOLE));
    let estimates = kaplan_meier::estimates(answered, waited, &shares);
    let named = SHARES.iter().zip(estimates);
    named.map(|(share, estimate_ns)| percentile(*share, estimate_ns, answered, &least)).collect()
}

/// The mean of a latency distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mean {
    /// Its value; a lower bound if `is_lower_bound`.
    pub value_ns: u64,
    /// Whether requests without a correct response make it larger.
    pub is_lower_bound: bool,
}

impl Mean {
    /// The mean of the latencies of responses and of censored requests. It is a lower bound if a
    /// request has failed, and if more of them are censored than the percentiles allow.
    pub(crate) fn of(
        answered: &Histogram,
        waited: &Histogram,
        percentiles: &[Percentile],
        failed: u64,
    ) -> Option<Self> {
        let count = answered.count() + waited.count();
        let sum_ns = u128::from(answered.sum_ns()) + u128::from(waited.sum_ns());
        let value_ns = u64::try_from(sum_ns.checked_div(u128::from(count))?).unwrap_or(u64::MAX);
        let mut usual = percentiles.iter().filter(|found| !found.name.starts_with("p99."));
        let is_lower_bound = failed > 0 || usual.any(|found| found.is_lower_bound);
        Some(Self { value_ns, is_lower_bound })
    }
}

fn percentile(
    (name, share): (&'static str, u64),
    estimate_ns: Option<u64>,
    answered: &Histogram,
    least: &Histogram,
) -> Percentile {
    let count = least.count();
    let rank = rank(count, share);
    let (mean, beyond) = (float(count) * float(share) / float(WHOLE), {
        float(count) * float(WHOLE - share) / float(WHOLE)
    });
    let reach = whole(1.96 * (mean * beyond / float(count)).sqrt());
    let most = |rank: u64| (rank <= answered.count()).then(|| answered.at_rank(rank));
    let value_ns = least.at_rank(rank);
    // Values in neighbouring bins count as equal. So few censored requests that chance moves the
    // rank further (those that happen to be in flight at the end) make no difference either.
    let are_few = least.count() - answered.count() <= reach;
    let same = |most: u64| are_few || most <= value_ns + value_ns / 500 + 1;
    Percentile {
        name,
        value_ns,
        is_lower_bound: !most(rank).is_some_and(same),
        value_ns_max: most(rank),
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

    fn named(percentiles: &[Percentile], name: &str) -> Percentile {
        *percentiles.iter().find(|percentile| percentile.name == name).expect("it is among them")
    }

    #[test]
    fn a_stall_to_the_end_leaves_lower_bounds() {
        // 20,000 responses after 1 ms, then 10,000 requests censored after 1 ms to 10 s.
        let answered = of([(1_000_000, 20_000)]);
        let waited = of((1..=10_000).map(|place| (place * 1_000_000, 1)));
        let percentiles = percentiles(&answered, &waited);
        let close = |name, wanted_ns: u64| {
            let percentile = named(&percentiles, name);
            assert!(percentile.value_ns.abs_diff(wanted_ns) <= wanted_ns / 500, "{percentile:?}");
            percentile
        };
        assert!(!close("p50", 1_000_000).is_lower_bound);
        assert!(close("p75", 2_500_000_000).is_lower_bound);
        assert!(close("p99", 9_700_000_000).is_lower_bound);
        assert!(close("p99.9", 9_970_000_000).is_lower_bound);
        assert_eq!(close("p99", 9_700_000_000).high_ns, None);
        // Two thirds have a response; nothing is known about the rest.
        assert_eq!(named(&percentiles, "p75").estimate_ns, None);
    }

    #[test]
    fn the_mean_has_all_requests_and_is_a_bound_if_one_has_failed() {
        let (answered, waited) = (of([(1_000, 96)]), of([(1_000_000, 4)]));
        let mean = |waited: &Histogram, failed| {
            Mean::of(&answered, waited, &percentiles(&answered, waited), failed)
        };
        let bound = mean(&waited, 4).expect("there are requests");
        assert!(bound.is_lower_bound && bound.value_ns.abs_diff(40_960) < 100, "{bound:?}");
        let exact = Mean { value_ns: 1_000, is_lower_bound: false };
        assert_eq!(mean(&Histogram::new(), 0), Some(exact));
        assert_eq!(Mean::of(&Histogram::new(), &Histogram::new(), &[], 0), None);
    }

    #[test]
    fn early_censored_requests_are_estimated_like_the_others() {
        // Half of all are censored after 1 ms; of the others nine in ten take 2 ms and one takes 4
        // ms.
        let answered = of([(2_000_000, 90_000), (4_000_000, 10_000)]);
        let percentiles = percentiles(&answered, &of([(1_000_000, 100_000)]));
        let half = named(&percentiles, "p50");
        assert!(half.is_lower_bound && half.value_ns < 1_010_000, "{half:?}");
        let estimate =
            |name| named(&percentiles, name).estimate_ns.map(|ns| ns.div_ceil(10_000) / 100);
        assert_eq!(
            [estimate("p50"), estimate("p90"), estimate("p95")],
            [Some(2), Some(2), Some(4)]
        );
    }

    #[test]
    fn requests_in_flight_at_the_end_change_nothing() {
        let answered = of([(10_000_000, 100_000)]);
        let percentiles = percentiles(&answered, &of((0..64).map(|age| (age * 100_000, 1))));
        for name in ["p50", "p90", "p99"] {
            assert!(!named(&percentiles, name).is_lower_bound, "{name}");
        }
    }

    #[test]
    fn one_time_out_in_a_thousand_is_seen_where_it_matters() {
        let answered = of([(1_000_000, 90_000), (2_000_000, 9_900)]);
        let percentiles = percentiles(&answered, &of([(2_000_000_000, 100)]));
        assert!(!named(&percentiles, "p99").is_lower_bound);
        assert!(named(&percentiles, "p99.99").is_lower_bound);
        assert_eq!(named(&percentiles, "p99.9").high_ns, None);
    }

    #[test]
    fn the_interval_spans_the_ranks_that_chance_allows() {
        let percentiles = percentiles(&of((1..=1000).map(|value| (value, 1))), &Histogram::new());
        let half = named(&percentiles, "p50");
        assert_eq!((half.value_ns, half.low_ns, half.high_ns), (500, 469, Some(531)));
        assert_eq!(half.support, Support::Plenty);
        assert_eq!(named(&percentiles, "p99").support, Support::Few);
        assert_eq!(named(&percentiles, "p99.9").support, Support::None);
    }

    #[test]
    fn empty_histograms_have_no_percentiles() {
        assert_eq!(percentiles(&Histogram::new(), &Histogram::new()), Vec::new());
    }
}
