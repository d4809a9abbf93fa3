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
        let watch = move || {
            loop {
                let readable = poll::wait_readable(&[ended.as_fd()], Some(self.timeout / WAKE_UPS));
                if readable.map_or(true, |readable| readable.contains(&true)) {
                    return;
                }
                let age_ns = clock::monotonic_ns().saturating_sub(seen_ns.load(Ordering::Relaxed));
                if age_ns > timeout_ns {
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
