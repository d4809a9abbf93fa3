//! Which cores threads run on, and before which others.

use std::io;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The cores the calling thread may run on, ascending, as the kernel numbers them.
///
/// # Errors
/// The error of `sched_getaffinity(2)`.
pub fn allowed() -> io::Result<Vec<usize>> {
    Ok(cores(&sched_getaffinity(None)?))
}

/// The cores another thread may run on, ascending.
///
/// # Errors
/// The error of `sched_getaffinity(2)`: the thread may have ended.
pub fn of_thread(tid: i32) -> io::Result<Vec<usize>> {
    let tid = Pid::from_raw(tid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(cores(&sched_getaffinity(Some(tid))?))
}

fn cores(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

/// The cores that are online, ascending (`/sys/devices/system/cpu/online`).
///
/// # Errors
/// The error of reading the file, or [`io::ErrorKind::InvalidData`].
pub fn online() -> io::Result<Vec<usize>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    let ranges: Option<Vec<_>> = text.trim().split(',').map(range).collect();
    let ranges = ranges.ok_or(io::ErrorKind::InvalidData)?;
    Ok(ranges.into_iter().flatten().collect())
}

/// The first allowed hardware thread of every physical core; all of them if the topology is unknown
/// (`/sys/devices/system/cpu/`).
///
/// # Errors
/// The error of `sched_getaffinity(2)`.
pub fn physical() -> io::Result<Vec<usize>> {
    let siblings_of = |core: usize| {
        let at = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
        std::fs::read_to_string(at).ok()
    };
    Ok(first_of_each(&allowed()?, siblings_of))
}

fn first_of_each(cores: &[usize], siblings_of: impl Fn(usize) -> Option<String>) -> Vec<usize> {
    let mut seen = Vec::new();
    let is_first = |&core: &usize| {
        let Some(siblings) = siblings_of(core) else { return true };
        let is_new = !seen.contains(&siblings);
        seen.push(siblings);
        is_new
    };
    cores.iter().copied().filter(is_first).collect()
}

/// Pins the calling thread to `cores`; threads it starts later inherit that.
///
/// # Errors
/// The error of `sched_setaffinity(2)`: none of `cores` exists or is allowed.
pub fn pin(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores.iter().filter(|&&core| core < CpuSet::MAX_CPU) {
        set.set(core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Whether the calling thread is put on its core whenever it is ready, before all others there
/// (`SCHED_FIFO`); otherwise it takes turns with them.
///
/// # Errors
/// `EPERM`: it needs `CAP_SYS_NICE`.
pub fn set_first(is_first: bool) -> io::Result<()> {
    let policy = if is_first { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    set_policy(policy, u32::from(is_first), 0)
}

/// Asks that the calling thread has turns of `turn_ns` at most, for which it is put on its core sooner
/// than others with longer ones (Linux 6.12).
///
/// # Errors
/// The error of `sched_setattr(2)`.
pub fn set_short_turns(turn_ns: u64) -> io::Result<()> {
    set_policy(libc::SCHED_OTHER, 0, turn_ns)
}

#[expect(unsafe_code, reason = "there is no safe wrapper")]
fn set_policy(policy: i32, priority: u32, turn_ns: u64) -> io::Result<()> {
    // `struct sched_attr` of `linux/sched/types.h` in its first version: size, policy, flags, nice
    // value, priority, runtime, deadline, period. A nice value of 0 is that of every thread here.
    let head = 48 + (u64::try_from(policy).unwrap_or(0) << 32);
    let attributes = [head, 0, u64::from(priority) << 32, turn_ns, 0, 0];
    // SAFETY: the kernel reads the 48 bytes that the first word says, which is what there is.
    let status = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attributes.as_ptr(), 0) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_be_first_and_take_turns_again() {
        if let Err(error) = set_first(true) {
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        }
        set_short_turns(100_000).expect("every thread may have short turns");
        set_first(false).expect("the way back is open");
    }

    #[test]
    fn a_pinned_thread_stays_where_it_was_put() {
        let home = allowed().expect("affinity can be read");
        let last = *home.last().expect("a thread may run somewhere");
        pin(&[last]).expect("an allowed core can be chosen");
        assert_eq!(allowed().expect("affinity can be read"), [last]);
        pin(&home).expect("the way back is open");
    }

    #[test]
    fn one_thread_of_every_core_is_chosen() {
        let pairs = |core: usize| Some(format!("{},{}", core % 4, core % 4 + 4));
        assert_eq!(first_of_each(&[0, 1, 2, 3, 4, 5, 6, 7], pairs), [0, 1, 2, 3]);
        assert_eq!(first_of_each(&[1, 5, 6], pairs), [1, 6]);
        assert_eq!(first_of_each(&[1, 5, 6], |_| None), [1, 5, 6]);
        assert!(!physical().expect("affinity can be read").is_empty());
    }

    #[test]
    fn allowed_cores_are_online() {
        let online = online().expect("the file is there");
        assert!(allowed().expect("affinity can be read").iter().all(|core| online.contains(core)));
    }

    #[test]
    fn no_core_at_all_is_an_error() {
        assert!(pin(&[]).is_err());
    }
}
