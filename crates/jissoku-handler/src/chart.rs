//! Charts that the server draws.

/// What a chart shows of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartKind {
    /// A line through them.
    Line = 1,
    /// Bars from zero.
    Bar,
    /// How many are in each of several ranges.
    Histogram,
    /// A line without axes, as small as a word.
    Sparkline,
    /// Their shares in the sum.
    Ring,
}

/// A chart. What is empty or 0 is as if it were not there. Texts are plain, have up to 1,000 bytes, and
/// are escaped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chart<'a> {
    /// Its title.
    pub title: &'a str,
    /// For those who do not see it; otherwise made of the values.
    pub description: &'a str,
    /// What the values are, such as "requests per second".
    pub unit: &'a str,
    /// What the other axis is.
    pub x_title: &'a str,
    /// Up to 16 names of the legend, each with its numbers; of [`ChartKind::Histogram`],
    /// [`ChartKind::Sparkline`] and [`ChartKind::Ring`] one. NAN is absent.
    pub series: &'a [(&'a str, &'a [f64])],
    /// Names of the bars, or of the parts of the ring: as many as values. Of a line, any number of texts
    /// at equal distances below it.
    pub labels: &'a [&'a str],
    /// Where the values of a line are, ascending: as many as the longest series has.
    pub positions: &'a [f64],
    /// What the axis of the values contains at least, if these two differ.
    pub reach: (f64, f64),
    /// Ranges of a histogram, up to 200.
    pub bins: u32,
    /// Width and height in pixels, up to 4,096.
    pub size: (u32, u32),
}
