//! The short way to a verdict: an answer that is byte for byte one of the last good ones is good.
//!
//! A template is a whole answer that was read strictly and found right. Reading is a function of the
//! bytes alone, so equal bytes have the same outcome; anything else takes the strict path, and becomes
//! the new template if it is right. The digits of a `Date` may be any (see `date.rs`), so that a steady
//! server is never read strictly again. Two are kept, for servers that take turns between two answers.

use crate::date::{self, Block};
use crate::reader::Answer;

/// A longer answer is read strictly each time.
const SIZE_MAX: usize = 32 * 1024;

/// The last two good answers of a lane.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    recent: Template,
    other: Template,
}

#[derive(Debug, Default)]
struct Template {
    bytes: Vec<u8>,
    /// Where a date begins whose digits may be others.
    date: Option<usize>,
    status: u16,
    keeps_alive: bool,
}

impl Templates {
    /// The answer at the front of `bytes` and its size, if it is a known one.
    #[inline]
    pub(crate) fn recognise(&mut self, bytes: &[u8]) -> Option<(Answer, usize)> {
        if let Some(found) = self.recent.recognise(bytes) {
            return Some(found);
        }
        let found = self.other.recognise(bytes)?;
        std::mem::swap(&mut self.recent, &mut self.other);
        Some(found)
    }

    /// Remembers a whole answer, if it is a right one.
    pub(crate) fn learn(&mut self, bytes: &[u8], answer: Answer) {
        if answer.fault.is_some() || bytes.len() > SIZE_MAX {
            return;
        }
        std::mem::swap(&mut self.recent, &mut self.other);
        self.recent.bytes.clear();
        self.recent.bytes.extend_from_slice(bytes);
        self.recent.date = date::find(bytes);
        (self.recent.status, self.recent.keeps_alive) = (answer.status, answer.keeps_alive);
    }
}

impl Template {
    #[inline]
    fn recognise(&self, bytes: &[u8]) -> Option<(Answer, usize)> {
        let size = self.bytes.len();
        let found = size > 0 && self.is_like(bytes.get(..size)?);
        let Self { status, keeps_alive, .. } = *self;
        found.then_some((Answer { status, fault: None, keeps_alive }, size))
    }

    /// Whether an answer of the same size is the same one, but for its date.
    #[inline]
    fn is_like(&self, bytes: &[u8]) -> bool {
        let Some((ours, theirs)) =
            self.date.and_then(|at| cut(&self.bytes, at).zip(cut(bytes, at)))
        else {
            return bytes == self.bytes;
        };
        date::is_alike(ours.1, theirs.1) && ours.0 == theirs.0 && ours.2 == theirs.2
    }
}

/// What lies before a date, the date, and what lies behind it.
#[inline]
fn cut(bytes: &[u8], at: usize) -> Option<(&[u8], &Block, &[u8])> {
    let (before, rest) = bytes.split_at_checked(at)?;
    let (date, after) = rest.split_first_chunk()?;
    Some((before, date, after))
}

#[cfg(test)]
mod tests;
