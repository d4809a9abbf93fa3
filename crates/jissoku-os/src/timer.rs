//! How punctually does the kernel wake a thread, and for what?

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Lets the calling thread's waits end on time, to the nanosecond as far as the kernel can.
///
/// The usual slack is 50 us (`PR_SET_TIMERSLACK`, `prctl(2)`), which a paced sender would show as lag.
///
/// # Errors
/// The error of `prctl(2)`.
pub fn wake_punctually() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// A descriptor that becomes readable once, after a time (`timerfd_create(2)`). Who waits very often and for
/// something else most of the time sets it seldom, and spares each wait a timer of its own.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    /// It is not set. Setting it takes its readiness back, so nobody has to read it.
    ///
    /// # Errors
    /// The error of `timerfd_create(2)`.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)? })
    }

    /// Goes off after so long, and not at any time set before.
    ///
    /// # Errors
    /// The error of `timerfd_settime(2)`.
    pub fn set(&self, after_ns: u64) -> io::Result<()> {
        // A timer of zero would be one that is not set.
        let after = std::time::Duration::from_nanos(after_ns.max(1));
        let value = Timespec {
            tv_sec: after.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: after.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::epoll::{Epoll, Interest, no_event};

    /// Longer than anything here takes; it turns a hang into a failure.
    const PATIENCE: Option<Duration> = Some(Duration::from_mins(1));

    #[test]
    fn an_alarm_goes_off_again_when_it_is_set_again() {
        let (epoll, alarm) = (Epoll::new().expect("epoll"), Alarm::new().expect("a timer"));
        epoll.add(&alarm, 7, Interest::IN | Interest::ET).expect("it can be watched");
        for _ in 0..3 {
            let mut events = [no_event(); 2];
            alarm.set(1_000).expect("it can be set");
            assert_eq!(epoll.wait(&mut events, PATIENCE).expect("it goes off"), 1);
            assert_eq!(events[0].data.u64(), 7);
            let nothing = epoll.wait(&mut events, Some(Duration::ZERO));
            assert_eq!(nothing.expect("it was told of"), 0);
        }
        alarm.set(u64::MAX).expect("even the longest");
    }
}
