//! Whatever a chart is made of, it is well formed, within its view box, and the same each time.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{KINDS, reader};
use crate::{Chart, Kind, PARTS_MAX, Place, Series, VALUE_MAX, draw};

/// What a chart is made of.
#[derive(Clone, Debug)]
struct Made {
    kind: Kind,
    texts: [String; 4],
    series: Vec<(String, Vec<f64>)>,
    labels: Vec<String>,
    has_positions: bool,
    reach: (f64, f64),
    bins: usize,
    size: (u32, u32),
    is_in_page: bool,
}

/// All numbers, most of them as they are met.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => -1000.0..1000.0_f64,
        2 => (-5_i32..5).prop_map(f64::from),
        2 => any::<f64>(),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(1e300), Just(-1e300), Just(5e-324)],
        1 => 1e15..1.000_000_1e15_f64,
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![2 => ".{0,20}", 1 => "[<>&\"'\u{0}-\u{1f}\u{fffe}a]{0,12}", 1 => Just(String::new())]
}

fn made() -> impl Strategy<Value = Made> {
    let kind = proptest::sample::select(KINDS.to_vec());
    let texts = [text(), text(), text(), text()];
    let series = vec((text(), vec(value(), 0..40)), 0..8);
    let reach = prop_oneof![3 => Just((0.0, 0.0)), 1 => (-9.0..9.0, -9.0..9.0_f64)];
    let size = prop_oneof![2 => Just((0, 0)), 1 => (160..900_u32, 144..900_u32)];
    let rest = (vec(text(), 0..12), any::<bool>(), 0..30_usize, any::<bool>());
    (kind, texts, series, reach, size, rest).prop_map(
        |(kind, texts, mut series, reach, size, (labels, has_positions, bins, is_in_page))| {
            if !matches!(kind, Kind::Line | Kind::Bar) {
                series.truncate(1);
            }
            let mut labels = labels;
            if kind == Kind::Ring {
                for (_, values) in &mut series {
                    values.truncate(PARTS_MAX);
                    *values = values.iter().map(|value| value.abs()).collect();
                }
            }
            if matches!(kind, Kind::Bar | Kind::Ring) {
                let length = series.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
                labels.resize(length, "more".to_owned());
            }
            Made { kind, texts, series, labels, has_positions, reach, bins, size, is_in_page }
        },
    )
}

fn with_chart<T>(made: &Made, use_it: impl FnOnce(&Chart<'_>) -> T) -> T {
    let series: Vec<Series<'_>> =
        made.series.iter().map(|(name, values)| Series { name, values }).collect();
    let labels: Vec<&str> = made.labels.iter().map(String::as_str).collect();
    let mut positions: Vec<f64> = Vec::new();
    if made.has_positions && matches!(made.kind, Kind::Line | Kind::Sparkline) {
        let longest = series.iter().map(|series| series.values).max_by_key(|values| values.len());
        positions.extend(longest.unwrap_or_default());
        positions.retain(|value| value.abs() <= VALUE_MAX);
        positions.resize(longest.unwrap_or_default().len(), VALUE_MAX);
        positions.sort_by(f64::total_cmp);
    }
    let [title, description, unit, x_title] = made.texts.each_ref().map(String::as_str);
    use_it(&Chart {
        title,
        description,
        unit,
        x_title,
        labels: &labels,
        positions: &positions,
        reach: made.reach,
        bins: made.bins,
        size: made.size,
        place: if made.is_in_page { Place::Page } else { Place::Anywhere },
        ..Chart::new(made.kind, &series)
    })
}

/// Text as it is read again: without characters that XML does not have.
fn readable(text: &str) -> String {
    let sign = |sign: char| match sign {
        '\t' | '\n' | '\r' => ' ',
        '\0'..' ' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        sign => sign,
    };
    text.chars().map(sign).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_chart_is_well_formed_and_within_its_view_box(made in made()) {
        let drawing = with_chart(&made, |chart| draw(chart).expect("it is within the limits"));
        let found = reader::read(&drawing);
        let title = readable(&made.texts[0]);
        prop_assert_eq!(found.title, if title.is_empty() { made.kind.word() } else { &*title });
        if made.texts[1].is_empty() {
            prop_assert!(!found.description.is_empty());
        } else {
            prop_assert_eq!(found.description, readable(&made.texts[1]));
        }
        prop_assert!(drawing.len() < 128 << 10, "{} bytes", drawing.len());
    }

    #[test]
    fn the_same_chart_gives_the_same_bytes(made in made()) {
        let twice = with_chart(&made, |chart| [draw(chart), draw(chart)]);
        prop_assert_eq!(&twice[0], &twice[1]);
    }
}
