//! What is wrong, and on which line.

use std::fmt;
use std::ops::Range;

/// An error of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// Counted from 1.
    pub line: usize,
    /// One sentence without the line.
    pub why: String,
}

impl Problem {
    pub(super) fn new(text: &str, refusal: Refusal) -> Self {
        Self { line: line(text, &refusal.at), why: refusal.why }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

/// The same with its place in bytes.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) at: Range<usize>,
    pub(super) why: String,
}

pub(super) fn refuse(at: Range<usize>, why: &str) -> Refusal {
    Refusal { at, why: why.to_owned() }
}

pub(super) fn line(text: &str, at: &Range<usize>) -> usize {
    text.get(..at.start).unwrap_or_default().matches('\n').count() + 1
}
