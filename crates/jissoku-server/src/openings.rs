//! The first lines of answers, with a Date that is brought up to date at most once a second.
//!
//! An origin server that has a clock must say the date (RFC 9110 section 6.6.1). It is kept off the path of
//! a request: a wake-up compares two numbers.

use jissoku_http::date;
use jissoku_http::response::Opening;
use jissoku_os::clock;

const SECOND_NS: u64 = 1_000_000_000;

/// The statuses that are answered often; others are made when they are needed.
const KEPT: [u16; 7] = [200, 304, 206, 404, 301, 405, 503];

/// Opening lines for every status.
#[derive(Debug)]
pub(crate) struct Openings {
    kept: [Opening; KEPT.len()],
    date: [u8; date::SIZE],
    /// When the date changes, on the monotonic clock.
    valid_until_ns: u64,
}

impl Openings {
    pub(crate) fn new(now_ns: u64) -> Self {
        let kept = KEPT.map(Opening::new);
        let mut openings = Self { kept, date: date::imf_fixdate(0), valid_until_ns: 0 };
        openings.refresh(now_ns);
        openings
    }

    /// Brings the date up to date, if its second is over.
    #[inline]
    pub(crate) fn refresh(&mut self, now_ns: u64) {
        if now_ns >= self.valid_until_ns {
            self.renew(now_ns);
        }
    }

    #[cold]
    fn renew(&mut self, now_ns: u64) {
        let wall_ns = clock::wall_ns();
        self.valid_until_ns = now_ns + SECOND_NS - wall_ns % SECOND_NS;
        self.date = date::imf_fixdate(wall_ns / SECOND_NS);
        for opening in &mut self.kept {
            opening.set_date(&self.date);
        }
    }

    /// Calls `use_bytes` with the opening lines of `status`.
    #[inline]
    pub(crate) fn with<T>(&self, status: u16, use_bytes: impl FnOnce(&[u8]) -> T) -> T {
        if let Some(index) = KEPT.iter().position(|&kept| kept == status) {
            return use_bytes(self.kept[index].bytes());
        }
        let mut opening = Opening::new(status);
        opening.set_date(&self.date);
        use_bytes(opening.bytes())
    }
}
