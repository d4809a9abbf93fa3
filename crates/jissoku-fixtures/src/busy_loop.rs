//! A calibrated busy loop: an injected slowdown of known size.

use std::hint::black_box;

use jissoku_os::tsc::Clock;

/// The length of the loops that measure the overhead of a loop.
const TRIAL_NS: u64 = 100;

/// Loops per batch, and batches: the minimum of 10 ms is used.
const ROUNDS: u32 = 400;
const BATCHES: usize = 250;

/// Loops for a fixed time, including its own overhead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BusyLoop {
    clock: Clock,
    /// How far the clock has to advance: the requested time less the overhead.
    span_ns: u64,
}

impl BusyLoop {
    /// Loops for `target_ns`, accurate to one clock reading (about 10 ns). Calibration takes 30 ms.
    /// `None` for zero.
    pub(crate) fn calibrate(target_ns: u64) -> Option<Self> {
        if target_ns == 0 {
            return None;
        }
        let mut busy_loop = Self { clock: Clock::calibrate(), span_ns: target_ns.min(TRIAL_NS) };
        let excess_ns = busy_loop.measure_ns().saturating_sub(busy_loop.span_ns);
        busy_loop.span_ns = target_ns.saturating_sub(excess_ns);
        Some(busy_loop)
    }

    /// Runs the loop.
    #[inline]
    pub(crate) fn run(&self) {
        let end_ns = self.clock.now_ns() + self.span_ns;
        while black_box(self.clock.now_ns()) < end_ns {}
    }

    /// Duration of one loop. Interruptions only add time, so the minimum is used.
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
        let busy_loop = BusyLoop::calibrate(1_000_000).expect("there is something to burn");
        let start_ns = jissoku_os::clock::monotonic_ns();
        (0..5).for_each(|_| busy_loop.run());
        // A busy machine can make calibration believe in too high a cost, but not of 10 us.
        assert!(jissoku_os::clock::monotonic_ns() - start_ns >= 5 * 990_000);
    }

    #[test]
    fn nothing_takes_no_spin() {
        assert!(BusyLoop::calibrate(0).is_none());
    }
}
