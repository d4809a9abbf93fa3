//! Charts: `jsk_chart` as a chart of `jissoku-charts`.

use std::borrow::Cow;
use std::ffi::{c_char, c_int};
use std::ptr::NonNull;

use jissoku_charts::{self as charts, BARS_MAX, Error, Kind, SERIES_MAX};

use super::{Request, Str, array, text};

/// `jsk_series`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Series {
    pub(super) name: *const c_char,
    pub(super) values: *const f64,
    pub(super) count: usize,
}

/// `jsk_chart`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Chart {
    pub(super) title: *const c_char,
    pub(super) description: *const c_char,
    pub(super) unit: *const c_char,
    pub(super) x_title: *const c_char,
    pub(super) series: *const Series,
    pub(super) series_count: usize,
    pub(super) labels: *const *const c_char,
    pub(super) label_count: usize,
    pub(super) positions: *const f64,
    pub(super) reach_low: f64,
    pub(super) reach_high: f64,
    pub(super) bins: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

pub(super) type Draw = extern "C" fn(Request<'_>, c_int, *const Chart, *mut Str) -> Str;

pub(super) extern "C" fn draw(
    request: Request<'_>,
    kind: c_int,
    chart: *const Chart,
    why: *mut Str,
) -> Str {
    let Some(call) = request else { return Str::ABSENT };
    let (drawing, reason) = match drawn(kind, chart) {
        Ok(drawing) => (Str::of(call.keep(drawing.into_bytes())), Str::ABSENT),
        Err(reason) => (Str::ABSENT, Str::of(call.keep(reason.into_bytes()))),
    };
    if let Some(why) = NonNull::new(why) {
        // SAFETY: by the interface, there is room for a text.
        unsafe { why.write(reason) };
    }
    drawing
}

/// The drawing of a chart, or the reason why there is none.
fn drawn(kind: c_int, chart: *const Chart) -> Result<String, String> {
    let kind = kind_of(kind).ok_or_else(|| format!("there is no kind {kind} of charts"))?;
    let chart = NonNull::new(chart.cast_mut()).ok_or("the chart is NULL")?;
    // SAFETY: by the interface, it is a chart that outlives the call.
    let chart = unsafe { chart.as_ref() };
    let refused = |error: Error| error.to_string();
    // Before anything is read of them.
    if chart.series_count > SERIES_MAX {
        return Err(refused(Error::series(chart.series_count)));
    }
    if chart.label_count > BARS_MAX {
        return Err(refused(Error::label_count(chart.label_count)));
    }
    let series = array(chart.series, chart.series_count).ok_or("the series are NULL")?;
    let names: Vec<Cow<'_, str>> = series.iter().map(|series| string(series.name)).collect();
    let mut given = Vec::with_capacity(series.len());
    for (series, name) in series.iter().zip(&names) {
        let values = array(series.values, series.count).ok_or("the values are NULL")?;
        given.push(charts::Series { name, values });
    }
    let labels = array(chart.labels, chart.label_count).ok_or("the labels are NULL")?;
    let labels: Vec<Cow<'_, str>> = labels.iter().map(|label| string(*label)).collect();
    let labels: Vec<&str> = labels.iter().map(AsRef::as_ref).collect();
    let longest = series.iter().map(|series| series.count).max().unwrap_or_default();
    let [title, description, unit, x_title] =
        [chart.title, chart.description, chart.unit, chart.x_title].map(string);
    charts::draw(&charts::Chart {
        title: &title,
        description: &description,
        unit: &unit,
        x_title: &x_title,
        labels: &labels,
        positions: array(chart.positions, longest).unwrap_or_default(),
        reach: (chart.reach_low, chart.reach_high),
        bins: usize::try_from(chart.bins).unwrap_or(usize::MAX),
        size: (chart.width, chart.height),
        ..charts::Chart::new(kind, &given)
    })
    .map_err(refused)
}

/// `JSK_LINE` and the others.
const fn kind_of(number: c_int) -> Option<Kind> {
    Some(match number {
        1 => Kind::Line,
        2 => Kind::Bar,
        3 => Kind::Histogram,
        4 => Kind::Sparkline,
        5 => Kind::Ring,
        _ => return None,
    })
}

/// A text, with U+FFFD in place of what is not UTF-8; an empty one at NULL.
fn string<'a>(start: *const c_char) -> Cow<'a, str> {
    text(start).map(String::from_utf8_lossy).unwrap_or_default()
}
