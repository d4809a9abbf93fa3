//! Detects a worker that does not return to its event loop.
//!
//! A thread wakes the worker regularly, whichever loop it runs in, and expects it to record the
//! time.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use jissoku_os::driver::Waker;
use jissoku_os::{clock, poll};

/// The number of wake-ups within a timeout.
const WAKE_UPS: u32 = 8;

/// When a worker counts as hung, and the action then.
#[derive(Clone, Copy, Debug)]
pub struct HangWatch {
    /// Time without an iteration of the event loop.
    pub timeout: Duration,
    /// Called on a thread of its own with the index of the worker.
    pub on_hang: fn(usize),
}

/// The worker's side: records the time of each iteration. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    beat_ns: Arc<AtomicU64>,
    _end: UnixStream,
}

impl Heartbeat {
    #[inline]
    pub(crate) fn beat(&self, now_ns: u64) {
        self.beat_ns.store(now_ns, Ordering::Relaxed);
    }
}

impl HangWatch {
    /// Starts to watch the worker `index`, which `waker` wakes.
    ///
    /// # Errors
    /// The error of creating a socket pair or a thread.
    pub(crate) fn start(self, index: usize, waker: Waker) -> io::Result<Heartbeat> {
        let (ended, end) = UnixStream::pair()?;
        let beat_ns = Arc::new(AtomicU64::new(clock::monotonic_ns()));
        let seen_ns = Arc::clone(&beat_ns);
        let timeout_ns = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        let mut busy = BusyTime::new(timeout_ns / u64::from(WAKE_UPS), clock::monotonic_ns());
        let watch = move || {
            loop {
                let readable = poll::wait_readable(&[ended.as_fd()], Some(self.timeout / WAKE_UPS));
                if readable.map_or(true, |readable| readable.contains(&true)) {
                    return;
                }
                let beat_ns = seen_ns.load(Ordering::Relaxed);
                if busy.observe(beat_ns, clock::monotonic_ns()) > timeout_ns {
                    return (self.on_hang)(index);
                }
                // An error means that the worker is gone.
                let _woken = waker.wake();
            }
        };
        thread::Builder::new().name(format!("watch-{index}")).spawn(watch)?;
        Ok(Heartbeat { beat_ns, _end: end })
    }
}

/// How long a worker is busy, without the time in which the whole process did not run: stopped by a
/// signal, or because its container or virtual machine was paused.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "units end names")]
struct BusyTime {
    /// Time between two observations, unless the process does not run.
    interval_ns: u64,
    beat_ns: u64,
    observed_ns: u64,
    busy_ns: u64,
}

impl BusyTime {
    const fn new(interval_ns: u64, now_ns: u64) -> Self {
        Self { interval_ns, beat_ns: 0, observed_ns: now_ns, busy_ns: 0 }
    }

    /// Records the last iteration of the worker, and returns how long it has been busy since.
    fn observe(&mut self, beat_ns: u64, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.observed_ns);
        self.observed_ns = now_ns;
        if beat_ns == self.beat_ns {
            // A busy machine may delay an observation.
            self.busy_ns += elapsed_ns.min(2 * self.interval_ns);
        } else {
            self.beat_ns = beat_ns;
            self.busy_ns = now_ns.saturating_sub(beat_ns).min(2 * self.interval_ns);
        }
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::BusyTime;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_worker_without_an_iteration_is_busy_all_the_time() {
        let mut busy = BusyTime::new(4 * S, 100 * S);
        let beat_ns = 101 * S;
        let seen: Vec<u64> =
            [104, 108, 112, 116].map(|at_s| busy.observe(beat_ns, at_s * S) / S).to_vec();
        assert_eq!(seen, [3, 7, 11, 15]);
        assert_eq!(busy.observe(118 * S, 120 * S), 2 * S, "there was an iteration");
    }

    #[test]
    fn a_pause_of_the_process_does_not_count() {
        let mut busy = BusyTime::new(4 * S, 100 * S);
        assert_eq!(busy.observe(101 * S, 104 * S), 3 * S);
        assert_eq!(busy.observe(101 * S, 4_000 * S), 11 * S);
        assert_eq!(busy.observe(3_999 * S, 8_000 * S), 8 * S);
    }
}
