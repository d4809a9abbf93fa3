//! Why a chart cannot be drawn.

use std::fmt::{self, Display};

use crate::limits::{BARS_MAX, SERIES_MAX};

/// The reason, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) String);

impl Error {
    /// A chart has this many series, which are too many.
    pub fn series(count: usize) -> Self {
        Self(format!("a chart has at most {SERIES_MAX} series, not {count}"))
    }

    /// A chart has this many labels, which are too many.
    pub fn label_count(count: usize) -> Self {
        Self(format!("a chart has at most {BARS_MAX} labels, not {count}"))
    }
}

impl Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
