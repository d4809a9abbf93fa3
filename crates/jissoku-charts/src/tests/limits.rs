//! What is refused, with its sentence.

use super::KINDS;
use crate::{
    BARS_MAX, BINS_MAX, Chart, Kind, PARTS_MAX, SERIES_MAX, Series, TEXT_MAX, VALUES_MAX, draw,
};

const ONE: [Series<'_>; 1] = [Series { name: "", values: &[1.0, 2.0] }];

fn refused(chart: &Chart<'_>) -> String {
    draw(chart).expect_err("it is refused").to_string()
}

#[test]
fn sizes_have_limits() {
    for kind in KINDS {
        for size in [(1, 0), (0, 1), (4097, 0), (0, u32::MAX)] {
            let chart = Chart { size, ..Chart::new(kind, &ONE) };
            assert!(refused(&chart).contains(" pixels, not "), "{size:?}");
        }
        for size in [kind.size_min(), (4096, 4096)] {
            let chart = Chart { size, ..Chart::new(kind, &ONE) };
            super::reader::read(&draw(&chart).expect("it can be drawn"));
        }
    }
    let small = Chart { size: (100, 100), ..Chart::new(Kind::Bar, &ONE) };
    assert_eq!(refused(&small), "a bar has 160 x 144 to 4096 x 4096 pixels, not 100 x 100");
}

#[test]
fn numbers_of_values_have_limits() {
    let values = vec![1.0; VALUES_MAX + 1];
    let series = |count: usize| [Series { name: "", values: &values[..count] }];
    let check = |kind, count, expected: &str| {
        let own = series(count);
        assert!(draw(&Chart::new(kind, &own)).is_ok());
        let own = series(count + 1);
        assert_eq!(refused(&Chart::new(kind, &own)), expected);
    };
    for kind in [Kind::Line, Kind::Sparkline, Kind::Histogram] {
        check(kind, VALUES_MAX, "a chart has at most 100000 values, not 100001");
    }
    check(Kind::Bar, BARS_MAX, "a chart has at most 400 bars, not 401");
    check(Kind::Ring, PARTS_MAX, "a ring has at most 12 parts, not 13");
}

#[test]
fn numbers_of_series_have_limits() {
    let many = [ONE[0]; SERIES_MAX + 1];
    for kind in [Kind::Line, Kind::Bar] {
        assert!(draw(&Chart::new(kind, &many[1..])).is_ok());
        assert_eq!(refused(&Chart::new(kind, &many)), "a chart has at most 16 series, not 17");
    }
    for kind in [Kind::Histogram, Kind::Sparkline, Kind::Ring] {
        let expected = format!("a {} has one series, not 2", kind.word());
        assert_eq!(refused(&Chart::new(kind, &many[..2])), expected);
        assert!(draw(&Chart::new(kind, &[])).is_ok());
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let (long, labels) = ("x".repeat(TEXT_MAX + 1), ["a", "b", "c"]);
    let chart = Chart::new(Kind::Bar, &ONE);
    let line = Chart::new(Kind::Line, &ONE);
    let negative = [Series { name: "", values: &[1.0, -1.0] }];
    for (chart, expected) in [
        (Chart { title: &long, ..chart }, "a text of a chart has at most 1000 bytes, not 1001"),
        (Chart { labels: &[&long], ..line }, "a text of a chart has at most 1000 bytes, not 1001"),
        (Chart { labels: &labels, ..chart }, "there are 3 labels for 2 values"),
        (Chart { positions: &[1.0], ..line }, "there are 1 positions for 2 values"),
        (
            Chart { positions: &[1.0, 0.0], ..line },
            "position 2 is lower than the one before it, or not a number up to 1e300",
        ),
        (
            Chart { positions: &[f64::NAN, 0.0], ..line },
            "position 1 is lower than the one before it, or not a number up to 1e300",
        ),
        (Chart { reach: (0.0, f64::NAN), ..line }, "the axis reaches to numbers up to 1e300 only"),
        (
            Chart { bins: BINS_MAX + 1, ..Chart::new(Kind::Histogram, &ONE) },
            "a histogram has at most 200 bins, not 201",
        ),
        (Chart::new(Kind::Ring, &negative), "part 2 of the ring is negative"),
    ] {
        assert_eq!(refused(&chart), expected);
    }
}
