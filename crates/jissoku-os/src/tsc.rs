//! A fast clock: the time stamp counter of the CPU if it is reliable, else the clock of the kernel.
//! It is reliable if the kernel uses it as clock source and it is constant and non-stop.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

/// Duration of the calibration. Readings err by about 50 ns, so the frequency is accurate to 3 ppm.
const CALIBRATION_NS: u64 = 20_000_000;

/// Number of attempts to read both clocks simultaneously; the tightest is used.
const PAIRS: usize = 16;

/// Fractional bits of the factor from ticks to nanoseconds.
const FRACTION_BITS: u32 = 32;

/// A clock in nanoseconds; only differences are meaningful. It is not slewed by time
/// synchronisation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Tsc { origin: Pair, scale: u64 },
    Kernel,
}

/// Simultaneous readings of both clocks.
#[derive(Clone, Copy, Debug)]
struct Pair {
    ticks: u64,
    kernel_ns: u64,
}

impl Clock {
    /// Calibrates the best clock of this host, which takes 20 ms of busy waiting.
    pub fn calibrate() -> Self {
        let Some(origin) = trusted().then(pair).flatten() else {
            return Self { source: Source::Kernel };
        };
        while kernel_ns() < origin.kernel_ns + CALIBRATION_NS {
            std::hint::spin_loop();
        }
        let source = pair().and_then(|end| {
            let elapsed_ns = u128::from(end.kernel_ns - origin.kernel_ns) << FRACTION_BITS;
            let ticks = u128::from(end.ticks.checked_sub(origin.ticks).filter(|&ticks| ticks > 0)?);
            Some(Source::Tsc { origin, scale: u64::try_from(elapsed_ns / ticks).ok()? })
        });
        Self { source: source.unwrap_or(Source::Kernel) }
    }

    /// The clock of the kernel.
    pub const fn monotonic() -> Self {
        Self { source: Source::Kernel }
    }

    /// Now, in nanoseconds.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self.source {
            Source::Tsc { origin, scale } => at(origin, scale, ticks()),
            Source::Kernel => kernel_ns(),
        }
    }

    /// `tsc`, or `monotonic` for the clock of the kernel.
    pub fn name(&self) -> &'static str {
        match self.source {
            Source::Tsc { .. } => "tsc",
            Source::Kernel => "monotonic",
        }
    }

    /// Drift against the clock of the kernel since calibration, in parts per million.
    #[expect(clippy::cast_precision_loss, reason = "the drift is a small number")]
    pub fn drift_ppm(&self) -> f64 {
        let Source::Tsc { origin, scale } = self.source else { return 0.0 };
        let Some(now) = pair() else { return 0.0 };
        let true_ns = now.kernel_ns - origin.kernel_ns;
        let ours_ns = at(origin, scale, now.ticks) - origin.kernel_ns;
        (ours_ns as f64 - true_ns as f64) / (true_ns.max(1) as f64) * 1e6
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds fit")]
fn at(origin: Pair, scale: u64, ticks: u64) -> u64 {
    let since = u128::from(ticks.saturating_sub(origin.ticks));
    origin.kernel_ns + ((since * u128::from(scale)) >> FRACTION_BITS) as u64
}

fn kernel_ns() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The tightest of some simultaneous readings, or `None` where there is no counter.
fn pair() -> Option<Pair> {
    (0..PAIRS)
        .map(|_| {
            let before = ticks();
            let kernel_ns = kernel_ns();
            let after = ticks();
            (after.wrapping_sub(before), Pair { ticks: before / 2 + after / 2, kernel_ns })
        })
        .min_by_key(|(width, _)| *width)
        .map(|(_, pair)| pair)
        .filter(|pair| pair.ticks > 0)
}

fn trusted() -> bool {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let source = text("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let flags = text("/proc/cpuinfo");
    cfg!(target_arch = "x86_64")
        && source.trim() == "tsc"
        && flags.contains("constant_tsc")
        && flags.contains("nonstop_tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "the instruction has no safe wrapper in the standard library")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_runs_backwards() {
        let clock = Clock::calibrate();
        let mut last = clock.now_ns();
        for _ in 0..10_000 {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn the_tsc_follows_the_kernels_clock() {
        let clock = Clock::monotonic();
        assert_eq!((clock.name(), clock.drift_ppm().abs() < 0.1), ("monotonic", true));
        let before = clock.now_ns();
        assert!(clock.now_ns() >= before);
    }

    #[test]
    fn it_keeps_the_kernels_pace() {
        let clock = Clock::calibrate();
        assert!(clock.drift_ppm().abs() < 500.0, "{} ppm", clock.drift_ppm());
    }

    #[test]
    fn a_tick_becomes_its_nanoseconds() {
        let origin = Pair { ticks: 1000, kernel_ns: 7 };
        let half_a_nanosecond = 1 << (FRACTION_BITS - 1);
        assert_eq!(at(origin, half_a_nanosecond, 1000), 7);
        assert_eq!(at(origin, half_a_nanosecond, 3000), 1007);
    }
}
