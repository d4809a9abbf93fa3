//! A tick per second while somebody needs it, so that no wait needs a timeout merely for slow clients.

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
pub(super) struct Tick {
    timer: OwnedFd,
    is_going: bool,
}

impl Tick {
    /// Stands still at first.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, is_going: false })
    }

    /// Goes or stands still from now on.
    pub(super) fn go(&mut self, is_needed: bool) -> io::Result<()> {
        if is_needed != self.is_going {
            let period = if is_needed { PERIOD } else { NEVER };
            let timer = Itimerspec { it_interval: period, it_value: period };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)?;
            self.is_going = is_needed;
        }
        Ok(())
    }

    /// Takes note of a tick. The timer goes on when it is read, and not before.
    pub(super) fn take(&self) -> bool {
        rustix::io::read(&self.timer, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Tick {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
