//! Bars from zero: one for each value of each series, those of one label side by side.

use crate::chart::Chart;
use crate::frame;
use crate::limits::present;
use crate::number::{float, plain};
use crate::scale::{Scale, Steps};
use crate::style;
use crate::svg::Svg;

/// The part of the room of a label that its bars take together.
const FILLED: f64 = 0.8;

/// Draws a chart of bars.
pub(crate) fn draw(svg: &mut Svg, chart: &Chart<'_>) {
    let span = frame::heading(svg, chart);
    let (low, high) = chart.bounds().unwrap_or((0.0, 1.0));
    let steps = frame::steps_up(span);
    let scale = Scale::rounded(low.min(0.0), high.max(0.0), steps, Steps::Any);
    let plot = frame::grid(svg, chart, span, &scale);
    let (count, length) = (chart.series.len(), chart.length());
    let room = 1.0 / float(length.max(1));
    let zero = plot.y(scale.at(0.0));
    for (index, series) in chart.series.iter().enumerate() {
        let width = FILLED * room / float(count);
        let class = format!("box {}", style::colour(index));
        for (place, value) in series.values.iter().enumerate() {
            let Some(value) = present(*value) else { continue };
            let left = (float(place) + (1.0 - FILLED) / 2.0) * room + float(index) * width;
            let from = (plot.x(left), zero);
            let to = (plot.x(left + width), plot.y(scale.at(value)));
            svg.bar(&class, from, to, &tooltip(chart, index, place, value));
        }
    }
    svg.horizontal("zero", plot.left, plot.right, zero);
    if chart.present().next().is_none() {
        frame::no_values(svg, (plot.x(0.5), plot.y(0.5)));
    }
    let middle = |place: usize| plot.x((float(place) + 0.5) * room);
    let places: Vec<f64> = (0..length).map(middle).collect();
    let labels: Vec<String> = (0..length).map(|place| chart.label(place)).collect();
    frame::below(svg, &plot, &places, labels.iter().map(String::as_str));
}

fn tooltip(chart: &Chart<'_>, index: usize, place: usize, value: f64) -> String {
    let label = chart.label(place);
    if chart.series.len() > 1 {
        format!("{label}, {}: {}", chart.name(index), plain(value))
    } else {
        format!("{label}: {}", plain(value))
    }
}
