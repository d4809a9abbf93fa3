//! Charts of any numbers and texts.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use super::super::chart::{Chart, Series};
use super::super::{API, Str, bytes};
use super::choices::{Choices, NAMES, VALUES};
use super::{Session, pointer};

/// Numbers that are at a limit, or beyond one.
const NUMBERS: [f64; 12] = [
    0.0,
    1.0,
    -1.0,
    f64::NAN,
    f64::INFINITY,
    1e300,
    -1e300,
    2e300,
    f64::MIN_POSITIVE,
    5e-324,
    -0.0,
    1e15,
];

/// More values than a chart can have.
static MANY: [f64; 100_001] = [1.0; 100_001];

impl Session<'_> {
    /// Draws a chart: it is there, or the reason why it is not.
    pub(super) fn draw(&mut self) {
        let choices = &mut self.choices;
        let kind = c_int::try_from(choices.below(8)).expect("it is small") - 1;
        let [title, description, unit, x_title] =
            [(); 4].map(|()| if choices.below(2) == 0 { None } else { choices.c_text(&VALUES) });
        let values: Vec<Vec<f64>> = (0..choices.below(5)).map(|_| numbers(choices)).collect();
        let names: Vec<Option<CString>> = values.iter().map(|_| choices.c_text(&NAMES)).collect();
        let mut series: Vec<Series> = values.iter().zip(&names).map(series_of).collect();
        if let Some(last) = series.last_mut().filter(|_| choices.rarely()) {
            (last.values, last.count) = (MANY.as_ptr(), MANY.len());
        }
        let longest = series.iter().map(|series| series.count).max().unwrap_or_default();
        let positions: Vec<f64> = (0..longest).map(|_| number(choices)).collect();
        let has_positions = choices.below(4) == 0;
        let labels: Vec<Option<CString>> =
            (0..choices.below(6)).map(|_| choices.c_text(&VALUES)).collect();
        let labels: Vec<*const c_char> =
            labels.iter().map(|label| pointer(label.as_ref())).collect();
        // More than are allowed are refused before they are read.
        let (has_too_many, is_absent) = (choices.rarely(), choices.rarely());
        let size = |choices: &mut Choices<'_>| [0, 0, 16, 200, 4096, u32::MAX][choices.below(6)];
        let chart = Chart {
            title: pointer(title.as_ref()),
            description: pointer(description.as_ref()),
            unit: pointer(unit.as_ref()),
            x_title: pointer(x_title.as_ref()),
            series: if is_absent { ptr::null() } else { series.as_ptr() },
            series_count: if has_too_many { usize::MAX } else { series.len() },
            labels: labels.as_ptr(),
            label_count: labels.len(),
            positions: if has_positions { positions.as_ptr() } else { ptr::null() },
            reach_low: number(choices),
            reach_high: number(choices),
            bins: [0, 1, 200, 201, u32::MAX][choices.below(5)],
            width: size(choices),
            height: size(choices),
        };
        let chart = if choices.rarely() { ptr::null() } else { &raw const chart };
        let (mut why, wants_why) = (Str::ABSENT, !choices.rarely());
        let (is_there, request) = self.request();
        let reason = if wants_why { &raw mut why } else { ptr::null_mut() };
        let drawing = (API.chart)(request, kind, chart, reason);
        let (is_drawn, has_reason) = (!drawing.ptr.is_null(), !why.ptr.is_null());
        assert!(!is_drawn || is_there && !has_reason);
        assert_eq!(has_reason, is_there && wants_why && !is_drawn);
        if is_drawn {
            let text = bytes(drawing.ptr.cast(), drawing.len).expect("it is there");
            let text = str::from_utf8(text).expect("it is UTF-8");
            assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
        }
        self.keep(drawing);
        self.keep(why);
    }
}

fn number(choices: &mut Choices<'_>) -> f64 {
    match choices.below(NUMBERS.len() + 4) {
        index if index < NUMBERS.len() => NUMBERS[index],
        _ => f64::from(u8::try_from(choices.below(256)).expect("it is a byte")),
    }
}

fn numbers(choices: &mut Choices<'_>) -> Vec<f64> {
    (0..choices.below(14)).map(|_| number(choices)).collect()
}

fn series_of((values, name): (&Vec<f64>, &Option<CString>)) -> Series {
    Series { name: pointer(name.as_ref()), values: values.as_ptr(), count: values.len() }
}
