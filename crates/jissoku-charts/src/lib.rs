//! Charts: arrays of numbers as SVG, without a script.
//!
//! `chart` is what is drawn, with its limits; each kind of chart has a module, and `frame` draws what
//! is around their plots. Pure: no clock, no file, no other crate. The same chart gives the same bytes.
//!
//! Text is escaped in one place, `markup::Escaped`, and coordinates are rounded in one,
//! `number::Coordinate`.

mod bars;
mod chart;
mod description;
mod error;
mod frame;
mod histogram;
mod kind;
mod limits;
mod lines;
mod markup;
mod number;
mod ring;
mod scale;
mod style;
mod svg;

pub use chart::{Chart, Place, Series};
pub use error::Error;
pub use kind::Kind;
pub use limits::{
    BARS_MAX, BINS_MAX, PARTS_MAX, SERIES_MAX, SIZE_MAX, TEXT_MAX, VALUE_MAX, VALUES_MAX,
};
pub use style::STYLE_SHEET;

use svg::Svg;

/// Draws a chart, as an element `svg` with its namespace: a document, or a part of an HTML page.
pub fn draw(chart: &Chart<'_>) -> Result<String, Error> {
    chart.check()?;
    let mut svg = Svg::begin(chart, &description::of(chart));
    match chart.kind {
        Kind::Line => lines::draw(&mut svg, chart),
        Kind::Bar => bars::draw(&mut svg, chart),
        Kind::Histogram => histogram::draw(&mut svg, chart),
        Kind::Sparkline => lines::draw_spark(&mut svg, chart),
        Kind::Ring => ring::draw(&mut svg, chart),
    }
    Ok(svg.end())
}

#[cfg(test)]
mod tests;
