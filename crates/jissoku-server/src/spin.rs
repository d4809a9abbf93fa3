//! Burns a known amount of time: a planted slowdown, for laboratories that want to see whether they see it.

use std::hint::black_box;

use jissoku_os::tsc::Clock;

/// Spins per calibration; the quietest of some is believed.
const ROUNDS: u32 = 400;
const BATCHES: usize = 25;

/// Spins for a fixed time, its own overhead included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    clock: Clock,
    /// How far the clock has to move; less than what was asked for by what a spin costs beyond it.
    span_ns: u64,
}

impl Spin {
    /// Spins for `target_ns` each time, within a reading of the clock (some 10 ns). Takes 20 ms and
    /// 10,000 spins to learn the cost of a reading. `None` when there is nothing to burn.
    pub(crate) fn calibrate(target_ns: u64) -> Option<Self> {
        if target_ns == 0 {
            return None;
        }
        let mut spin = Self { clock: Clock::calibrate(), span_ns: target_ns.min(1_000) };
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
