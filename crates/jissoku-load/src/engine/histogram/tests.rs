use hdrhistogram::serialization::Deserializer;
use proptest::prelude::*;

use super::*;

fn of(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    for &value in values {
        histogram.record(value);
    }
    histogram
}

fn decode(text: &str) -> hdrhistogram::Histogram<u64> {
    let bytes = STANDARD.decode(text).expect("it is base64");
    Deserializer::new().deserialize(&mut &bytes[..]).expect("it is HdrHistogram V2")
}

/// Durations of all magnitudes.
fn durations() -> impl Strategy<Value = u64> {
    (0_u32..42, any::<u64>()).prop_map(|(magnitude, noise)| noise % (2 << magnitude))
}

#[test]
fn every_bin_begins_where_the_last_one_ends() {
    for bin in 0..BINS {
        assert_eq!(index(upper_bound(bin)), bin);
        assert_eq!(index(upper_bound(bin) + 1), bin + 1);
    }
    assert_eq!(upper_bound(BINS - 1), LONGEST_NS);
}

#[test]
fn nothing_has_no_figures() {
    assert_eq!(Histogram::new().quantiles(), None);
    assert_eq!(decode(&Histogram::new().export()).len(), 0);
}

#[test]
fn the_longest_duration_is_exact_at_its_bin() {
    let histogram = of(&[3, LONGEST_NS * 4, 5]);
    let percentiles = histogram.quantiles().expect("three were counted");
    assert_eq!((percentiles.min, percentiles.max), (3, LONGEST_NS * 4));
    assert_eq!(percentiles.mean, (8 + LONGEST_NS * 4) / 3);
    assert_eq!(percentiles.p50, 5);
}

proptest! {
    #[test]
    fn figures_are_those_of_the_sorted_durations(
        mut values in proptest::collection::vec(durations(), 1..400),
    ) {
        let percentiles = of(&values).quantiles().expect("something was counted");
        values.sort_unstable();
        prop_assert_eq!(percentiles.min, values[0]);
        prop_assert_eq!(percentiles.max, values[values.len() - 1]);
        prop_assert_eq!(percentiles.mean, values.iter().sum::<u64>() / values.len() as u64);
        let shown = [(percentiles.p50, 500), (percentiles.p90, 900), (percentiles.p99, 990), (percentiles.p999, 999)];
        for (shown, per_mille) in shown {
            let rank = (values.len() * per_mille).div_ceil(1000);
            let exact = values[rank - 1];
            prop_assert!(exact <= shown && shown - exact <= exact / 1000, "{shown} for {exact}");
        }
    }

    #[test]
    fn adding_is_counting_both(
        ours in proptest::collection::vec(durations(), 0..50),
        theirs in proptest::collection::vec(durations(), 0..50),
    ) {
        let mut sum = of(&ours);
        sum.add(&of(&theirs));
        let both = of(&[ours, theirs].concat());
        prop_assert_eq!(&sum.bins, &both.bins);
        prop_assert_eq!(sum.quantiles(), both.quantiles());
    }

    #[test]
    fn the_export_loses_nothing(values in proptest::collection::vec(durations(), 1..50)) {
        let histogram = of(&values);
        let copy = decode(&histogram.export());
        prop_assert_eq!(copy.len(), values.len() as u64);
        for (bin, &count) in histogram.bins.iter().enumerate().filter(|(_, count)| **count > 0) {
            prop_assert_eq!(copy.count_at(upper_bound(bin)), count);
        }
    }
}

#[test]
fn catching_up_returns_the_difference() {
    let (mut now, mut earlier) = (Histogram::new(), Histogram::new());
    assert_eq!(earlier.catch_up(&now), []);
    for values in [&[5, 5, 1_000_000][..], &[1, 1_000_000, LONGEST_NS + 1], &[]] {
        let before = earlier.clone();
        for &value in values {
            now.record(value);
        }
        assert_eq!(earlier.catch_up(&now), now.counts_since(&before));
        assert_eq!(earlier.bins().collect::<Vec<_>>(), now.bins().collect::<Vec<_>>());
        assert_eq!((earlier.count, earlier.sum), (now.count, now.sum));
        assert_eq!((earlier.min, earlier.max), (now.min, now.max));
    }
}

#[test]
fn durations_are_replaced_by_shorter_ones() {
    let of = |values: &[u64]| {
        let mut all = Histogram::new();
        for &value in values {
            all.record(value);
        }
        all
    };
    let all = of(&[5, 100, 70_000, 9_000_000]);
    for (old, new, expected) in [
        (&[][..], &[][..], &[5, 100, 70_000, 9_000_000][..]),
        (&[100], &[1], &[1, 5, 70_000, 9_000_000]),
        (&[5, 9_000_000], &[2, 3], &[2, 3, 100, 70_000]),
        (&[5, 100, 70_000, 9_000_000], &[4, 4, 4, 4], &[4, 4, 4, 4]),
    ] {
        let (found, expected) = (all.with_replaced(&of(old), &of(new)), of(expected));
        assert!(found.bins().eq(expected.bins()));
        assert_eq!((found.count(), found.sum_ns()), (expected.count(), expected.sum_ns()));
        // The longest may be known by its bin only.
        assert!(found.max_ns().abs_diff(expected.max_ns()) <= expected.max_ns() / 1000);
        assert_eq!(found.quantiles().map(|all| all.min), expected.quantiles().map(|all| all.min));
    }
}
