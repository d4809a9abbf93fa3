//! The fast path of verification: a response that is equal to one that was verified is correct.
//!
//! A template is a response that was read and verified completely. The reader is a function of the
//! bytes, so equal bytes have an equal result; any other response is read completely, and becomes
//! the new template if it is correct. The digits of `Date` may differ (see `date.rs`). Two
//! templates are kept, for servers that alternate between two responses.

use crate::protocol::date::{self, Block};
use crate::protocol::reader::ResponseInfo;

/// Longer responses are always read completely.
const SIZE_MAX: usize = 32 * 1024;

/// The last two correct responses to a request.
#[derive(Debug, Default)]
pub(crate) struct ResponseMatcher {
    recent: Template,
    other: Template,
}

#[derive(Debug, Default)]
struct Template {
    bytes: Vec<u8>,
    /// Where a date begins whose digits may differ.
    date: Option<usize>,
    status: u16,
    keeps_alive: bool,
}

impl ResponseMatcher {
    /// The response at the front of `bytes` and its size, if it is a known one.
    #[inline]
    pub(crate) fn matches(&mut self, bytes: &[u8]) -> Option<(ResponseInfo, usize)> {
        if let Some(found) = self.recent.matches(bytes) {
            return Some(found);
        }
        let found = self.other.matches(bytes)?;
        std::mem::swap(&mut self.recent, &mut self.other);
        Some(found)
    }

    /// The size of both templates.
    pub(crate) fn size(&self) -> usize {
        self.recent.bytes.len() + self.other.bytes.len()
    }

    /// Stores a complete, correct response as a template.
    pub(crate) fn update(&mut self, bytes: &[u8], response: ResponseInfo) {
        if response.error.is_some() || bytes.len() > SIZE_MAX {
            return;
        }
        std::mem::swap(&mut self.recent, &mut self.other);
        self.recent.bytes.clear();
        self.recent.bytes.extend_from_slice(bytes);
        self.recent.date = date::find(bytes);
        (self.recent.status, self.recent.keeps_alive) = (response.status, response.keeps_alive);
    }
}

impl Template {
    #[inline]
    fn matches(&self, bytes: &[u8]) -> Option<(ResponseInfo, usize)> {
        let size = self.bytes.len();
        let found = size > 0 && self.is_like(bytes.get(..size)?);
        let Self { status, keeps_alive, .. } = *self;
        found.then_some((ResponseInfo { status, error: None, keeps_alive }, size))
    }

    /// Whether a response of the same size is equal, except for the digits of its date.
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

/// Splits bytes into those before a date, the date, and those after it.
#[inline]
fn cut(bytes: &[u8], at: usize) -> Option<(&[u8], &Block, &[u8])> {
    let (before, rest) = bytes.split_at_checked(at)?;
    let (date, after) = rest.split_first_chunk()?;
    Some((before, date, after))
}

#[cfg(test)]
mod tests;
