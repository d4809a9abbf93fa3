//! The timer of a driver's nearest deadline, so that waits need no timeout.
//!
//! Most deadlines are moved to a later time before they are reached. The timer is not moved with them:
//! it then expires early, which costs one wake-up. Only an earlier deadline sets it anew.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::timer::TimerFd;

/// A timer may expire this long after the deadline: the kernel's default timer slack. Deadlines that
/// are computed anew for each wait differ by less.
const SLACK_NS: u64 = 50_000;

/// How the driver may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextWait {
    /// Not at all: the deadline has passed.
    NonBlocking,
    /// Until an event, at the latest that of the timer.
    ForEvents,
}

/// A descriptor that becomes readable when a deadline is over (`timerfd_create(2)`).
#[derive(Debug)]
pub(super) struct DeadlineTimer {
    timer: TimerFd,
    /// When the timer expires; `None` if it has, or was never set.
    expiry_ns: Option<u64>,
}

impl DeadlineTimer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { timer: TimerFd::new()?, expiry_ns: None })
    }

    /// Sets the timer for a wait that ends at `deadline_ns` at the latest. `now_ns` is the time of the
    /// last [`DeadlineTimer::advance`].
    #[inline]
    pub(super) fn prepare(
        &mut self,
        deadline_ns: Option<u64>,
        now_ns: u64,
    ) -> io::Result<NextWait> {
        let Some(deadline_ns) = deadline_ns else { return Ok(NextWait::ForEvents) };
        if deadline_ns <= now_ns {
            return Ok(NextWait::NonBlocking);
        }
        if self.expiry_ns.is_none_or(|expiry_ns| expiry_ns > deadline_ns + SLACK_NS) {
            // Cleared first: after an error the timer must not count as set.
            self.expiry_ns = None;
            self.timer.set_at(deadline_ns)?;
            self.expiry_ns = Some(deadline_ns);
        }
        Ok(NextWait::ForEvents)
    }

    /// Forgets an expiry that is over at `now_ns`. The clock decides that, and not the timer's event,
    /// which is reported once, and lost if a handler panics before it is processed.
    #[inline]
    pub(super) fn advance(&mut self, now_ns: u64) {
        self.expiry_ns = self.expiry_ns.filter(|&expiry_ns| expiry_ns > now_ns);
    }
}

impl AsFd for DeadlineTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;
    use crate::epoll::{Epoll, Interest, no_event};

    const HOUR_NS: u64 = 3_600_000_000_000;

    /// The time of the setting after each deadline, at 1,000.
    fn expiries(deadlines: &[Option<u64>]) -> Vec<Option<u64>> {
        let mut timer = DeadlineTimer::new().expect("a timer");
        let prepared = deadlines.iter().map(|deadline_ns| {
            timer.prepare(*deadline_ns, 1_000).expect("it can be set");
            timer.expiry_ns
        });
        prepared.collect()
    }

    #[test]
    fn only_an_earlier_deadline_sets_it() {
        let earlier = HOUR_NS / 2;
        let cases: [(&[Option<u64>], Option<u64>); 6] = [
            (&[None], None),
            (&[Some(HOUR_NS)], Some(HOUR_NS)),
            (&[Some(HOUR_NS), Some(2 * HOUR_NS), None], Some(HOUR_NS)),
            (&[Some(HOUR_NS), Some(HOUR_NS - SLACK_NS)], Some(HOUR_NS)),
            (&[Some(HOUR_NS), Some(earlier)], Some(earlier)),
            (&[Some(HOUR_NS), Some(1_000)], Some(HOUR_NS)),
        ];
        for (deadlines, expected) in cases {
            assert_eq!(expiries(deadlines).last(), Some(&expected), "{deadlines:?}");
        }
    }

    #[test]
    fn a_deadline_that_is_over_does_not_block() {
        let mut timer = DeadlineTimer::new().expect("a timer");
        for (deadline_ns, expected) in [
            (Some(999), NextWait::NonBlocking),
            (Some(1_000), NextWait::NonBlocking),
            (Some(1_001), NextWait::ForEvents),
            (None, NextWait::ForEvents),
        ] {
            assert_eq!(timer.prepare(deadline_ns, 1_000).expect("it can be set"), expected);
        }
    }

    /// An expiry whose event was not processed, as after a panic in a handler.
    #[test]
    fn an_expiry_that_was_not_processed_does_not_stop_it() {
        let (epoll, mut timer) = (Epoll::new().expect("epoll"), DeadlineTimer::new().expect("one"));
        epoll.add(&timer, 7, Interest::IN | Interest::ET).expect("it can be watched");
        let mut events = [no_event(); 2];
        for _ in 0..3 {
            let now_ns = clock::monotonic_ns();
            timer.advance(now_ns);
            let wait = timer.prepare(Some(now_ns + 1_000), now_ns).expect("it can be set");
            assert_eq!(wait, NextWait::ForEvents);
            let patience = Some(Duration::from_mins(1));
            assert_eq!(epoll.wait(&mut events, patience).expect("it expires"), 1);
            let none = epoll.wait(&mut events, Some(Duration::ZERO)).expect("it is reported once");
            assert_eq!(none, 0);
        }
    }
}
