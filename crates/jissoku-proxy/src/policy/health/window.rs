//! Results of a server's requests in the present 10 s, and failures in a row, as one word.

const WINDOW_NS: u64 = 10_000_000_000;
const COUNT_BITS: u32 = 20;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const ROW_MAX: u64 = 255;

/// Requests from which their share of failures counts.
const REQUESTS_MIN: u64 = 20;

/// The counts. The number of the window is kept modulo 2^16, 7 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Window {
    number: u64,
    requests: u64,
    failures: u64,
    in_row: u64,
}

impl Window {
    /// With one more result.
    pub(super) fn counted(self, is_failure: bool, now_ns: u64) -> Self {
        let number = (now_ns / WINDOW_NS) & 0xffff;
        let same = if number == self.number {
            self
        } else {
            Self { in_row: self.in_row, ..Self::default() }
        };
        let failed = u64::from(is_failure);
        Self {
            number,
            requests: (same.requests + 1).min(COUNT_MAX),
            failures: (same.failures + failed).min(COUNT_MAX),
            in_row: if is_failure { (same.in_row + 1).min(ROW_MAX) } else { 0 },
        }
    }

    /// Whether the counts eject the server: failures in a row, or half of at least 20 requests.
    pub(super) fn is_unhealthy(self, failures_in_row: u32) -> bool {
        let half = self.requests >= REQUESTS_MIN && self.failures * 2 >= self.requests;
        self.in_row >= u64::from(failures_in_row).min(ROW_MAX) || half
    }

    pub(super) const fn pack(self) -> u64 {
        self.number << 48 | self.requests << 28 | self.failures << 8 | self.in_row
    }

    pub(super) const fn unpack(word: u64) -> Self {
        Self {
            number: word >> 48,
            requests: (word >> 28) & COUNT_MAX,
            failures: (word >> 8) & COUNT_MAX,
            in_row: word & ROW_MAX,
        }
    }
}
