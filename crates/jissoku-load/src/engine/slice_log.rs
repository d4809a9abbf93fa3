//! What each time slice took: CPU time, requests, and waiting for a core.

use std::collections::BTreeSet;
use std::process;

use jissoku_os::affinity;
use jissoku_os::idle_time::IdleTime;
use jissoku_os::run_queue::{RunQueue, Waited};
use serde::Serialize;

use crate::engine::cpu_monitor::CpuMonitor;

/// One slice of one target, with fields named as in the JSON. A rotation is one slice of every target,
/// and ends with the last of them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SliceUsage {
    /// When it began, without settling, after the start of the load; of slices at fixed times, that
    /// time.
    pub began_ns: u64,
    /// Correct responses.
    pub requests: u64,
    /// Its duration, without settling.
    pub duration_ns: u64,
    /// CPU time of the watched server; 0 if it could not be read. The JSON has it in a list of its own.
    #[serde(skip)]
    pub cpu_ns: u64,
    /// How long threads of the watched server were ready and had no core; `None` if the kernel does
    /// not count it.
    pub wait_ns: Option<u64>,
    /// How often one of these threads got a core.
    pub runs: Option<u64>,
    /// How long threads of the load generator were ready and had no core.
    pub generator_wait_ns: Option<u64>,
    /// The whole rotation, with the slices of all targets.
    pub rotation_ns: u64,
    /// CPU time of the watched server in it, with what it used while others were loaded.
    pub rotation_cpu_ns: Option<u64>,
    /// CPU time of everything else on the cores of the watched servers in the rotation, other programs
    /// and the kernel: their time that was neither idle nor a server's, to about 10 ms. `None` if it is
    /// unknown, and where the load generator may run on these cores.
    pub rotation_foreign_ns: Option<u64>,
}

/// The threads of targets and load generator, whose waiting is read at the ends of slices, and the
/// servers' cores.
#[derive(Debug, Default)]
pub(crate) struct WaitMonitor {
    targets: Vec<Option<RunQueue>>,
    generator: Option<RunQueue>,
    idle: Option<IdleTime>,
}

/// Waiting of one target, and of the load generator, up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    target: Option<Waited>,
    generator: Option<Waited>,
}

impl WaitMonitor {
    /// Opens the files of all threads that there are.
    pub(crate) fn open(monitor: &CpuMonitor) -> Self {
        let us = i32::try_from(process::id()).ok();
        Self {
            targets: monitor.resolve().iter().map(|pids| RunQueue::of(pids)).collect(),
            generator: us.and_then(|us| RunQueue::of(&[us])),
            idle: server_cores(monitor.resolve()).and_then(|cores| IdleTime::of(cores).ok()),
        }
    }

    /// Idle time of the servers' cores so far.
    pub(crate) fn idle_ns(&mut self) -> Option<u64> {
        self.idle.as_mut()?.idle_ns()
    }

    /// The number of the servers' cores.
    pub(crate) fn cores(&self) -> u64 {
        self.idle.as_ref().map_or(0, |idle| idle.cores().len() as u64)
    }

    /// The waiting of a target and of the load generator so far.
    pub(crate) fn read(&mut self, target: usize) -> Waits {
        let queue = self.targets.get_mut(target).and_then(Option::as_mut);
        Waits {
            target: queue.map(RunQueue::waited),
            generator: self.generator.as_mut().map(RunQueue::waited),
        }
    }
}

/// The cores on which the servers may run; `None` if the calling thread may run on one of them.
fn server_cores(trees: &[Vec<i32>]) -> Option<Vec<usize>> {
    let mut cores = BTreeSet::new();
    for &pid in trees.iter().flatten() {
        cores.extend(affinity::of_thread(pid).ok()?);
    }
    let ours = affinity::allowed().ok()?;
    let is_apart = !cores.is_empty() && !ours.iter().any(|core| cores.contains(core));
    is_apart.then(|| cores.into_iter().collect())
}

impl Waits {
    /// Enters what was waited since an earlier reading.
    pub(crate) fn enter(self, earlier: Self, usage: &mut SliceUsage) {
        let since = |now: Option<Waited>, then: Option<Waited>| Some(now?.since(then?));
        let target = since(self.target, earlier.target);
        usage.wait_ns = target.map(|waited| waited.wait_ns);
        usage.runs = target.map(|waited| waited.runs);
        usage.generator_wait_ns =
            since(self.generator, earlier.generator).map(|waited| waited.wait_ns);
    }
}
