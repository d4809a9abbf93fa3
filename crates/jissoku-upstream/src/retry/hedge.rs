//! After which time a second request is sent: the 95th percentile of a route's latencies.
//!
//! Two histograms take turns of 5 s, so that the estimate covers the last 5 to 10 s.

use hdrhistogram::Histogram;

const TURN_NS: u64 = 5_000_000_000;
const QUANTILE: f64 = 0.95;

/// No hedge comes earlier: below, scheduling delays look like slow servers.
const DELAY_NS_MIN: u64 = 2_000_000;

/// Fewer latencies say nothing about their 95th percentile.
const SAMPLES_MIN: u64 = 40;

/// The estimate is renewed after this many latencies: finding a quantile costs microseconds.
const RENEWED_EVERY: u64 = 64;

const LATENCY_US_MAX: u64 = 60_000_000;
const DIGITS: u8 = 2;

/// The latencies of one route on one worker.
#[derive(Debug)]
pub struct HedgeDelay {
    present: Histogram<u32>,
    past: Histogram<u32>,
    turn_end_ns: u64,
    delay_ns: Option<u64>,
}

impl HedgeDelay {
    /// Without latencies there are no hedges.
    ///
    /// # Panics
    ///
    /// Never: the bounds of the histograms are constants.
    pub fn new(now_ns: u64) -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, LATENCY_US_MAX, DIGITS).expect("the bounds are constants")
        };
        let turn_end_ns = now_ns + TURN_NS;
        Self { present: histogram(), past: histogram(), turn_end_ns, delay_ns: None }
    }

    /// Adds the time from a request to the head of its response.
    pub fn record(&mut self, latency_ns: u64, now_ns: u64) {
        if now_ns >= self.turn_end_ns {
            std::mem::swap(&mut self.present, &mut self.past);
            self.present.reset();
            if now_ns >= self.turn_end_ns + TURN_NS {
                self.past.reset();
            }
            self.turn_end_ns = now_ns + TURN_NS;
            self.delay_ns = self.estimate();
        }
        self.present.saturating_record((latency_ns / 1000).max(1));
        if self.present.len().is_multiple_of(RENEWED_EVERY) || self.delay_ns.is_none() {
            self.delay_ns = self.estimate();
        }
    }

    /// After which time to send the second request; `None` as long as too little is known.
    pub const fn delay_ns(&self) -> Option<u64> {
        self.delay_ns
    }

    fn estimate(&self) -> Option<u64> {
        // The larger of two turns, as far as they have enough: rather a hedge too few.
        let turns = [&self.present, &self.past].into_iter();
        let known = turns.filter(|turn| turn.len() >= SAMPLES_MIN);
        let us = known.map(|turn| turn.value_at_quantile(QUANTILE)).max()?;
        Some((us * 1000).max(DELAY_NS_MIN))
    }
}
