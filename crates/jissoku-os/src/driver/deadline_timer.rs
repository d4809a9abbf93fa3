//! The timer of a driver's nearest deadline, so that waits need no timeout.
//!
//! Most deadlines are never reached: by the time, the nearest one is later. A timer that expires
//! too early costs one wake-up, so it is left alone until then; only an earlier deadline sets it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::timer::TimerFd;

/// A timer that expires this much after a deadline is near enough: the kernel's default timer slack.
/// Deadlines that are computed anew each time differ by less.
const SLACK_NS: u64 = 50_000;

/// What the next wait may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextWait {
    /// The deadline is over.
    NonBlocking,
    /// An event ends the wait, at the latest that of the timer.
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

    /// Prepares a wait that is to end at `deadline_ns` at the latest. `now_ns` is the time of the
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
            // Not if it fails: the timer would be taken for one that is set.
            self.expiry_ns = None;
            self.timer.set_at(deadline_ns)?;
            self.expiry_ns = Some(deadline_ns);
        }
        Ok(NextWait::ForEvents)
    }

    /// It is `now_ns`. This, and no event, decides whether the timer has expired: an event is
    /// reported once, and lost if a handler panics before it is processed.
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
