//! `js->chart`: what is drawn of what C passes, and what is refused with a reason.

use super::*;
use crate::ffi::chart::{Chart, Series};

/// A chart with nothing in it.
const fn blank() -> Chart {
    Chart {
        title: ptr::null(),
        description: ptr::null(),
        unit: ptr::null(),
        x_title: ptr::null(),
        series: ptr::null(),
        series_count: 0,
        labels: ptr::null(),
        label_count: 0,
        positions: ptr::null(),
        reach_low: 0.0,
        reach_high: 0.0,
        bins: 0,
        width: 0,
        height: 0,
    }
}

/// What a handler gets of a chart: the drawing, and the reason why there is none.
fn drawn(kind: c_int, chart: &Chart) -> (Option<String>, Option<String>) {
    let mut call = call_of(POST);
    let mut why = Str::of(b"not written");
    let drawing = (API.chart)(Some(&mut call), kind, chart, &raw mut why);
    (string(drawing), string(why))
}

#[test]
fn a_chart_is_drawn_and_its_texts_are_escaped() {
    let values = [1.0, f64::NAN, 3.0];
    let series = [0, 1].map(|_| Series {
        name: c"<\xff>".as_ptr(),
        values: values.as_ptr(),
        count: values.len(),
    });
    let labels = [c"a".as_ptr(), c"b".as_ptr(), ptr::null()];
    let mut chart = blank();
    (chart.series, chart.series_count) = (series.as_ptr(), series.len());
    (chart.labels, chart.label_count) = (labels.as_ptr(), labels.len());
    for kind in [1, 2] {
        let (drawing, why) = drawn(kind, &chart);
        let drawing = drawing.expect("it is drawn");
        assert!(drawing.starts_with("<svg ") && drawing.contains("&lt;\u{fffd}&gt;"), "{drawing}");
        assert_eq!(why, None);
    }
    for kind in 1..=5 {
        assert!(drawn(kind, &blank()).0.is_some_and(|drawing| drawing.contains("No values.")));
    }
    chart.positions = values.as_ptr();
    let (drawing, why) = drawn(1, &chart);
    assert_eq!(drawing, None);
    assert!(why.is_some_and(|why| why.starts_with("position 2 is lower")));
}

#[test]
fn a_chart_that_cannot_be_drawn_has_a_reason() {
    let mut chart = blank();
    let why = |kind, chart: &Chart| {
        let (drawing, why) = drawn(kind, chart);
        assert_eq!(drawing, None);
        why.expect("there is one")
    };
    assert_eq!(why(6, &chart), "there is no kind 6 of charts");
    chart.series_count = usize::MAX;
    assert!(why(1, &chart).starts_with("a chart has at most 16 series"));
    chart.series_count = 2;
    assert_eq!(why(1, &chart), "the series are NULL");
    let series = Series { name: ptr::null(), values: ptr::null(), count: usize::MAX };
    (chart.series, chart.series_count) = (&raw const series, 1);
    assert_eq!(why(1, &chart), "the values are NULL");
    chart.series_count = 0;
    chart.label_count = usize::MAX;
    assert!(why(2, &chart).starts_with("a chart has at most 400 labels"));
    assert_eq!(string((API.chart)(None, 1, &raw const chart, ptr::null_mut())), None);
    let mut call = call_of(POST);
    let nothing = (API.chart)(Some(&mut call), 1, ptr::null(), ptr::null_mut());
    assert_eq!(string(nothing), None);
}
