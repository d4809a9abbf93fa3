//! Measures the CPU time of the servers.
//!
//! The processes of a server are looked up shortly before and after the window, since that is slow;
//! their CPU times are read exactly at its edges. Processes that begin and end in the window, as a
//! server with CGI starts them, are known from their parents, which the kernel charges with the time of
//! children that they waited for.

use std::io;
use std::sync::OnceLock;

use jissoku_os::{clock, process};

/// The processes of each target.
#[derive(Debug)]
pub(crate) struct CpuMonitor {
    roots: Vec<Option<i32>>,
    watched: OnceLock<Watched>,
}

/// The processes of each target, and the CPU time of their ended children, shortly before the window.
#[derive(Debug, Default)]
struct Watched {
    trees: Vec<Vec<i32>>,
    children_ns: Vec<u64>,
}

/// CPU time so far of every process of every target; `None` for one that has ended.
pub(crate) type CpuSnapshot = Vec<Vec<Option<u64>>>;

/// CPU usage of one server in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuUsage {
    /// CPU time of all its processes; `None` if one of them ended and was not waited for, since its
    /// time is lost then.
    pub cpu_ns: Option<u64>,
    /// The number of processes.
    pub processes: u64,
}

impl CpuMonitor {
    pub(crate) fn new(roots: Vec<Option<i32>>) -> Self {
        Self { roots, watched: OnceLock::new() }
    }

    /// Whether any process is watched.
    pub(crate) fn is_active(&self) -> bool {
        self.roots.iter().any(Option::is_some)
    }

    /// Looks up the processes, on the first call.
    pub(crate) fn resolve(&self) -> &[Vec<i32>] {
        &self.watched().trees
    }

    fn watched(&self) -> &Watched {
        self.watched.get_or_init(|| {
            let trees = self.find_processes().unwrap_or_default();
            let children_ns = trees.iter().map(|tree| children_cpu_ns(tree)).collect();
            Watched { trees, children_ns }
        })
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
    /// between, whether they have ended or not.
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
            let new_processes: Vec<i32> = new_processes.copied().collect();
            let new_ns = new_processes.iter().filter_map(|&pid| clock::process_cpu_ns(pid));
            let ended_ns = (children_cpu_ns(&known[target]) + children_cpu_ns(&new_processes))
                .saturating_sub(*self.watched().children_ns.get(target)?);
            // What is left of a target whose first process ended is not its CPU time.
            let root = known[target].iter().position(|&pid| Some(pid) == self.roots[target])?;
            let is_there = open.get(root)?.is_some() && close.get(root)?.is_some();
            let known_ns = is_there.then(|| spent_ns(open, close, ended_ns)).flatten();
            let cpu_ns = known_ns.map(|spent| spent + new_ns.sum::<u64>());
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

/// CPU time between two snapshots of one target.
///
/// `waited_ns` is the time of the children that were waited for in between. It has all that a child
/// used since its start, so what one of the first snapshot had used by then is subtracted. If less
/// was waited for than that, a process ended unnoticed.
fn spent_ns(open: &[Option<u64>], close: &[Option<u64>], waited_ns: u64) -> Option<u64> {
    let (mut spent, mut before) = (0, 0);
    for (open, close) in open.iter().zip(close) {
        match (*open, *close) {
            (Some(open), Some(close)) => spent += close.saturating_sub(open),
            (Some(open), None) => before += open,
            // It ended between the lookup and the window: `waited_ns` counts from the lookup on.
            (None, _) => {}
        }
    }
    Some(spent + waited_ns.checked_sub(before)?)
}

/// CPU time of the children that these processes have waited for.
fn children_cpu_ns(pids: &[i32]) -> u64 {
    pids.iter().filter_map(|&pid| process::children_cpu_ns(pid)).sum()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    /// One after the other: the shell is one of this process's own children.
    #[test]
    fn cpu_time_of_children_and_own_are_measured() {
        children_are_measured("echo; read line; (SPIN); echo; read line");
        // This one is there at the first snapshot already.
        children_are_measured("exec 3<&0; (echo; read line <&3; SPIN) & wait; echo; read line");
        own_is_measured();
    }

    fn own_is_measured() {
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

    /// A shell is measured whose child ends between two snapshots.
    fn children_are_measured(script: &str) {
        let spin = "i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); done";
        let mut parent = Command::new("sh")
            .args(["-c", &script.replace("SPIN", spin)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let pid = i32::try_from(parent.id()).expect("a pid is positive");
        let (mut input, mut output) =
            (parent.stdin.take().expect("a pipe"), parent.stdout.take().expect("a pipe"));
        output.read_exact(&mut [0]).expect("it says that it waits");
        let monitor = CpuMonitor::new(vec![Some(pid)]);
        let open = monitor.snapshot();
        input.write_all(b"begin\n").expect("it reads");
        output.read_exact(&mut [0]).expect("it says that the child has ended");
        let cpu_usage = monitor.cpu_usage(&open, &monitor.snapshot());
        let own_ns = clock::process_cpu_ns(pid).expect("it waits");
        input.write_all(b"end\n").expect("it reads");
        assert!(parent.wait().expect("it is ours").success());
        let cpu_ns = cpu_usage[0].expect("it is watched").cpu_ns.expect("it did not end");
        assert!(cpu_ns >= own_ns + 10_000_000, "{cpu_ns} ns, of the parent {own_ns} ns");
    }

    #[test]
    fn a_root_that_ended_leaves_no_cpu_time() {
        let monitor = CpuMonitor::new(vec![Some(i32::MAX)]);
        let watched = Watched { trees: vec![vec![1, i32::MAX]], children_ns: vec![0] };
        monitor.watched.get_or_init(|| watched);
        let cpu_usage =
            monitor.cpu_usage(&vec![vec![Some(5), Some(7)]], &vec![vec![Some(6), None]]);
        assert_eq!(cpu_usage[0].and_then(|used| used.cpu_ns), None);
    }

    #[test]
    fn a_process_that_ended_unnoticed_leaves_no_cpu_time() {
        let (both, first) = ([Some(5), Some(7)], [Some(5), None]);
        let cases = [
            (both, [Some(6), Some(9)], 0, Some(3)),
            (both, [Some(6), Some(9)], 4, Some(7)),
            (both, [Some(6), None], 9, Some(3)),
            (both, [Some(6), None], 6, None),
            (both, [None, None], 12, Some(0)),
            (both, [None, None], 11, None),
            (first, [Some(6), None], 9, Some(10)),
        ];
        for (open, close, waited_ns, expected) in cases {
            assert_eq!(spent_ns(&open, &close, waited_ns), expected, "{open:?} {close:?}");
        }
    }
}
