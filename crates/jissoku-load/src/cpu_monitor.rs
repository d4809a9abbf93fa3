//! Measures the CPU time of the servers.
//!
//! The processes of a server are looked up shortly before and after the window, since that is slow;
//! their CPU times are read exactly at its edges.

use std::io;
use std::sync::OnceLock;

use jissoku_os::{clock, process};

/// The processes of each target.
#[derive(Debug)]
pub(crate) struct CpuMonitor {
    roots: Vec<Option<i32>>,
    process_trees: OnceLock<Vec<Vec<i32>>>,
}

/// CPU time so far of every process of every target; `None` for one that has ended.
pub(crate) type CpuSnapshot = Vec<Vec<Option<u64>>>;

/// CPU usage of one server in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuUsage {
    /// CPU time of all its processes; `None` if one of them ended, since its time is lost then.
    pub cpu_ns: Option<u64>,
    /// The number of processes.
    pub processes: u64,
}

impl CpuMonitor {
    pub(crate) fn new(roots: Vec<Option<i32>>) -> Self {
        Self { roots, process_trees: OnceLock::new() }
    }

    /// Whether any process is watched.
    pub(crate) fn is_active(&self) -> bool {
        self.roots.iter().any(Option::is_some)
    }

    /// Looks up the processes, on the first call.
    pub(crate) fn resolve(&self) -> &[Vec<i32>] {
        self.process_trees.get_or_init(|| self.find_processes().unwrap_or_default())
    }

    /// Reads the CPU times of all processes, in a fixed order, so that two snapshots are one window
    /// apart for each target.
    pub(crate) fn snapshot(&self) -> CpuSnapshot {
        let read = |pids: &Vec<i32>| pids.iter().map(|&pid| clock::process_cpu_ns(pid)).collect();
        self.resolve().iter().map(read).collect()
    }

    /// CPU time so far of one target's server; `None` if it is not watched or one of its processes
    /// has ended.
    pub(crate) fn cpu_ns(&self, target: usize) -> Option<u64> {
        let pids = self.resolve().get(target).filter(|pids| !pids.is_empty())?;
        pids.iter().map(|&pid| clock::process_cpu_ns(pid)).sum()
    }

    /// CPU usage of each target between two snapshots, including processes that were started in
    /// between.
    pub(crate) fn cpu_usage(
        &self,
        open: &CpuSnapshot,
        close: &CpuSnapshot,
    ) -> Vec<Option<CpuUsage>> {
        let now = self.find_processes().unwrap_or_default();
        let known = self.resolve();
        let cpu_usage = |target: usize| {
            let (open, close) = (open.get(target)?, close.get(target)?);
            let new_processes = now.get(target)?.iter().filter(|pid| !known[target].contains(pid));
            let new_processes: Vec<u64> =
                new_processes.filter_map(|&pid| clock::process_cpu_ns(pid)).collect();
            let spent = open.iter().zip(close).map(|(open, close)| Some((*close)? - (*open)?));
            let cpu_ns =
                spent.sum::<Option<u64>>().map(|sum| sum + new_processes.iter().sum::<u64>());
            Some(CpuUsage { cpu_ns, processes: (open.len() + new_processes.len()) as u64 })
        };
        (0..self.roots.len())
            .map(|target| self.roots[target].and_then(|_| cpu_usage(target)))
            .collect()
    }

    fn find_processes(&self) -> io::Result<Vec<Vec<i32>>> {
        let pids = |root: &Option<i32>| root.map_or(Ok(Vec::new()), process::process_tree);
        self.roots.iter().map(pids).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_time_is_measured() {
        let me = i32::try_from(std::process::id()).expect("a pid is positive");
        let monitor = CpuMonitor::new(vec![None, Some(me)]);
        let start = clock::own_cpu_ns();
        let open = monitor.snapshot();
        let before = clock::own_cpu_ns();
        let mut sum = 0_u64;
        for number in 0..1_000_000_u64 {
            sum = std::hint::black_box(sum ^ number);
        }
        let worked = clock::own_cpu_ns() - before;
        let cpu_usage = monitor.cpu_usage(&open, &monitor.snapshot());
        let all = clock::own_cpu_ns() - start;
        assert_eq!(cpu_usage[0], None);
        let ours = cpu_usage[1].expect("we are watched");
        assert!((worked..=all).contains(&ours.cpu_ns.expect("we did not end")));
        assert_eq!(ours.processes, monitor.resolve()[1].len() as u64);
    }

    #[test]
    fn an_ended_process_leaves_no_cpu_time() {
        let monitor = CpuMonitor::new(vec![Some(1)]);
        monitor.process_trees.get_or_init(|| vec![vec![1, 2]]);
        let cpu_usage =
            monitor.cpu_usage(&vec![vec![Some(5), Some(7)]], &vec![vec![Some(6), None]]);
        assert_eq!(cpu_usage[0].expect("it is watched").cpu_ns, None);
    }
}
