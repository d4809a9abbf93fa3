//! The kinds of charts, and how large they are.

/// A kind of chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A line through the values of each series.
    Line,
    /// A bar from zero for each value, beside those of the other series with the same label.
    Bar,
    /// How many values of the one series are in each of several ranges.
    Histogram,
    /// A line without axes, as small as a word.
    Sparkline,
    /// The shares of the values of the one series in their sum.
    Ring,
}

impl Kind {
    /// Its name in sentences and in Python.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Bar => "bar",
            Self::Histogram => "histogram",
            Self::Sparkline => "sparkline",
            Self::Ring => "ring",
        }
    }

    /// The kind that has this name.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Line, Self::Bar, Self::Histogram, Self::Sparkline, Self::Ring]
            .into_iter()
            .find(|kind| kind.word() == word)
    }

    /// Pixels if no size is asked for.
    pub(crate) const fn size(self) -> (u32, u32) {
        match self {
            Self::Line | Self::Bar | Self::Histogram => (640, 320),
            Self::Sparkline => (160, 32),
            Self::Ring => (480, 240),
        }
    }

    /// The least size in pixels that leaves room for a plot.
    pub(crate) const fn size_min(self) -> (u32, u32) {
        match self {
            Self::Line | Self::Bar | Self::Histogram => (160, 144),
            Self::Sparkline => (16, 8),
            Self::Ring => (64, 64),
        }
    }
}
