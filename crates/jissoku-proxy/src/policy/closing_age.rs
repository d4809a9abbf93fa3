//! How long a server keeps connections that are not used, as far as its closing them has shown, or
//! as it says.

const WINDOW_NS: u64 = 10_000_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// For how many nanoseconds an unused connection is used again that its server keeps for
/// `timeout_s`, as its Keep-Alive says: a second less, since a request may be on its way when that
/// is over, but at least half of it.
pub const fn announced_ns(timeout_s: u32) -> u64 {
    let timeout_ns = timeout_s as u64 * SECOND_NS;
    let (less_ns, half_ns) = (timeout_ns.saturating_sub(SECOND_NS), timeout_ns / 2);
    if less_ns > half_ns { less_ns } else { half_ns }
}

/// No connection was closed.
const NONE_NS: u64 = u64::MAX;

/// The shortest time after which a server has closed an unused connection, of the last 10 to 20 s.
///
/// A restart closes connections of any age; that is forgotten with its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosingAge {
    /// The number of the present window.
    window: u64,
    /// The shortest time of the window before and of the present one.
    shortest_ns: [u64; 2],
}

impl ClosingAge {
    /// No connection was closed until now.
    pub const fn new(now_ns: u64) -> Self {
        Self { window: now_ns / WINDOW_NS, shortest_ns: [NONE_NS; 2] }
    }

    /// The server has closed a connection that was unused for `age_ns`.
    pub fn record(&mut self, age_ns: u64, now_ns: u64) {
        *self = self.at(now_ns);
        self.shortest_ns[1] = self.shortest_ns[1].min(age_ns);
    }

    /// For how long an unused connection can be expected to stay: half the shortest time after
    /// which one was closed. `None` if none was.
    pub fn trusted_ns(&self, now_ns: u64) -> Option<u64> {
        let [before_ns, present_ns] = self.at(now_ns).shortest_ns;
        let shortest_ns = present_ns.min(before_ns);
        (shortest_ns != NONE_NS).then_some(shortest_ns / 2)
    }

    fn at(&self, now_ns: u64) -> Self {
        let window = now_ns / WINDOW_NS;
        match window.saturating_sub(self.window) {
            0 => *self,
            1 => Self { window, shortest_ns: [self.shortest_ns[1], NONE_NS] },
            _ => Self::new(now_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_or_half_is_taken_off_what_a_server_says() {
        let halves = [0, 1, 2, 3, 5, 60].map(|timeout_s| announced_ns(timeout_s) * 2 / SECOND_NS);
        assert_eq!(halves, [0, 1, 2, 4, 8, 118]);
    }

    #[test]
    fn half_the_shortest_age_is_trusted_until_it_is_forgotten() {
        let mut age = ClosingAge::new(5);
        assert_eq!(age.trusted_ns(5), None);
        age.record(100, 6);
        age.record(40, 7);
        age.record(60, 8);
        assert_eq!(age.trusted_ns(WINDOW_NS), Some(20));
        age.record(80, WINDOW_NS);
        assert_eq!(age.trusted_ns(2 * WINDOW_NS - 1), Some(20));
        assert_eq!(age.trusted_ns(2 * WINDOW_NS), Some(40));
        assert_eq!(age.trusted_ns(3 * WINDOW_NS), None);
        age.record(10, 9 * WINDOW_NS);
        assert_eq!(age.trusted_ns(9 * WINDOW_NS), Some(5));
    }
}
