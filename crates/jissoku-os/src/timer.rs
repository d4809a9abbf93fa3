//! How punctually does the kernel wake a thread?

use std::io;
use std::num::NonZeroU64;

/// Lets the calling thread's waits end on time, to the nanosecond as far as the kernel can.
///
/// The usual slack is 50 us (`PR_SET_TIMERSLACK`, `prctl(2)`), which a paced sender would show as lag.
///
/// # Errors
/// The error of `prctl(2)`.
pub fn wake_punctually() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}
