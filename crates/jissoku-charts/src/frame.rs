//! What is around a plot with axes: title, legend, unit, grid and labels.

use std::borrow::Cow;

use crate::chart::{Chart, Place};
use crate::kind::Kind;
use crate::markup::{fitted, width};
use crate::number::{Coordinate, float, whole};
use crate::scale::Scale;
use crate::style;
use crate::svg::{Anchor, Point, Svg};

/// Pixels: around all, of the title, of a line of text, below the plot for its labels, between a plot
/// and its labels, from a baseline to the middle of its digits.
const EDGE: f64 = 8.0;
const TITLE: f64 = 26.0;
const LINE: f64 = 18.0;
const BELOW: f64 = 26.0;
const GAP: f64 = 6.0;
const HALF_DIGIT: f64 = 4.0;

/// The width of the sign of an entry of the legend with its distance to the name, and that between
/// entries.
const SIGN: f64 = 24.0;
const BETWEEN: f64 = 18.0;

/// Labels and names of a legend are cut off at this width.
const LABEL_WIDTH_MAX: f64 = 120.0;
const NAME_WIDTH_MAX: f64 = 160.0;

/// The part of the height that a legend takes at most; further names are left out.
const LEGEND_PART: f64 = 0.3;

/// Pixels from one tick to the next, at least.
const TICK_HEIGHT: f64 = 36.0;
pub(crate) const TICK_WIDTH: f64 = 80.0;

/// A rectangle for the marks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plot {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Plot {
    /// A place across: 0 at the left edge, 1 at the right one.
    pub(crate) fn x(&self, part: f64) -> f64 {
        self.left + part * (self.right - self.left)
    }

    /// A place up: 0 at the lower edge, 1 at the upper one.
    pub(crate) fn y(&self, part: f64) -> f64 {
        self.bottom - part * (self.bottom - self.top)
    }

    pub(crate) fn width(&self) -> f64 {
        self.right - self.left
    }
}

/// Draws the visible title; returns where the rest begins.
pub(crate) fn title(svg: &mut Svg, chart: &Chart<'_>) -> f64 {
    if chart.place == Place::Page || chart.title.is_empty() {
        return EDGE;
    }
    // Its letters are larger than those of labels by a quarter, and bold.
    let text = fitted(chart.title, (svg.width - 2.0 * EDGE) / 1.3);
    svg.text("title", Anchor::Start, (EDGE, EDGE + 15.0), &text);
    EDGE + TITLE
}

/// Draws title, legend and unit; returns the height that is left for the plot, from the top on.
pub(crate) fn heading(svg: &mut Svg, chart: &Chart<'_>) -> (f64, f64) {
    let mut top = title(svg, chart);
    if chart.series.len() > 1 {
        top = legend(svg, chart, top);
    }
    if !chart.unit.is_empty() {
        let text = fitted(chart.unit, svg.width - 2.0 * EDGE);
        svg.text("tick", Anchor::Start, (EDGE, top + 11.0), &text);
        top += LINE;
    }
    let x_title = if chart.x_title.is_empty() { 0.0 } else { LINE };
    (top + EDGE, svg.height - BELOW - x_title)
}

/// Draws the names of the series from left to right, in several lines if need be.
fn legend(svg: &mut Svg, chart: &Chart<'_>, top: f64) -> f64 {
    let lines_max = (svg.height * LEGEND_PART / LINE).floor().max(1.0);
    let (mut x, mut line) = (EDGE, 0.0);
    for index in 0..chart.series.len() {
        let name = chart.name(index);
        let name = fitted(&name, NAME_WIDTH_MAX.min(svg.width - 2.0 * EDGE - SIGN));
        let taken = SIGN + width(&name);
        if x > EDGE && x + taken > svg.width - EDGE {
            line += 1.0;
            if line >= lines_max {
                return top + LINE * lines_max + 4.0;
            }
            x = EDGE;
        }
        let y = top + LINE * line + 8.0;
        sign(svg, chart.kind, index, (x, y));
        svg.text("name", Anchor::Start, (x + SIGN, y + HALF_DIGIT), &name);
        x += taken + BETWEEN;
    }
    top + LINE * (line + 1.0) + 4.0
}

/// A sample of the marks of a series.
fn sign(svg: &mut Svg, kind: Kind, index: usize, (x, y): Point) {
    if kind == Kind::Line {
        svg.horizontal(&style::line(index), x, x + 18.0, y);
    } else {
        key(svg, &style::colour(index), (x, y));
    }
}

/// A box in the colour of a series, or of a part.
pub(crate) fn key(svg: &mut Svg, class: &str, (x, y): Point) {
    let (x, y) = (Coordinate(x + 4.0), Coordinate(y - 6.0));
    svg.push(format_args!(
        "<rect class=\"box {class}\" x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\"/>"
    ));
}

/// How many steps an axis of this height has.
pub(crate) fn steps_up((top, bottom): (f64, f64)) -> f64 {
    ((bottom - top) / TICK_HEIGHT).floor().clamp(1.0, 8.0)
}

/// Draws the axis of the values and the titles of both; returns where the plot is.
pub(crate) fn grid(
    svg: &mut Svg,
    chart: &Chart<'_>,
    (top, bottom): (f64, f64),
    scale: &Scale,
) -> Plot {
    let labels = scale.labels();
    let widest = labels.iter().map(|label| width(label)).fold(0.0, f64::max);
    let left = (EDGE + widest + GAP).min(svg.width / 2.0);
    let plot = Plot { left, right: svg.width - 2.0 * EDGE, top, bottom };
    for (tick, label) in scale.ticks.iter().zip(labels) {
        let y = plot.y(scale.at(*tick));
        svg.horizontal("grid", plot.left, plot.right, y);
        svg.text("tick", Anchor::End, (plot.left - GAP, y + HALF_DIGIT), &label);
    }
    if !chart.x_title.is_empty() {
        let text = fitted(chart.x_title, plot.width());
        svg.text("tick", Anchor::Middle, (plot.x(0.5), svg.height - EDGE), &text);
    }
    plot
}

/// Draws texts below a plot, at these places at equal distances; where they do not fit, every second
/// one, every third, and so on.
pub(crate) fn below<'a>(
    svg: &mut Svg,
    plot: &Plot,
    places: &[f64],
    texts: impl Iterator<Item = &'a str>,
) {
    let room = LABEL_WIDTH_MAX.min(plot.width());
    let texts: Vec<Cow<'a, str>> = texts.map(|text| fitted(text, room)).collect();
    let widest = texts.iter().map(|text| width(text)).fold(0.0, f64::max);
    let distance = match (places.first(), places.last()) {
        (Some(first), Some(last)) if places.len() > 1 => {
            ((last - first) / float(places.len() - 1)).max(0.1)
        }
        _ => plot.width(),
    };
    let every = whole(((widest + EDGE) / distance).ceil()).max(1);
    for (x, text) in places.iter().zip(&texts).step_by(every) {
        let half = width(text) / 2.0 + 1.0;
        let x = x.max(half).min(svg.width - half);
        svg.text("tick", Anchor::Middle, (x, plot.bottom + LINE), text);
    }
}

/// Says in the middle of a plot that there is nothing to be drawn.
pub(crate) fn no_values(svg: &mut Svg, middle: Point) {
    svg.text("tick", Anchor::Middle, middle, "no values");
}
