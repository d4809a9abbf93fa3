//! Charts of any numbers and texts, the limits, and a kept drawing of each kind.

mod any_chart;
mod golden;
mod limits;
mod reader;

use crate::{Chart, Kind, Series, draw};

const KINDS: [Kind; 5] = [Kind::Line, Kind::Bar, Kind::Histogram, Kind::Sparkline, Kind::Ring];

fn drawn(kind: Kind, values: &[f64]) -> String {
    draw(&Chart::new(kind, &[Series { name: "", values }])).expect("it can be drawn")
}

fn described(kind: Kind, values: &[f64]) -> String {
    reader::read(&drawn(kind, values)).description
}

#[test]
fn a_chart_says_what_it_shows() {
    let values = [3.0, f64::NAN, 12_345.6, 8.0];
    assert_eq!(
        described(Kind::Line, &values),
        "from 3 to 8 over 3 values, lowest 3, highest 12,346, 1 absent."
    );
    assert_eq!(described(Kind::Bar, &values), "1: 3; 3: 12,346; 4: 8.");
    assert_eq!(described(Kind::Ring, &[1.0, 3.0]), "1: 1, 25 %; 2: 3, 75 %; 4 in all.");
    assert_eq!(
        described(Kind::Histogram, &[1.0, 2.0, 2.5, 4.0]),
        "4 values from 1 to 4; most of them, 2, from 2 to 3."
    );
    for kind in KINDS {
        assert_eq!(described(kind, &[]), "No values.");
        assert_eq!(described(kind, &[f64::NAN, f64::INFINITY, 2e300]), "No values.");
    }
}

#[test]
fn a_given_description_and_the_unit_are_said() {
    let series = [Series { name: "a", values: &[1.0] }, Series { name: "", values: &[] }];
    let mut chart = Chart { unit: "ms", ..Chart::new(Kind::Line, &series) };
    let said = |chart: &Chart<'_>| reader::read(&draw(chart).expect("it can be drawn")).description;
    assert_eq!(
        said(&chart),
        "Values in ms. a: from 1 to 1 over 1 values, lowest 1, highest 1; 2: no values."
    );
    chart.description = "As it was <yesterday>.";
    assert_eq!(said(&chart), chart.description);
}

#[test]
fn a_page_has_style_and_title_itself() {
    let series = [Series { name: "", values: &[1.0, 2.0] }];
    let mut chart = Chart { title: "A & B", ..Chart::new(Kind::Line, &series) };
    let alone = draw(&chart).expect("it can be drawn");
    assert!(alone.contains("<style>") && alone.contains(">A &amp; B</text>"));
    chart.place = crate::Place::Page;
    let inside = draw(&chart).expect("it can be drawn");
    assert!(!inside.contains("style") && !inside.contains("paper"));
    assert!(inside.contains("<title>A &amp; B</title>") && !inside.contains("B</text>"));
}

#[test]
fn one_value_alone_is_a_dot_in_the_middle() {
    let text = drawn(Kind::Line, &[5.0]);
    assert!(text.contains("h0\"") && !text.contains("no values"), "{text}");
    assert!(drawn(Kind::Line, &[]).contains("no values"));
}

#[test]
fn a_line_of_many_values_is_as_small_as_its_plot() {
    let values: Vec<f64> = (0..100_000_u32).map(|n| f64::from(n * 7919 % 1009)).collect();
    let text = drawn(Kind::Line, &values);
    assert!(text.len() < 64 << 10, "{}", text.len());
    let halves: Vec<f64> =
        values.iter().enumerate().map(|(n, v)| if n % 2 == 0 { *v } else { f64::NAN }).collect();
    assert!(drawn(Kind::Line, &halves).len() < 64 << 10);
}

#[test]
fn negative_bars_go_down_from_zero() {
    let found = reader::read(&drawn(Kind::Bar, &[4.0, -4.0]));
    let bars: Vec<_> = found.boxes.iter().filter(|found| found.class.contains("c0")).collect();
    let [up, down] = bars[..] else { panic!("{bars:?}") };
    assert!((up.y + up.height - down.y).abs() < 0.11 && (up.height - down.height).abs() < 0.11);
}
