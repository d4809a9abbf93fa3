//! How many connections to a server were busy at once, lately: more unused ones are not worth
//! keeping.

const SECOND_NS: u64 = 1_000_000_000;

/// The seconds that count: ten, and the present one.
const SECONDS: usize = 11;

/// The largest number of busy connections of the last 10 to 11 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusyPeak {
    /// The number of the present second.
    second: u64,
    busy: u32,
    /// The largest number within each second, at its number modulo their count.
    largest: [u32; SECONDS],
}

impl BusyPeak {
    /// None is or was busy.
    pub const fn new(now_ns: u64) -> Self {
        Self { second: now_ns / SECOND_NS, busy: 0, largest: [0; SECONDS] }
    }

    /// One more is busy.
    pub fn begin(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.busy = self.busy.saturating_add(1);
        if let Some(largest) = self.largest.get_mut(place(self.second)) {
            *largest = (*largest).max(self.busy);
        }
    }

    /// One is not busy any more.
    pub fn end(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.busy = self.busy.saturating_sub(1);
    }

    /// The largest number.
    pub fn largest(&mut self, now_ns: u64) -> u32 {
        self.advance(now_ns);
        self.largest.iter().copied().max().unwrap_or_default()
    }

    /// A second in which nothing changed had as many as there are.
    fn advance(&mut self, now_ns: u64) {
        let second = now_ns / SECOND_NS;
        let passed = second.saturating_sub(self.second).min(SECONDS as u64);
        for begun in 0..passed {
            if let Some(largest) = self.largest.get_mut(place(second - begun)) {
                *largest = self.busy;
            }
        }
        self.second = self.second.max(second);
    }
}

fn place(second: u64) -> usize {
    usize::try_from(second % SECONDS as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_peak_is_forgotten_after_ten_seconds() {
        let mut peak = BusyPeak::new(5 * SECOND_NS);
        assert_eq!(peak.largest(5 * SECOND_NS), 0);
        (0..3).for_each(|_| peak.begin(6 * SECOND_NS));
        (0..2).for_each(|_| peak.end(6 * SECOND_NS));
        assert_eq!(peak.largest(16 * SECOND_NS), 3);
        assert_eq!(peak.largest(17 * SECOND_NS), 1, "one is still busy");
        peak.end(17 * SECOND_NS);
        assert_eq!(peak.largest(27 * SECOND_NS), 1);
        assert_eq!(peak.largest(28 * SECOND_NS), 0);
        peak.end(28 * SECOND_NS);
        assert_eq!(peak.largest(1000 * SECOND_NS), 0);
    }

    proptest! {
        #[test]
        fn it_is_the_largest_number_of_the_last_seconds(
            steps in proptest::collection::vec((0..3_u8, 0..4_000_000_000_u64), 0..100),
        ) {
            let mut peak = BusyPeak::new(0);
            // When there were how many, until the next entry.
            let (mut now_ns, mut busy, mut history) = (0, 0_u32, vec![(0, 0)]);
            for (step, wait_ns) in steps {
                now_ns += wait_ns;
                match step {
                    0 => {
                        peak.begin(now_ns);
                        busy += 1;
                    }
                    1 if busy > 0 => {
                        peak.end(now_ns);
                        busy -= 1;
                    }
                    _ => {}
                }
                history.push((now_ns, busy));
                let from_ns = (now_ns / SECOND_NS).saturating_sub(10) * SECOND_NS;
                let ends = history.iter().skip(1).map(|(end_ns, _)| *end_ns).chain([u64::MAX]);
                let lasting = history.iter().zip(ends).filter(|(_, end_ns)| *end_ns >= from_ns);
                let largest = lasting.map(|((_, busy), _)| *busy).max().unwrap_or_default();
                prop_assert_eq!(peak.largest(now_ns), largest);
            }
        }
    }
}
