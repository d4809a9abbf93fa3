//! Timer slack and timer descriptors.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Sets the timer slack of the calling thread to 1 ns.
///
/// The default of 50 us (`PR_SET_TIMERSLACK`, `prctl(2)`) would delay a paced sender.
///
/// # Errors
/// The error of `prctl(2)`.
pub fn set_min_timer_slack() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// A timer descriptor (`timerfd_create(2)`). It is cheaper than a timeout per wait for a
/// caller that waits often and mostly for other events.
#[derive(Debug)]
pub struct TimerFd {
    timer: OwnedFd,
}

impl TimerFd {
    /// Creates a disarmed timer. Arming it clears its readiness, so it need not be read.
    ///
    /// # Errors
    /// The error of `timerfd_create(2)`.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)? })
    }

    /// Arms the timer to expire after `after_ns` nanoseconds, replacing any earlier setting.
    ///
    /// # Errors
    /// The error of `timerfd_settime(2)`.
    pub fn set(&self, after_ns: u64) -> io::Result<()> {
        self.arm(after_ns, TimerfdTimerFlags::empty())
    }

    /// As [`TimerFd::set`], to expire at `at_ns` of [`crate::clock::monotonic_ns`]: at once if that
    /// is over.
    ///
    /// # Errors
    /// The error of `timerfd_settime(2)`.
    pub fn set_at(&self, at_ns: u64) -> io::Result<()> {
        self.arm(at_ns, TimerfdTimerFlags::ABSTIME)
    }

    fn arm(&self, value_ns: u64, flags: TimerfdTimerFlags) -> io::Result<()> {
        // Zero would disarm it.
        let once = Itimerspec { it_interval: timespec(0), it_value: timespec(value_ns.max(1)) };
        Ok(timerfd_settime(&self.timer, flags, &once).map(drop)?)
    }

    /// Lets the timer expire every `period_ns` nanoseconds; never again if that is 0.
    ///
    /// # Errors
    /// The error of `timerfd_settime(2)`.
    pub fn set_period(&self, period_ns: u64) -> io::Result<()> {
        let period = timespec(period_ns);
        let timer = Itimerspec { it_interval: period, it_value: period };
        Ok(timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer).map(drop)?)
    }

    /// Reads an expiration; returns whether there was one.
    #[must_use]
    pub fn take(&self) -> bool {
        rustix::io::read(&self.timer, &mut [0; 8]).is_ok()
    }
}

fn timespec(ns: u64) -> Timespec {
    let duration = Duration::from_nanos(ns);
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Epoll, Interest, no_event};

    /// Longer than anything here takes; it turns a hang into a failure.
    const PATIENCE: Option<Duration> = Some(Duration::from_mins(1));

    #[test]
    fn an_alarm_goes_off_again_when_it_is_set_again() {
        let (epoll, alarm) = (Epoll::new().expect("epoll"), TimerFd::new().expect("a timer"));
        epoll.add(&alarm, 7, Interest::IN | Interest::ET).expect("it can be watched");
        for _ in 0..3 {
            let mut events = [no_event(); 2];
            alarm.set(1_000).expect("it can be set");
            assert_eq!(epoll.wait(&mut events, PATIENCE).expect("it goes off"), 1);
            assert_eq!(events[0].data.u64(), 7);
            let nothing = epoll.wait(&mut events, Some(Duration::ZERO));
            assert_eq!(nothing.expect("the timer was read"), 0);
        }
        alarm.set(u64::MAX).expect("even the longest");
    }
}
