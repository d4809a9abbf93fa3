//! A timer of one second, so that waits need no timeout for slow clients.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

const PERIOD: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A descriptor that becomes readable once per second (`timerfd_create(2)`).
#[derive(Debug)]
pub(super) struct IntervalTimer {
    timer: OwnedFd,
    is_enabled: bool,
}

impl IntervalTimer {
    /// Creates a disabled timer.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, is_enabled: false })
    }

    /// Enables or disables the timer.
    pub(super) fn set_enabled(&mut self, is_needed: bool) -> io::Result<()> {
        if is_needed != self.is_enabled {
            let period = if is_needed { PERIOD } else { NEVER };
            let timer = Itimerspec { it_interval: period, it_value: period };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)?;
            self.is_enabled = is_needed;
        }
        Ok(())
    }

    /// Reads an expiration; returns whether there was one.
    pub(super) fn take(&self) -> bool {
        rustix::io::read(&self.timer, &mut [0; 8]).is_ok()
    }
}

impl AsFd for IntervalTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
