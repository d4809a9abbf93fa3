//! Restart of failed workers: a budget, retries, and a reserve of descriptors.

use std::fs::File;

/// The number of restarts within [`FAULTS_NS`].
const FAULTS_MAX: usize = 5;
const FAULTS_NS: u64 = 60_000_000_000;

/// Delay before a restart is retried that failed for lack of descriptors.
const RETRY_NS: u64 = 100_000_000;

/// Half of the first delay of a restart when there were too many failures, and how often it
/// doubles: up to 8 s.
const BACK_OFF_NS: u64 = 125_000_000;
const BACK_OFF_DOUBLINGS_MAX: usize = 6;

/// Failed workers and the time of recent failures.
#[derive(Debug, Default)]
pub(super) struct RestartBudget {
    /// Workers that are not replaced yet, and why they failed.
    lost: Vec<(usize, String)>,
    /// Time of the next retry, on the monotonic clock.
    retry_ns: Option<u64>,
    /// Times of recent failures, on the monotonic clock.
    noticed_ns: Vec<u64>,
}

impl RestartBudget {
    /// Records a failure.
    pub(super) fn add(&mut self, index: usize, why: String, now_ns: u64) {
        self.noticed_ns.retain(|then_ns| now_ns - then_ns < FAULTS_NS);
        self.noticed_ns.push(now_ns);
        self.lost.push((index, why));
    }

    /// Whether the budget is exhausted.
    pub(super) fn are_too_many(&self, now_ns: u64) -> bool {
        self.noticed_ns.iter().filter(|&then_ns| now_ns - then_ns < FAULTS_NS).count() > FAULTS_MAX
    }

    /// Delays restarts when there were many failures: by more, the more there were.
    pub(super) fn back_off(&mut self, now_ns: u64) {
        let recent = self.noticed_ns.iter().filter(|&then_ns| now_ns - then_ns < FAULTS_NS).count();
        let doublings = recent.saturating_sub(FAULTS_MAX).min(BACK_OFF_DOUBLINGS_MAX);
        if doublings > 0 {
            self.retry_ns = Some(now_ns + (BACK_OFF_NS << doublings));
        }
    }

    /// Takes a worker that is to be replaced now.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<(usize, String)> {
        if self.retry_ns.is_some_and(|retry_ns| now_ns < retry_ns) {
            return None;
        }
        self.retry_ns = None;
        self.lost.pop()
    }

    /// Reschedules a worker that could not be replaced.
    pub(super) fn put_off(&mut self, index: usize, why: String, now_ns: u64) {
        self.lost.push((index, why));
        self.retry_ns = Some(now_ns + RETRY_NS);
    }

    /// Time of the next retry, if there is one.
    pub(super) const fn retry_ns(&self) -> Option<u64> {
        self.retry_ns
    }

    /// Takes all workers that will not be replaced.
    pub(super) fn take_all(&mut self) -> Vec<(usize, String)> {
        self.retry_ns = None;
        std::mem::take(&mut self.lost)
    }
}

/// Descriptors of a worker besides its listeners: an epoll instance or a ring, a timer, a waker,
/// two sockets to the main thread, and a margin.
const WORKER_DESCRIPTORS: usize = 8;

/// Descriptors reserved for the restart of a worker.
#[derive(Debug, Default)]
pub(super) struct DescriptorReserve {
    held: Vec<File>,
}

impl DescriptorReserve {
    /// Reserves the descriptors of a worker with `listeners` listeners, as far as available.
    pub(super) fn fill(&mut self, listeners: usize) {
        while self.held.len() < WORKER_DESCRIPTORS + listeners {
            let Ok(file) = File::open("/dev/null") else { return };
            self.held.push(file);
        }
    }

    /// Frees the reserved descriptors.
    pub(super) fn release(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_replacement_is_retried_and_counts_once() {
        let mut restarts = RestartBudget::default();
        for _ in 0..FAULTS_MAX {
            restarts.add(3, "why".to_owned(), 0);
            let (index, why) = restarts.take_due(0).expect("it is lost");
            restarts.put_off(index, why, 0);
            assert_eq!(
                (restarts.take_due(RETRY_NS - 1), restarts.retry_ns()),
                (None, Some(RETRY_NS))
            );
            assert_eq!(restarts.take_due(RETRY_NS), Some((3, "why".to_owned())));
            assert_eq!((restarts.take_due(RETRY_NS), restarts.retry_ns()), (None, None));
            assert!(!restarts.are_too_many(RETRY_NS));
        }
        restarts.add(3, "why".to_owned(), FAULTS_NS - 1);
        assert!(restarts.are_too_many(FAULTS_NS - 1));
        assert!(!restarts.are_too_many(FAULTS_NS));
    }

    #[test]
    fn the_delay_of_restarts_grows_with_the_failures() {
        let mut restarts = RestartBudget::default();
        let mut delays_ms = Vec::new();
        for _ in 0..14 {
            restarts.add(0, String::new(), 0);
            restarts.back_off(0);
            delays_ms.push(restarts.retry_ns().unwrap_or(0) / 1_000_000);
            restarts.take_due(u64::MAX);
        }
        assert_eq!(
            delays_ms,
            [0, 0, 0, 0, 0, 250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000]
        );
    }

    #[test]
    fn a_reserve_is_filled_to_the_required_size() {
        let mut reserve = DescriptorReserve::default();
        reserve.fill(2);
        reserve.fill(2);
        assert_eq!(reserve.held.len(), WORKER_DESCRIPTORS + 2);
        reserve.release();
        assert!(reserve.held.is_empty());
    }
}
