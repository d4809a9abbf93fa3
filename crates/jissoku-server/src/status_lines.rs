//! Cached status lines with a Date that is updated at most once a second.
//!
//! An origin server with a clock must send Date (RFC 9110 section 6.6.1). It is updated per
//! wake-up, at the cost of one comparison, and not per request.

use jissoku_http::date::{self, DateCache};
use jissoku_http::response::StatusLine;
use jissoku_os::clock;

/// Statuses that are cached; others are formatted when needed.
const CACHED: [u16; 7] = [200, 304, 206, 404, 301, 405, 503];

#[derive(Debug)]
pub(crate) struct StatusLineCache {
    cached: [StatusLine; CACHED.len()],
    date: DateCache,
}

impl StatusLineCache {
    pub(crate) fn new(now_ns: u64) -> Self {
        let cached = CACHED.map(StatusLine::new);
        let mut cache = Self { cached, date: DateCache::default() };
        cache.refresh(now_ns);
        cache
    }

    /// Updates the date, if its second is over.
    #[inline]
    pub(crate) fn refresh(&mut self, now_ns: u64) {
        if self.date.refresh(now_ns, clock::wall_ns) {
            for status_line in &mut self.cached {
                status_line.set_date(self.date.text());
            }
        }
    }

    pub(crate) const fn date(&self) -> &[u8; date::SIZE] {
        self.date.text()
    }

    /// Calls `use_bytes` with the status line and Date for `status`.
    #[inline]
    pub(crate) fn with<T>(&self, status: u16, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
        if let Some(index) = CACHED.iter().position(|&cached| cached == status) {
            return use_bytes(self.cached[index].bytes());
        }
        let mut status_line = StatusLine::new(status);
        status_line.set_date(self.date.text());
        use_bytes(status_line.bytes())
    }
}
