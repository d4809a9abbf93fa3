//! Which processes of a machine belong to the sampled trees.

use std::collections::HashSet;

use jissoku_os::process;

/// Parents that are followed from a process at most.
const ANCESTORS_MAX: usize = 64;

/// The processes of some trees, kept by the records of the kernel; where a record of another core
/// is read too late for that, by `/proc`.
#[derive(Debug, Default)]
pub(crate) struct ProcessFilter {
    followed: HashSet<i32>,
    /// Running processes that are known to be of no tree.
    foreign: HashSet<i32>,
}

impl ProcessFilter {
    /// Follows a process, and those that it starts from now on.
    pub(crate) fn follow(&mut self, pid: i32) {
        self.followed.insert(pid);
    }

    /// Whether a process belongs to a tree.
    pub(crate) fn accepts(&mut self, pid: i32) -> bool {
        if self.followed.contains(&pid) || self.foreign.contains(&pid) {
            return self.followed.contains(&pid);
        }
        let is_followed = self.has_followed_ancestor(pid);
        if is_followed { &mut self.followed } else { &mut self.foreign }.insert(pid);
        is_followed
    }

    /// A process or a thread began; whether it belongs to a tree. The number may have been that of
    /// a process that has ended.
    pub(crate) fn on_fork(&mut self, pid: i32, parent: i32) -> bool {
        let is_followed = self.accepts(parent);
        if pid != parent {
            let (to, from) = if is_followed {
                (&mut self.followed, &mut self.foreign)
            } else {
                (&mut self.foreign, &mut self.followed)
            };
            from.remove(&pid);
            to.insert(pid);
        }
        is_followed
    }

    /// A thread has ended; whether it belongs to a tree.
    pub(crate) fn on_exit(&mut self, pid: i32, tid: i32) -> bool {
        if pid == tid {
            self.foreign.remove(&pid);
        }
        self.followed.contains(&pid)
    }

    /// Forgets a process that has ended.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.followed.remove(&pid);
    }

    fn has_followed_ancestor(&self, pid: i32) -> bool {
        let ancestors = std::iter::successors(Some(pid), |&pid| process::parent(pid).ok());
        ancestors.take(ANCESTORS_MAX).any(|pid| self.followed.contains(&pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Above every process that Linux can number, so that none of them runs here.
    const ROOT: i32 = 1 << 23;

    fn new() -> ProcessFilter {
        let mut filter = ProcessFilter::default();
        filter.follow(ROOT);
        filter
    }

    #[test]
    fn descendants_are_followed_and_others_are_not() {
        let mut filter = new();
        assert!(filter.on_fork(ROOT + 1, ROOT));
        assert!(filter.on_fork(ROOT + 1, ROOT + 1), "a thread");
        assert!(filter.on_fork(ROOT + 2, ROOT + 1));
        assert!(!filter.on_fork(ROOT + 4, ROOT + 3));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|n| filter.accepts(ROOT + n)),
            [true, true, true, false, false]
        );
    }

    #[test]
    fn a_process_of_which_no_record_was_read_is_known_by_its_parents() {
        let mut filter = ProcessFilter::default();
        let me = i32::try_from(std::process::id()).expect("a pid is positive");
        filter.follow(process::parent(me).expect("/proc can be read"));
        assert!(filter.accepts(me));
        assert!(!ProcessFilter::default().accepts(me));
    }

    #[test]
    fn a_number_belongs_to_the_last_process_that_had_it() {
        let mut filter = new();
        assert!(filter.on_fork(ROOT + 1, ROOT));
        assert!(filter.on_exit(ROOT + 1, ROOT + 1));
        assert!(filter.accepts(ROOT + 1), "samples of another core may follow");
        assert!(!filter.on_fork(ROOT + 1, ROOT + 9));
        assert!(!filter.accepts(ROOT + 1));
        assert!(!filter.on_exit(ROOT + 1, ROOT + 1));
        assert!(filter.on_fork(ROOT + 1, ROOT));
        filter.forget(ROOT + 1);
        assert!(!filter.accepts(ROOT + 1));
    }

    #[test]
    fn ended_processes_take_no_memory() {
        let mut filter = new();
        for pid in ROOT + 1..ROOT + 10_000 {
            let parent = if pid % 2 == 0 { ROOT } else { ROOT - 1 };
            filter.on_fork(pid, parent);
            if filter.on_exit(pid, pid) {
                filter.forget(pid);
            }
        }
        assert_eq!((filter.followed.len(), filter.foreign.len()), (1, 1));
    }
}
