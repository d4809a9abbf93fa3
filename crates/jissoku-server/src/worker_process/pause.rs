//! Pauses between replacements of a worker: the more there are in a row, the longer.

/// The first pause, and how often it doubles: up to 8 s, as after crashes.
const FIRST_NS: u64 = 250_000_000;
const DOUBLINGS_MAX: u32 = 5;

/// A pause that begins so long after the last one is a first one again.
const ROW_NS: u64 = 60_000_000_000;

/// When the next replacement may be tried.
#[derive(Debug, Default)]
pub(super) struct Pause {
    until_ns: u64,
    doublings: u32,
}

impl Pause {
    pub(super) const fn begin(&mut self, now_ns: u64) {
        let is_first = now_ns >= self.until_ns.saturating_add(ROW_NS);
        self.doublings = match self.doublings {
            _ if is_first => 0,
            DOUBLINGS_MAX => DOUBLINGS_MAX,
            doublings => doublings + 1,
        };
        self.until_ns = now_ns + (FIRST_NS << self.doublings);
    }

    /// The time until its end.
    pub(super) const fn left_ns(&self, now_ns: u64) -> u64 {
        self.until_ns.saturating_sub(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::{Pause, ROW_NS};

    #[test]
    fn pauses_in_a_row_grow_up_to_a_limit() {
        let (mut pause, mut now_ns) = (Pause::default(), 2 * ROW_NS);
        assert_eq!(pause.left_ns(now_ns), 0);
        let next_ms = |wait_ns: u64| {
            now_ns += wait_ns;
            pause.begin(now_ns);
            let left_ns = pause.left_ns(now_ns);
            now_ns += left_ns;
            assert_eq!(pause.left_ns(now_ns), 0);
            left_ns / 1_000_000
        };
        let lengths_ms = [0, 0, 0, 0, 0, 0, 0, ROW_NS - 1, ROW_NS, 0].map(next_ms);
        assert_eq!(lengths_ms, [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000, 250, 500]);
    }
}
