//! Histograms: how many values are in each of several ranges.

use crate::chart::Chart;
use crate::frame::{self, Plot, TICK_WIDTH};
use crate::number::{float, magnitude, plain, power_of_ten, whole};
use crate::scale::{Scale, Steps, round_step};
use crate::style;
use crate::svg::Svg;

/// How many bins the values suggest at most.
const SUGGESTED_MAX: f64 = 60.0;

/// A range whose span is a smaller part of its values is one value.
const LEAST_SPAN: f64 = 1e-9;

/// A range, which contains its low end and not its high one, and how many values are in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bin {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) count: usize,
}

/// Counts values, which are all present. Without a number of bins there are as many as the cube root
/// of their count suggests (the Rice rule), between round numbers.
pub(crate) fn bins(values: &[f64], asked: usize) -> Vec<Bin> {
    let Some(first) = values.first() else { return Vec::new() };
    let low = values.iter().copied().fold(*first, f64::min);
    let high = values.iter().copied().fold(*first, f64::max);
    let (start, step, count) = ranges(low, high, values.len(), asked);
    let edge = |index: usize| start + float(index) * step;
    let mut found: Vec<Bin> =
        (0..count).map(|index| Bin { low: edge(index), high: edge(index + 1), count: 0 }).collect();
    for value in values {
        let index = whole((value - start) / step).min(count - 1);
        found[index].count += 1;
    }
    found
}

/// Where the first bin begins, how wide they are, and how many there are.
fn ranges(low: f64, high: f64, values: usize, asked: usize) -> (f64, f64, usize) {
    let (span, size) = (high - low, low.abs().max(high.abs()));
    if span <= size * LEAST_SPAN || size < 1e-290 {
        // One bin around the value, as wide as a tenth of it.
        let step = if size < 1e-290 { 1.0 } else { power_of_ten(magnitude(size) - 1) };
        return ((low / step).floor() * step, step, 1);
    }
    if asked > 0 {
        return (low, span / float(asked), asked);
    }
    let suggested = (2.0 * float(values).cbrt()).ceil().clamp(1.0, SUGGESTED_MAX);
    let step = round_step(span / suggested, Steps::Any);
    let first = (low / step + 1e-9).floor();
    let last = (high / step + 1e-9).floor();
    (first * step, step, whole(last - first) + 1)
}

/// Draws a histogram.
pub(crate) fn draw(svg: &mut Svg, chart: &Chart<'_>) {
    let span = frame::heading(svg, chart);
    let values: Vec<f64> = chart.present().collect();
    let bins = bins(&values, chart.bins);
    let highest = bins.iter().map(|bin| bin.count).max().unwrap_or(1);
    let y = Scale::rounded(0.0, float(highest), frame::steps_up(span), Steps::Whole);
    let plot = frame::grid(svg, chart, span, &y);
    let zero = plot.y(0.0);
    if let (Some(first), Some(last)) = (bins.first(), bins.last()) {
        let count = (plot.width() / TICK_WIDTH).floor();
        let x = Scale::exact(first.low, last.high, count, Steps::Any);
        columns(svg, &plot, &bins, &y);
        let places: Vec<f64> = x.ticks.iter().map(|tick| plot.x(x.at(*tick))).collect();
        let labels = x.labels();
        frame::below(svg, &plot, &places, labels.iter().map(String::as_str));
    } else {
        frame::no_values(svg, (plot.x(0.5), plot.y(0.5)));
    }
    svg.horizontal("zero", plot.left, plot.right, zero);
}

/// The boxes, with a gap between them where there is room.
fn columns(svg: &mut Svg, plot: &Plot, bins: &[Bin], y: &Scale) {
    let room = 1.0 / float(bins.len());
    let gap = if plot.width() * room > 4.0 { 0.5 } else { 0.0 };
    let class = format!("box {}", style::colour(0));
    for (index, bin) in bins.iter().enumerate().filter(|(_, bin)| bin.count > 0) {
        let left = plot.x(float(index) * room) + gap;
        let right = plot.x(float(index + 1) * room) - gap;
        let top = plot.y(y.at(float(bin.count)));
        let tooltip = format!("{} to {}: {}", plain(bin.low), plain(bin.high), bin.count);
        svg.bar(&class, (left, plot.y(0.0)), (right, top), &tooltip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_round_numbers() {
        let values = [0.3, 1.0, 1.1, 2.9, 3.0];
        let found: Vec<_> = bins(&values, 0).iter().map(|bin| (bin.low, bin.count)).collect();
        assert_eq!(found, [(0.0, 1), (1.0, 2), (2.0, 1), (3.0, 1)]);
    }

    #[test]
    fn as_many_bins_as_asked_for_have_equal_widths() {
        let found = bins(&[0.0, 1.0, 2.0, 4.0], 2);
        let expected =
            [Bin { low: 0.0, high: 2.0, count: 2 }, Bin { low: 2.0, high: 4.0, count: 2 }];
        assert_eq!(found, expected);
    }

    #[test]
    fn equal_values_are_in_one_bin() {
        for value in [0.0, 5.0, -7.5, 1e300, -1e300, 1e-300] {
            let found = bins(&[value; 3], 0);
            assert_eq!(found.len(), 1, "{value}");
            assert!(found[0].count == 3 && found[0].low <= value && value <= found[0].high);
        }
        assert_eq!(bins(&[], 5), []);
    }
}
