//! Burns a known amount of time: a planted slowdown, for laboratories that want to see whether they see it.

use std::hint::black_box;

use jissoku_os::tsc::Clock;

/// The length of the spins that are tried to learn what one costs beyond its length.
const TRIAL_NS: u64 = 100;

/// Spins in a batch, and batches: the quietest of 10 ms is believed.
const ROUNDS: u32 = 400;
const BATCHES: usize = 250;

/// Spins for a fixed time, its own overhead included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    clock: Clock,
    /// How far the clock has to move; less than what was asked for by what a spin costs beyond it.
    span_ns: u64,
}

impl Spin {
    /// Spins for `target_ns` each time, within a reading of the clock (some 10 ns). Takes 30 ms to learn
    /// the clock's pace and the cost of reading it. `None` when there is nothing to burn.
    pub(crate) fn calibrate(target_ns: u64) -> Option<Self> {
        if target_ns == 0 {
            return None;
        }
        let mut spin = Self { clock: Clock::calibrate(), span_ns: target_ns.min(TRIAL_NS) };
        let excess_ns = spin.measure_ns().saturating_sub(spin.span_ns);
        spin.span_ns = target_ns.saturating_sub(excess_ns);
        Some(spin)
    }

    /// Burns the time.
    #[inline]
    pub(crate) fn run(&self) {
        let end_ns = self.clock.now_ns() + self.span_ns;
        while black_box(self.clock.now_ns()) < end_ns {}
    }

    /// What one spin takes. An interruption only ever adds, so the least is the truth.
    fn measure_ns(&self) -> u64 {
        let batch = || {
            let start_ns = self.clock.now_ns();
            (0..ROUNDS).for_each(|_| black_box(self).run());
            (self.clock.now_ns() - start_ns) / u64::from(ROUNDS)
        };
        (0..BATCHES).map(|_| batch()).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spin_is_no_shorter_than_it_should_be() {
        let spin = Spin::calibrate(1_000_000).expect("there is something to burn");
        let start_ns = jissoku_os::clock::monotonic_ns();
        (0..5).for_each(|_| spin.run());
        // A busy machine can make calibration believe in too high a cost, but not of 10 us.
        assert!(jissoku_os::clock::monotonic_ns() - start_ns >= 5 * 990_000);
    }

    #[test]
    fn nothing_takes_no_spin() {
        assert!(Spin::calibrate(0).is_none());
    }
}
