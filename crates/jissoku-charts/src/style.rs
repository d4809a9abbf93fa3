//! How charts look: the one style sheet, in light and dark, in print, and with forced colours.

/// The classes of charts. Every rule is for charts only, so that a page may have it beside its own.
///
/// Colours stand in each rule, because programs that convert SVG to pictures know no variables of CSS.
/// They are Paul Tol's "bright" scheme with more contrast, the same as in the laboratory's reports.
pub const STYLE_SHEET: &str = "\
.jsk-chart{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",sans-serif;\
font-variant-numeric:tabular-nums}\
.jsk-chart text{fill:#22252a}\
.jsk-chart .title{font-size:15px;font-weight:600}\
.jsk-chart .sum{font-size:18px;font-weight:600}\
.jsk-chart .tick{fill:#6a7078}\
.jsk-chart .middle{text-anchor:middle}\
.jsk-chart .end{text-anchor:end}\
.jsk-chart .paper{fill:#fdfcfa}\
.jsk-chart .grid{fill:none;stroke:#e4e2dd}\
.jsk-chart .zero{fill:none;stroke:#6a7078}\
.jsk-chart .curve{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\
.jsk-chart .dash1{stroke-dasharray:7 5}\
.jsk-chart .dash2{stroke-dasharray:1 5}\
.jsk-chart .dash3{stroke-dasharray:12 5 1 5}\
.jsk-chart .box{fill:currentColor}\
.jsk-chart .part{fill:none;stroke:currentColor}\
.jsk-chart .pale{opacity:.5}\
.jsk-chart .c0{color:#3a6fa8}.jsk-chart .c1{color:#c53e50}.jsk-chart .c2{color:#23803a}\
.jsk-chart .c3{color:#8f2f70}.jsk-chart .c4{color:#856b0c}.jsk-chart .c5{color:#16748f}\
@media screen and (prefers-color-scheme:dark){\
.jsk-chart text{fill:#e4e6e9}.jsk-chart .tick{fill:#9aa2ac}.jsk-chart .paper{fill:#15181c}\
.jsk-chart .grid{stroke:#2c3138}.jsk-chart .zero{stroke:#9aa2ac}\
.jsk-chart .c0{color:#7fb2e5}.jsk-chart .c1{color:#f08a94}.jsk-chart .c2{color:#63bd74}\
.jsk-chart .c3{color:#d487bb}.jsk-chart .c4{color:#d3c05c}.jsk-chart .c5{color:#6fcbe6}}\
@media (forced-colors:active){\
.jsk-chart text{fill:CanvasText}.jsk-chart .paper{fill:Canvas}\
.jsk-chart .grid,.jsk-chart .zero{stroke:GrayText}}";

/// How many colours there are.
const COLOURS: usize = 6;

/// How many ways a line is dashed, with one that is not.
const DASHES: usize = 4;

/// The colour of a series, or of a part of a ring.
pub(crate) fn colour(index: usize) -> String {
    format!("c{}", index % COLOURS)
}

/// The colour of a line, and its dashes for those who do not distinguish colours: together they are
/// another for each of 24 series.
pub(crate) fn line(index: usize) -> String {
    let dash = (index + index / (2 * COLOURS)) % DASHES;
    format!("curve {} dash{dash}", colour(index))
}

/// The colour of a part of a ring; further ones are pale.
pub(crate) fn part(index: usize) -> String {
    let pale = if index < COLOURS { "" } else { " pale" };
    format!("{}{pale}", colour(index))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::limits::{PARTS_MAX, SERIES_MAX};

    #[test]
    fn series_and_parts_are_distinguished() {
        assert_eq!((0..SERIES_MAX).map(line).collect::<HashSet<_>>().len(), SERIES_MAX);
        assert_eq!((0..PARTS_MAX).map(part).collect::<HashSet<_>>().len(), PARTS_MAX);
    }

    #[test]
    fn the_style_sheet_is_text_of_xml_and_has_rules_for_charts_only() {
        assert!(!STYLE_SHEET.contains(['<', '&', '>']));
        for rule in STYLE_SHEET.split(['{', '}']).filter(|part| !part.contains(':')) {
            for selector in rule.split(',').filter(|selector| !selector.is_empty()) {
                assert!(selector.starts_with(".jsk-chart"), "{selector}");
            }
        }
    }
}
