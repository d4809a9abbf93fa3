//! The clock of a worker, read for each response or once per wait.

use jissoku_os::tsc::Clock;

use crate::plan::options::ClockSource;

/// A clock, and when the last wait ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveClock {
    clock: Clock,
    is_batched: bool,
    wait_ended_ns: Option<u64>,
}

impl ReceiveClock {
    pub(crate) fn new(clock: Clock, source: ClockSource) -> Self {
        Self { clock, is_batched: source == ClockSource::Batch, wait_ended_ns: None }
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Called when a wait has returned.
    #[inline]
    pub(crate) fn on_wait_ended(&mut self) {
        self.wait_ended_ns = self.is_batched.then(|| self.clock.now_ns());
    }

    /// The receive time of the bytes that were just read.
    #[inline]
    pub(crate) fn received_ns(&self) -> u64 {
        self.wait_ended_ns.unwrap_or_else(|| self.clock.now_ns())
    }
}
