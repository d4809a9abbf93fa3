//! Charts for Python: `jissoku.chart` (`python/jissoku/chart.py`) is written on top of this.

use jissoku_charts::{Chart, Kind, Place, STYLE_SHEET, Series, draw};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// All options, from a dictionary.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    title: String,
    description: String,
    unit: String,
    x_title: String,
    labels: Vec<String>,
    positions: Vec<f64>,
    reach: (f64, f64),
    bins: usize,
    size: (u32, u32),
    in_page: bool,
}

/// Draws series, each a name and its values; Python's lock is free meanwhile.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's values are converted to owned ones")]
pub(crate) fn chart(
    python: Python<'_>,
    kind: &str,
    series: Vec<(String, Vec<f64>)>,
    options: Options,
) -> PyResult<String> {
    let kind = Kind::of_word(kind)
        .ok_or_else(|| PyValueError::new_err(format!("there is no kind {kind:?} of charts")))?;
    let given: Vec<Series<'_>> =
        series.iter().map(|(name, values)| Series { name, values }).collect();
    let labels: Vec<&str> = options.labels.iter().map(String::as_str).collect();
    let chart = Chart {
        kind,
        title: &options.title,
        description: &options.description,
        unit: &options.unit,
        x_title: &options.x_title,
        series: &given,
        labels: &labels,
        positions: &options.positions,
        reach: options.reach,
        bins: options.bins,
        size: options.size,
        place: if options.in_page { Place::Page } else { Place::Anywhere },
    };
    python.detach(|| draw(&chart)).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The style sheet of a page with charts.
#[pyfunction]
pub(crate) fn chart_style_sheet() -> &'static str {
    STYLE_SHEET
}
