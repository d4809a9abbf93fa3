//! After which time a second copy of a request is sent: a fixed one, or a percentile of a route's
//! latencies.
//!
//! Two histograms take turns of 5 s, so that the estimate covers the last 5 to 10 s.

use hdrhistogram::Histogram;

const TURN_NS: u64 = 5_000_000_000;

/// No hedge by a percentile comes earlier: below, scheduling delays look like slow servers.
const DELAY_NS_MIN: u64 = 2_000_000;

/// Fewer latencies say nothing about their 95th percentile.
const SAMPLES_MIN: u64 = 40;

/// The estimate is renewed after this many latencies: finding a quantile costs microseconds.
const RENEWED_EVERY: u64 = 64;

const LATENCY_US_MAX: u64 = 60_000_000;
const DIGITS: u8 = 2;

/// When a second copy is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HedgeAfter {
    /// At this percentile of the latencies of the last seconds, 50 to 99; not before 2 ms.
    Percentile(u8),
    /// After this time, in nanoseconds.
    Time(u64),
}

/// The delay of one route on one worker.
#[derive(Debug)]
pub struct HedgeDelay {
    latencies: Option<Latencies>,
    delay_ns: Option<u64>,
}

/// The latencies of the last seconds.
#[derive(Debug)]
struct Latencies {
    percentile: u8,
    present: Histogram<u32>,
    past: Histogram<u32>,
    turn_end_ns: u64,
}

impl HedgeDelay {
    /// By a percentile, there are no hedges until there are latencies.
    ///
    /// # Panics
    ///
    /// Never: the bounds of the histograms are constants.
    pub fn new(after: HedgeAfter, now_ns: u64) -> Self {
        match after {
            HedgeAfter::Time(delay_ns) => Self { latencies: None, delay_ns: Some(delay_ns) },
            HedgeAfter::Percentile(percentile) => {
                let histogram = || {
                    Histogram::new_with_bounds(1, LATENCY_US_MAX, DIGITS)
                        .expect("the bounds are constants")
                };
                let turn_end_ns = now_ns + TURN_NS;
                let (present, past) = (histogram(), histogram());
                let latencies = Latencies { percentile, present, past, turn_end_ns };
                Self { latencies: Some(latencies), delay_ns: None }
            }
        }
    }

    /// Adds the time from a request to the head of its response.
    pub fn record(&mut self, latency_ns: u64, now_ns: u64) {
        let Some(latencies) = &mut self.latencies else { return };
        let has_turned = latencies.turn(now_ns);
        latencies.present.saturating_record((latency_ns / 1000).max(1));
        let is_due = latencies.present.len().is_multiple_of(RENEWED_EVERY);
        if has_turned || is_due || self.delay_ns.is_none() {
            self.delay_ns = latencies.estimate();
        }
    }

    /// After which time to send the second copy; `None` as long as too little is known.
    pub const fn delay_ns(&self) -> Option<u64> {
        self.delay_ns
    }
}

impl Latencies {
    /// Lets the histograms take turns, if it is time.
    fn turn(&mut self, now_ns: u64) -> bool {
        if now_ns < self.turn_end_ns {
            return false;
        }
        std::mem::swap(&mut self.present, &mut self.past);
        self.present.reset();
        if now_ns >= self.turn_end_ns + TURN_NS {
            self.past.reset();
        }
        self.turn_end_ns = now_ns + TURN_NS;
        true
    }

    fn estimate(&self) -> Option<u64> {
        // The larger of two turns, as far as they have enough: rather a hedge too few.
        let turns = [&self.present, &self.past].into_iter();
        let known = turns.filter(|turn| turn.len() >= SAMPLES_MIN);
        let quantile = f64::from(self.percentile) / 100.0;
        let us = known.map(|turn| turn.value_at_quantile(quantile)).max()?;
        Some((us * 1000).max(DELAY_NS_MIN))
    }
}
