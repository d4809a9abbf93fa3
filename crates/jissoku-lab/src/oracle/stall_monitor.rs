//! Measures stalls of cores: a thread on each core sleeps for about a millisecond at a time and
//! records how late it wakes up.
//!
//! On a virtual machine the host may stop a core for milliseconds, and neither the oracle nor the
//! load generator notices. A monitor thread that precedes all others on its core does. It has to be
//! put into a real-time scheduling class from outside; otherwise it measures the load generator's
//! own work, too.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jissoku_os::clock::monotonic_ns;
use jissoku_os::{affinity, timer};
use serde::Serialize;

use crate::oracle::delay::Rng;

/// The name of the threads, by which they are found from outside.
const NAME: &str = "stall-monitor";

/// Mean time between samples. Intervals are random, so that samples are taken at random moments and
/// an evenly paced load does not meet all of them. Measured: 5,000 samples per second made the gaps
/// of such a load uneven.
const INTERVAL_S: f64 = 0.001;

/// Samples are counted by the smallest of these delays that they reach.
const THRESHOLDS_NS: [u64; 7] =
    [100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000];

/// The stalls of one core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct Stalls {
    pub core: usize,
    /// The number of samples.
    pub samples: u64,
    pub longest_ns: u64,
    /// The sum of all delays, except those below the shortest threshold.
    pub waited_ns: u64,
    pub at_least: Vec<StallCount>,
}

/// The samples that were at least this late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct StallCount {
    pub length_ns: u64,
    pub samples: u64,
}

impl Stalls {
    fn none(core: usize) -> Self {
        let at_least = THRESHOLDS_NS.map(|length_ns| StallCount { length_ns, samples: 0 });
        Self { core, at_least: at_least.to_vec(), ..Self::default() }
    }

    fn record(&mut self, late_ns: u64) {
        self.samples += 1;
        for step in self.at_least.iter_mut().filter(|it| it.length_ns <= late_ns) {
            step.samples += 1;
        }
        if late_ns >= THRESHOLDS_NS[0] {
            self.longest_ns = self.longest_ns.max(late_ns);
            self.waited_ns += late_ns;
        }
    }
}

/// The running monitor threads, one for each core.
#[derive(Debug)]
pub struct StallMonitor {
    threads: Vec<JoinHandle<Stalls>>,
    is_over: Arc<AtomicBool>,
}

impl StallMonitor {
    /// Starts to monitor `cores`.
    ///
    /// # Errors
    /// A core that cannot be used, or the error of starting a thread.
    pub fn start(cores: &[usize]) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut stall_monitor = Self { threads: Vec::new(), is_over };
        for &core in cores {
            let is_over = Arc::clone(&stall_monitor.is_over);
            let (ready, is_ready) = std::sync::mpsc::channel();
            let sample = move || {
                let pinned = affinity::pin(&[core]).and_then(|()| timer::set_min_timer_slack());
                let is_pinned = pinned.is_ok();
                // `start` waits for this. The error is ignored: it may have failed.
                let _sent = ready.send(pinned);
                if is_pinned { sample_until_stopped(core, &is_over) } else { Stalls::none(core) }
            };
            stall_monitor.threads.push(thread::Builder::new().name(NAME.to_owned()).spawn(sample)?);
            is_ready.recv().map_err(io::Error::other)??;
        }
        Ok(stall_monitor)
    }

    /// Stops the threads and returns their results.
    #[must_use]
    pub fn end(self) -> Vec<Stalls> {
        self.is_over.store(true, Ordering::Relaxed);
        // A thread that panicked has no result.
        self.threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    }
}

fn sample_until_stopped(core: usize, is_over: &AtomicBool) -> Stalls {
    let mut stalls = Stalls::none(core);
    let mut rng = Rng::new(core.try_into().unwrap_or_default());
    // There is one sample at least, however soon it is stopped.
    loop {
        let step = Duration::from_secs_f64(INTERVAL_S * (0.5 + rng.fraction()));
        let due = monotonic_ns() + u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        #[expect(
            clippy::disallowed_methods,
            reason = "how punctually it is woken is what it looks at"
        )]
        thread::sleep(step);
        stalls.record(monotonic_ns().saturating_sub(due));
        if is_over.load(Ordering::Relaxed) {
            return stalls;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_at_each_threshold_that_it_reaches() {
        let mut stalls = Stalls::none(3);
        for late_ns in [0, 50_000, 200_000, 1_500_000] {
            stalls.record(late_ns);
        }
        assert_eq!(
            (stalls.samples, stalls.longest_ns, stalls.waited_ns),
            (4, 1_500_000, 1_700_000)
        );
        let samples = stalls.at_least.iter().map(|it| it.samples).collect::<Vec<_>>();
        assert_eq!(samples, [2, 2, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn a_monitor_samples_until_it_is_stopped() {
        let core = affinity::allowed().expect("affinity can be read")[0];
        let stall_monitor = StallMonitor::start(&[core]).expect("it can be started");
        let stalls = stall_monitor.end();
        assert_eq!(stalls.len(), 1);
        assert_eq!(stalls[0].core, core);
        assert!(stalls[0].samples > 0);
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        assert!(StallMonitor::start(&[1_000_000]).is_err());
    }
}
