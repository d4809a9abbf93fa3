//! Which cores may a thread run on?

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores the calling thread may run on, ascending, as the kernel numbers them.
///
/// # Errors
/// The error of `sched_getaffinity(2)`.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
}

/// Keeps the calling thread on `cores`; threads it starts later inherit that.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_stays_where_it_was_put() {
        let home = allowed().expect("affinity can be read");
        let last = *home.last().expect("a thread may run somewhere");
        pin(&[last]).expect("an allowed core can be chosen");
        assert_eq!(allowed().expect("affinity can be read"), [last]);
        pin(&home).expect("the way back is open");
    }

    #[test]
    fn no_core_at_all_is_an_error() {
        assert!(pin(&[]).is_err());
    }
}
