//! Rings: the shares of values in their sum.

use std::f64::consts::PI;

use crate::chart::Chart;
use crate::frame;
use crate::limits::present;
use crate::markup::{Escaped, fitted, width};
use crate::number::{Coordinate, float, plain, share};
use crate::style;
use crate::svg::{Anchor, Point, Svg};

/// Pixels around the ring, from a row of the legend to the next, and of a sign with its distance to
/// the text.
const EDGE: f64 = 8.0;
const ROW: f64 = 20.0;
const SIGN: f64 = 24.0;

/// The part of the radius that the ring takes.
const THICK: f64 = 0.35;

/// Pixels between two parts along the middle of the ring.
const GAP: f64 = 1.5;

/// The least width in pixels that a legend is drawn in.
const LEGEND_MIN: f64 = 80.0;

/// The least radius in pixels of a ring with its sum inside.
const SUM_FROM: f64 = 56.0;

/// A part of a ring: how far from the top it begins, clockwise, and how long it is, both as parts of
/// the whole; and what a pointer shows.
struct Part<'a> {
    class: &'a str,
    tooltip: &'a str,
    start: f64,
    share: f64,
}

/// Draws a ring; each part is a dash of a circle.
pub(crate) fn draw(svg: &mut Svg, chart: &Chart<'_>) {
    let top = frame::title(svg, chart);
    let outer = (svg.height - top - EDGE).min(svg.width - 2.0 * EDGE) / 2.0;
    let centre = (EDGE + outer, top + outer);
    let values = chart.values().iter().enumerate();
    let parts: Vec<(usize, f64)> =
        values.filter_map(|(index, value)| Some((index, present(*value)?))).collect();
    let sum: f64 = parts.iter().map(|(_, value)| value).sum();
    if sum <= 0.0 {
        let whole = Part { class: "grid", tooltip: "no values", start: 0.0, share: 1.0 };
        arc(svg, &whole, centre, outer);
        frame::no_values(svg, (centre.0, centre.1 + 4.0));
        return;
    }
    let mut start = 0.0;
    for (index, value) in &parts {
        let share = value / sum;
        let tooltip = format!("{}: {}", chart.label(*index), plain(*value));
        let class = format!("part {}", style::part(*index));
        let part = Part { class: &class, tooltip: &tooltip, start, share };
        arc(svg, &part, centre, outer);
        start += share;
    }
    inside(svg, chart.unit, centre, outer, &plain(sum));
    let left = centre.0 + outer + 2.0 * EDGE;
    if svg.width - left - EDGE >= LEGEND_MIN {
        legend(svg, chart, &parts, (left, top), sum);
    }
}

/// Writes the sum and what it is into the ring, if there is room.
fn inside(svg: &mut Svg, unit: &str, (x, y): Point, outer: f64, sum: &str) {
    let room = 2.0 * outer * (1.0 - THICK);
    // Its digits are larger than those of labels by a half.
    if outer < SUM_FROM || 1.5 * width(sum) > room {
        return;
    }
    let shift = if unit.is_empty() { 6.0 } else { 0.0 };
    svg.text("sum", Anchor::Middle, (x, y + shift), sum);
    if !unit.is_empty() {
        svg.text("tick", Anchor::Middle, (x, y + 18.0), &fitted(unit, 0.85 * room));
    }
}

fn arc(svg: &mut Svg, part: &Part<'_>, (x, y): Point, outer: f64) {
    let thickness = THICK * outer;
    let radius = outer - thickness / 2.0;
    let round = 2.0 * PI * radius;
    let gap = if part.share < 1.0 { GAP.min(part.share * round / 2.0) } else { 0.0 };
    let drawn = part.share * round - gap;
    if drawn < 0.05 {
        return;
    }
    // A dash begins at the right; the turn brings it to the top. The sum is not the negative zero.
    let offset = -part.start * round + 0.0;
    let (x, y, radius) = (Coordinate(x), Coordinate(y), Coordinate(radius));
    svg.push(format_args!(
        "<circle class=\"{}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" stroke-width=\"{}\" \
         stroke-dasharray=\"{drawn:.2} {:.2}\" stroke-dashoffset=\"{offset:.2}\" \
         transform=\"rotate(-90 {x} {y})\"><title>{}</title></circle>",
        part.class,
        Coordinate(thickness),
        round + 1.0,
        Escaped(part.tooltip)
    ));
}

/// The names of the parts with their shares, from top to bottom as far as there is room.
fn legend(svg: &mut Svg, chart: &Chart<'_>, parts: &[(usize, f64)], from: Point, sum: f64) {
    let (left, top) = from;
    let room = svg.height - top - EDGE;
    let rows = float(parts.len()).min((room / ROW).floor());
    let first = top + (room - rows * ROW) / 2.0 + ROW / 2.0;
    for (row, (index, value)) in parts.iter().enumerate() {
        if float(row) >= rows {
            break;
        }
        let y = first + float(row) * ROW;
        let share = share(*value, sum);
        frame::key(svg, &style::part(*index), (left, y));
        let name = chart.label(*index);
        let room = svg.width - left - EDGE - SIGN - width(&share) - 7.0;
        let text = format!("{} {share}", fitted(&name, room.max(0.0)));
        svg.text("name", Anchor::Start, (left + SIGN, y + 4.0), &text);
    }
}
