//! Process trees, from `proc_pid_stat(5)`, and the limit of descriptors of this process.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The process, all processes of the session it leads, and their descendants; ascending.
///
/// A daemon that leaves its session after its parent exited is not found. Empty when `root` does
/// not exist.
///
/// # Errors
/// The error of reading `/proc`.
pub fn process_tree(root: i32) -> io::Result<Vec<i32>> {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process may exit between listing and reading.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if let Some(stat) = parse_stat(&stat) {
            processes.insert(pid, stat);
        }
    }
    Ok(processes.keys().copied().filter(|&pid| belongs(pid, root, &processes)).collect())
}

/// The process that started a process, or that took it over when that one ended; 0 for the first.
///
/// # Errors
/// The error of reading `/proc`: the process may have exited.
pub fn parent(pid: i32) -> io::Result<i32> {
    let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?);
    stat.map(|stat| stat.parent).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The resident memory of a process in bytes.
///
/// # Errors
/// The error of reading `/proc`; the process may have exited.
pub fn resident_size(pid: i32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("/proc/PID/statm has another format"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// CPU time in nanoseconds of all children that a process has waited for, and of theirs.
///
/// Source: `cutime` and `cstime` of `proc_pid_stat(5)`, in ticks of mostly 10 ms that the kernel rounds
/// down; a sum over many short children is as exact as one of a long one. `None` if there is no such
/// process. Children of a process that ignores SIGCHLD are in no sum.
pub fn children_cpu_ns(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = children_ticks(&stat)?;
    Some(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

/// The sum of fields 16 and 17; the name may hold anything.
fn children_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(13);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(ticks()? + ticks()?)
}

/// Parent and session of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcStat {
    parent: i32,
    session: i32,
}

/// The name in parentheses may hold anything, parentheses too, so fields are counted after the last
/// one.
fn parse_stat(stat: &str) -> Option<ProcStat> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(ProcStat { parent, session })
}

fn belongs(pid: i32, root: i32, processes: &BTreeMap<i32, ProcStat>) -> bool {
    let mut at = pid;
    // Parents can change meanwhile, so a cycle is possible in theory: the iteration is bounded.
    for _ in 0..processes.len() {
        let Some(stat) = processes.get(&at) else { return false };
        if at == root || stat.session == root {
            return true;
        }
        at = stat.parent;
    }
    false
}

/// Raises the soft limit to the hard limit (`RLIMIT_NOFILE`, `getrlimit(2)`) and returns it; `None`
/// for no limit. The usual 1,024 is too small for a server.
///
/// # Errors
/// The error of `setrlimit(2)`.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_its_own_family() {
        let me = i32::try_from(std::process::id()).expect("a pid is positive");
        assert!(process_tree(me).expect("/proc can be read").contains(&me));
    }

    #[test]
    fn this_process_uses_memory() {
        let me = i32::try_from(std::process::id()).expect("a pid is positive");
        let size = resident_size(me).expect("/proc can be read");
        assert!(size > 100_000 && size < 1 << 40, "{size}");
        assert!(resident_size(i32::MAX).is_err());
    }

    #[test]
    fn time_of_children_is_that_of_those_waited_for() {
        let stat = "12 (a) b (c)) S 7 12 9 0 -1 4194560 1 2 3 4 50 60 70 8 20 0 1";
        assert_eq!(children_ticks(stat), Some(78));
        assert_eq!(children_cpu_ns(i32::MAX), None);
    }

    #[test]
    fn a_missing_process_has_no_tree() {
        assert_eq!(process_tree(i32::MAX).expect("/proc can be read"), Vec::<i32>::new());
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "12 (a) b (c)) S 7 12 9 0 -1 4194560";
        assert_eq!(parse_stat(stat), Some(ProcStat { parent: 7, session: 9 }));
    }

    #[test]
    fn a_session_and_its_grandchildren_belong_together() {
        let stat = |parent, session| ProcStat { parent, session };
        let processes = BTreeMap::from([
            (1, stat(0, 1)),
            (5, stat(1, 5)),
            (6, stat(5, 5)),
            (7, stat(6, 7)),
            (8, stat(1, 5)),
            (9, stat(1, 9)),
        ]);
        let found: Vec<i32> = (1..=9).filter(|&pid| belongs(pid, 5, &processes)).collect();
        assert_eq!(found, [5, 6, 7, 8]);
    }
}
