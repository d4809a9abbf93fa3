//! Iterates over all connections once a second, in batches, so that 100,000 of them do not delay
//! others.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::timer::TimerFd;

/// Connections per batch: about 10 us of work.
const STEP: usize = 128;

const PERIOD_NS: u64 = 1_000_000_000;

/// A descriptor that becomes readable once per second, so that waits need no timeout for slow
/// clients.
#[derive(Debug)]
pub(super) struct SweepTimer {
    timer: TimerFd,
    is_enabled: bool,
}

impl SweepTimer {
    /// Creates a disabled timer.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { timer: TimerFd::new()?, is_enabled: false })
    }

    /// Enables or disables the timer.
    pub(super) fn set_enabled(&mut self, is_needed: bool) -> io::Result<()> {
        if is_needed != self.is_enabled {
            self.timer.set_period(if is_needed { PERIOD_NS } else { 0 })?;
            self.is_enabled = is_needed;
        }
        Ok(())
    }

    /// Reads an expiration; returns whether there was one.
    pub(super) fn take(&self) -> bool {
        self.timer.take()
    }
}

impl AsFd for SweepTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// A circular iteration over slots. It visits as many slots as there were at its start.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The next slot.
    next: usize,
    /// Slots left to visit.
    left: usize,
}

impl Sweep {
    /// Starts a sweep over `count` slots from the current position.
    pub(super) const fn start(&mut self, count: usize) {
        self.left = count;
    }

    /// Whether slots are left to visit.
    pub(super) const fn is_active(&self) -> bool {
        self.left > 0
    }

    /// The slots of the next batch, when there are `count`.
    pub(super) fn step(&mut self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let first = if self.next < count { self.next } else { 0 };
        let size = STEP.min(self.left).min(count);
        let last = first + size;
        self.next = if last < count { last } else { last - count };
        self.left = if count == 0 { 0 } else { self.left - size };
        (first..last).map(move |number| if number < count { number } else { number - count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes round once and returns who was visited at each turn.
    fn set_enabled(sweep: &mut Sweep, count: usize) -> Vec<Vec<usize>> {
        sweep.start(count);
        let mut turns = Vec::new();
        while sweep.is_active() {
            turns.push(sweep.step(count).collect());
        }
        turns
    }

    #[test]
    fn each_slot_is_visited_once_and_a_few_per_iteration() {
        let mut sweep = Sweep::default();
        for count in [0, 1, 127, 128, 129, 1_000, 5, 1_000] {
            let turns = set_enabled(&mut sweep, count);
            assert!(turns.iter().all(|turn| !turn.is_empty() && turn.len() <= STEP), "{turns:?}");
            let mut visited = turns.concat();
            visited.sort_unstable();
            assert_eq!(visited, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_comes_meanwhile_does_not_make_it_longer() {
        let mut sweep = Sweep::default();
        sweep.start(1_000);
        let visits: usize = (0..8).map(|more| sweep.step(1_000 + 1_000 * more).count()).sum();
        assert_eq!((visits, sweep.is_active()), (1_000, false));
    }

    #[test]
    fn it_ends_when_no_slot_is_left() {
        let mut sweep = Sweep::default();
        sweep.start(10);
        assert_eq!(sweep.step(0).count(), 0);
        assert!(!sweep.is_active());
    }
}
