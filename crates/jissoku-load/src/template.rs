//! The short way to a verdict: an answer that is byte for byte one of the last good ones is good.
//!
//! A template is a whole answer that was read strictly and found right. Reading is a function of the
//! bytes alone, so equal bytes have the same outcome; anything else takes the strict path, and becomes
//! the new template if it is right. A new `Date` costs one strict reading a second. Two are kept,
//! since two workers of a server may disagree on the second for a moment.

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
        self.recent.keeps_alive = answer.keeps_alive;
    }
}

impl Template {
    #[inline]
    fn recognise(&self, bytes: &[u8]) -> Option<(Answer, usize)> {
        let size = self.bytes.len();
        let found = size > 0 && bytes.get(..size) == Some(&self.bytes[..]);
        found.then_some((Answer { fault: None, keeps_alive: self.keeps_alive }, size))
    }
}

#[cfg(test)]
mod tests;
