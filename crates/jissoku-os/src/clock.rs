//! Clocks, in nanoseconds: monotonic, wall clock and CPU time.
//!
//! The wall clock may step, so it is used for dates only. All other code reads the time through
//! this module.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Largest process id of Linux (`PID_MAX_LIMIT`).
const PID_MAX: i32 = 1 << 22;

/// Nanoseconds on `CLOCK_MONOTONIC` (`clock_gettime(2)`); only differences are meaningful.
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds since 1970 on `CLOCK_REALTIME` (`clock_gettime(2)`), for dates.
pub fn wall_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// CPU time of this process in nanoseconds, all threads together.
pub fn own_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of process `pid` in nanoseconds, over all its threads, including exited ones.
///
/// Source: `clock_getcpuclockid(3)`. Unlike `/proc/PID/stat` it has no 10 ms granularity, and
/// unlike `/proc/PID/schedstat` it includes exited threads. `None` when there is no such process.
#[expect(unsafe_code, reason = "neither libc call has a safe wrapper for another process's clock")]
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    // A clock's name has 29 bits for the pid, and zero means the caller; the kernel's own limit is
    // lower.
    if !(1..=PID_MAX).contains(&pid) {
        return None;
    }
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` outlives the call, which writes one `clockid_t` there and keeps no pointer.
    let status = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if status != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call, which writes one `timespec` there and keeps no pointer.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (status == 0).then(|| nanoseconds(Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec }))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_read_like_ourselves() {
        let pid = i32::try_from(std::process::id()).expect("a pid is positive");
        let before = own_cpu_ns();
        let seen = process_cpu_ns(pid).expect("this process exists");
        assert!((before..=own_cpu_ns()).contains(&seen));
    }

    #[test]
    fn a_missing_process_has_no_time() {
        assert_eq!(process_cpu_ns(i32::MAX), None);
    }
}
