//! The latency of a server as one word: an average that rises to each peak at once, and falls as
//! later requests are faster (peak EWMA, as in Finagle).

/// The time in which what was known before loses 63 % of its weight.
const DECAY_NS: f32 = 10e9;

/// The resolution of times: 2^16 ns. A word can distinguish times that are up to 39 hours away.
const TICK_BITS: u32 = 16;

/// A smaller latency counts as this one: 0 is unknown.
const LEAST_NS: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Latency {
    /// In nanoseconds; 0 if there was no request.
    ns: f32,
    /// When that was so, in ticks modulo 2^32.
    tick: u32,
}

impl Latency {
    /// With one more request.
    #[expect(clippy::cast_precision_loss, reason = "three digits of a latency are enough")]
    pub(super) fn observed(self, latency_ns: u64, now_ns: u64) -> Self {
        let sample = latency_ns.max(LEAST_NS) as f32;
        let weight = self.weight(now_ns);
        // A peak is compared with what is left of the last one.
        let ns = if sample >= self.ns * weight {
            sample
        } else {
            self.ns.mul_add(weight, sample * (1.0 - weight))
        };
        Self { ns, tick: tick(now_ns) }
    }

    /// In nanoseconds; `None` if there was no request. It fades when there are none, so that a server
    /// that was slow is tried again.
    pub(super) fn at(self, now_ns: u64) -> Option<f32> {
        (self.ns > 0.0).then(|| self.ns * self.weight(now_ns))
    }

    /// The weight that what is known has now.
    #[expect(clippy::cast_precision_loss, reason = "a tick more or less does not matter")]
    fn weight(self, now_ns: u64) -> f32 {
        let passed = tick(now_ns).wrapping_sub(self.tick);
        // Another worker may be ahead of this one by some microseconds.
        let passed = if passed > u32::MAX / 2 { 0 } else { passed };
        (-(passed as f32) * (1_u32 << TICK_BITS) as f32 / DECAY_NS).exp()
    }

    pub(super) fn pack(self) -> u64 {
        u64::from(self.ns.to_bits()) << 32 | u64::from(self.tick)
    }

    pub(super) fn unpack(word: u64) -> Self {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or_default();
        Self { ns: f32::from_bits(half(word >> 32)), tick: half(word) }
    }
}

fn tick(now_ns: u64) -> u32 {
    u32::try_from((now_ns >> TICK_BITS) & u64::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[expect(clippy::cast_precision_loss, reason = "three digits are compared")]
    fn in_floats(ns: u64) -> f32 {
        ns as f32
    }

    #[test]
    fn a_peak_counts_at_once_and_fades() {
        let mut latency = Latency::default();
        assert_eq!(latency.at(0), None);
        latency = latency.observed(2 * MS, 0);
        assert_eq!(latency.at(0), Some(2e6));
        latency = latency.observed(50 * MS, MS);
        assert_eq!(latency.at(MS), Some(50e6));
        // A fast request says little by itself, and a thousand a second for 10 s much.
        let once = latency.observed(2 * MS, 2 * MS).at(2 * MS).unwrap();
        assert!((49.9e6..50e6).contains(&once), "{once}");
        for ms in 2..10_001 {
            latency = latency.observed(2 * MS, ms * MS);
        }
        let later = latency.at(10_000 * MS).unwrap();
        assert!((19e6..20.5e6).contains(&later), "{later}");
        // Without requests it fades likewise, and is not unknown.
        let silent = Latency::default().observed(50 * MS, 0).at(10_000 * MS).unwrap();
        assert!((18e6..19e6).contains(&silent), "{silent}");
        assert!(Latency::default().observed(0, 0).at(0) > Some(0.0));
    }

    #[test]
    fn it_is_not_disturbed_by_another_worker_that_is_ahead() {
        let latency = Latency::default().observed(5 * MS, 100 * MS);
        assert_eq!(latency.at(99 * MS), Some(5e6));
        assert_eq!(latency.observed(MS, 99 * MS).at(99 * MS), Some(5e6));
    }

    proptest! {
        #[test]
        fn it_lies_between_the_fastest_and_the_slowest(
            steps in proptest::collection::vec((0..1_000 * MS, 1..60_000 * MS), 1..50),
        ) {
            let (mut latency, mut now_ns) = (Latency::default(), 0);
            let mut slowest = 0;
            for (wait_ns, latency_ns) in steps {
                now_ns += wait_ns;
                latency = Latency::unpack(latency.observed(latency_ns, now_ns).pack());
                slowest = slowest.max(latency_ns.max(LEAST_NS));
                let present = latency.at(now_ns).unwrap();
                let [slowest, last] = [slowest, latency_ns.max(LEAST_NS)].map(in_floats);
                prop_assert!(present > 0.0 && present <= slowest * 1.001);
                prop_assert!(present >= last * 0.999);
            }
        }
    }
}
