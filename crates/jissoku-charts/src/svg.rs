//! The document: its frame for those who see it and those who do not, and its elements.

use std::fmt;
use std::fmt::Write;

use crate::chart::{Chart, Place};
use crate::markup::Escaped;
use crate::number::Coordinate;
use crate::style::STYLE_SHEET;

/// A point in pixels.
pub(crate) type Point = (f64, f64);

/// Which end of a text is at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn class(self) -> &'static str {
        match self {
            Self::Start => "",
            Self::Middle => " middle",
            Self::End => " end",
        }
    }
}

/// A document that is written.
#[derive(Debug)]
pub(crate) struct Svg {
    text: String,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Svg {
    /// Begins a document. An image has the text of its `title` as its name, and that of its `desc` as
    /// its description (SVG Accessibility API Mappings), without identifiers, which two charts of a
    /// page could share.
    pub(crate) fn begin(chart: &Chart<'_>, description: &str) -> Self {
        let (width, height) = chart.pixels();
        let mut svg = Self { text: String::new(), width: width.into(), height: height.into() };
        svg.push(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"jsk-chart {}\" role=\"img\" \
             width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">",
            chart.kind.word(),
        ));
        let title = if chart.title.is_empty() { chart.kind.word() } else { chart.title };
        svg.push(format_args!("<title>{}</title>", Escaped(title)));
        svg.push(format_args!("<desc>{}</desc>", Escaped(description)));
        if chart.place == Place::Anywhere {
            svg.push(format_args!("<style>{STYLE_SHEET}</style>"));
            svg.push(format_args!("<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>"));
        }
        svg
    }

    /// Ends it.
    pub(crate) fn end(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    pub(crate) fn push(&mut self, markup: fmt::Arguments<'_>) {
        // To write into memory does not fail.
        let _ = self.text.write_fmt(markup);
    }

    /// A text; its point is at the baseline.
    pub(crate) fn text(&mut self, class: &str, anchor: Anchor, (x, y): Point, text: &str) {
        let (x, y) = (Coordinate(x), Coordinate(y));
        let end = anchor.class();
        self.push(format_args!(
            "<text class=\"{class}{end}\" x=\"{x}\" y=\"{y}\">{}</text>",
            Escaped(text)
        ));
    }

    /// A line across.
    pub(crate) fn horizontal(&mut self, class: &str, left: f64, right: f64, y: f64) {
        let (left, right, y) = (Coordinate(left), Coordinate(right), Coordinate(y));
        self.push(format_args!("<path class=\"{class}\" d=\"M{left} {y}H{right}\"/>"));
    }

    /// A box, with a text that a pointer shows.
    pub(crate) fn bar(&mut self, class: &str, from: Point, to: Point, tooltip: &str) {
        let (left, right) = (from.0.min(to.0), from.0.max(to.0));
        let (top, bottom) = (from.1.min(to.1), from.1.max(to.1));
        let (x, y) = (Coordinate(left), Coordinate(top));
        let (width, height) = (Coordinate(right - left), Coordinate(bottom - top));
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">\
             <title>{}</title></rect>",
            Escaped(tooltip)
        ));
    }
}
