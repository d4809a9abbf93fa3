//! Lines: through the values of several series, and sparklines.

use std::fmt::Write;

use crate::chart::Chart;
use crate::frame::{self, Plot, TICK_WIDTH};
use crate::limits::present;
use crate::number::{Coordinate, float};
use crate::scale::{Scale, Steps, with_zero};
use crate::style;
use crate::svg::{Point, Svg};

/// Pixels around a sparkline: half of its stroke, and of the mark at its end.
const SPARK_EDGE: f64 = 3.0;

/// Draws a chart of lines.
pub(crate) fn draw(svg: &mut Svg, chart: &Chart<'_>) {
    let span = frame::heading(svg, chart);
    let bounds = chart.bounds().map(|(low, high)| with_zero(low, high));
    let (low, high) = bounds.unwrap_or((0.0, 1.0));
    let y = Scale::rounded(low, high, frame::steps_up(span), Steps::Any);
    let plot = frame::grid(svg, chart, span, &y);
    let x = across(chart, &plot);
    if chart.labels.is_empty() {
        let places: Vec<f64> = x.ticks.iter().map(|tick| plot.x(x.at(*tick))).collect();
        let labels = x.labels();
        frame::below(svg, &plot, &places, labels.iter().map(String::as_str));
    } else {
        let last = float(chart.labels.len().saturating_sub(1)).max(1.0);
        let place = |index: usize| plot.x(float(index) / last);
        let places: Vec<f64> = (0..chart.labels.len()).map(place).collect();
        frame::below(svg, &plot, &places, chart.labels.iter().copied());
    }
    if low < 0.0 && high > 0.0 {
        svg.horizontal("zero", plot.left, plot.right, plot.y(y.at(0.0)));
    }
    if chart.present().next().is_none() {
        frame::no_values(svg, (plot.x(0.5), plot.y(0.5)));
    }
    for index in 0..chart.series.len() {
        let line = path(&points(chart, index, &plot, &x, &y));
        curve(svg, &style::line(index), &line);
    }
}

/// Draws a line without axes; a dot marks its last value.
pub(crate) fn draw_spark(svg: &mut Svg, chart: &Chart<'_>) {
    let (right, bottom) = (svg.width - SPARK_EDGE, svg.height - SPARK_EDGE);
    let plot = Plot { left: SPARK_EDGE, right, top: SPARK_EDGE, bottom };
    let Some((low, high)) = chart.bounds() else { return };
    let (x, y) = (across(chart, &plot), Scale::exact(low, high, 1.0, Steps::Any));
    let found = points(chart, 0, &plot, &x, &y);
    curve(svg, &style::line(0), &path(&found));
    if let Some((x, y)) = found.into_iter().flatten().next_back() {
        let (x, y) = (Coordinate(x), Coordinate(y));
        svg.push(format_args!("<circle class=\"box c0\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>"));
    }
}

/// The axis of the positions.
fn across(chart: &Chart<'_>, plot: &Plot) -> Scale {
    let count = (plot.width() / TICK_WIDTH).floor();
    if let (Some(first), Some(last)) = (chart.positions.first(), chart.positions.last()) {
        return Scale::exact(*first, *last, count, Steps::Any);
    }
    Scale::exact(0.0, float(chart.length().saturating_sub(1)), count, Steps::Whole)
}

/// The values of a series in pixels; `None` is absent.
fn points(
    chart: &Chart<'_>,
    index: usize,
    plot: &Plot,
    x: &Scale,
    y: &Scale,
) -> Vec<Option<Point>> {
    let values = chart.series.get(index).map(|series| series.values).unwrap_or_default();
    let point = |(index, value): (usize, &f64)| {
        let position = chart.positions.get(index).copied().unwrap_or_else(|| float(index));
        let value = present(*value)?;
        Some((plot.x(x.at(position)), plot.y(y.at(value))))
    };
    let all: Vec<Option<Point>> = values.iter().enumerate().map(point).collect();
    if float(all.len()) > 2.0 * plot.width() { reduced(&all) } else { all }
}

/// Of each column of pixels the first, the lowest, the highest and the last point, which look like
/// all of them. The line is interrupted only where whole columns are absent.
fn reduced(points: &[Option<Point>]) -> Vec<Option<Point>> {
    let mut found = Vec::new();
    let mut column: Vec<Point> = Vec::new();
    let mut is_interrupted = false;
    for point in points {
        let Some(point) = point else {
            is_interrupted = true;
            continue;
        };
        if let Some(last) = column.last() {
            let columns = point.0.floor() - last.0.floor();
            if columns > 0.0 {
                found.extend(extremes(&column).map(Some));
                column.clear();
                if is_interrupted && columns > 1.0 {
                    found.push(None);
                }
            }
        }
        is_interrupted = false;
        column.push(*point);
    }
    found.extend(extremes(&column).map(Some));
    found
}

/// The first, the lowest, the highest and the last point, in their order and each once.
fn extremes(column: &[Point]) -> impl Iterator<Item = Point> {
    let heights = || column.iter().map(|point| point.1).enumerate();
    let low = heights().min_by(|one, other| one.1.total_cmp(&other.1));
    let high = heights().max_by(|one, other| one.1.total_cmp(&other.1));
    let mut kept: Vec<usize> = [low, high].into_iter().flatten().map(|(index, _)| index).collect();
    kept.extend([0, column.len().saturating_sub(1)]);
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().filter_map(|index| column.get(index).copied())
}

/// The commands of a path; one point alone becomes a dot.
fn path(points: &[Option<Point>]) -> String {
    let mut found = String::new();
    for part in points.split(Option::is_none) {
        for (index, (x, y)) in part.iter().flatten().enumerate() {
            let command = if index == 0 { 'M' } else { ' ' };
            let (x, y) = (Coordinate(*x), Coordinate(*y));
            // To write into memory does not fail.
            let _ = write!(found, "{command}{x} {y}");
        }
        if part.len() == 1 {
            found.push_str("h0");
        }
    }
    found
}

fn curve(svg: &mut Svg, class: &str, path: &str) {
    if !path.is_empty() {
        svg.push(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::whole;

    #[test]
    fn absent_values_interrupt_a_line() {
        let points = [Some((0.0, 1.0)), Some((1.0, 2.0)), None, Some((3.0, 0.0)), None, None];
        assert_eq!(path(&points), "M0 1 1 2M3 0h0");
        assert_eq!(path(&[]), "");
    }

    #[test]
    fn many_points_are_few_that_look_the_same() {
        let point = |index: usize| Some((float(index) / 100.0, float(index * 37 % 101)));
        let all: Vec<_> = (0..1000).map(point).collect();
        let few = reduced(&all);
        assert!(few.len() <= 40, "{}", few.len());
        for column in 0..10 {
            let inside = |points: &[Option<Point>]| {
                let own = points.iter().flatten().filter(|(x, _)| whole(*x) == column);
                own.map(|point| point.1)
                    .fold((f64::INFINITY, 0.0_f64), |(low, high), y| (low.min(y), high.max(y)))
            };
            assert_eq!(inside(&all), inside(&few), "column {column}");
        }
    }

    #[test]
    fn only_whole_columns_without_values_are_gaps() {
        let at = |x: f64| Some((x, 0.0));
        let points = [at(0.1), None, at(0.5), None, at(1.2), None, at(3.0)];
        let found = reduced(&points);
        assert_eq!(found, [at(0.1), at(0.5), at(1.2), None, at(3.0)]);
    }
}
