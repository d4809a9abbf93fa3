//! The outcome of a run, merged over all workers.

use crate::engine::counters::Counters;
use crate::engine::cpu_monitor::{CpuMonitor, CpuUsage};
use crate::engine::histogram::Histogram;
use crate::engine::request_log::RequestRecord;
use crate::engine::time_slices::SliceTotals;
use crate::engine::worker_result::WorkerResult;
use crate::plan::Plan;
use crate::plan::options::Idle;

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// By target, in the order of the plan.
    pub targets: Vec<TargetOutcome>,
    /// By worker.
    pub threads: Vec<WorkerOutcome>,
    /// All requests, if the plan asks for them; those of each worker in the order of their ends.
    pub records: Vec<RequestRecord>,
    /// Length of the window; the longest one if requests end it.
    pub duration_ns: u64,
    /// The longest time without a response, over all workers.
    pub longest_gap_ns: u64,
    /// The longest time in which a worker did not run; spinning workers only.
    pub longest_stall_ns: Option<u64>,
    /// The clock: `tsc`, `monotonic`, or `batch` for one reading per wait.
    pub clock: &'static str,
    /// Drift of that clock against the kernel's, in parts per million.
    pub drift_ppm: f64,
    /// Whether the run was interrupted.
    pub interrupted: bool,
}

/// The outcome of a run on one target.
#[derive(Debug, Default)]
pub struct TargetOutcome {
    /// The counters of all workers.
    pub counters: Counters,
    /// The server's address.
    pub address: String,
    /// Length of the window for this target; a limit of requests ends it with the last of them.
    pub duration_ns: u64,
    /// Requests that were sent or due and had no response when the window closed.
    pub unanswered: u64,
    /// Unanswered requests that were sent.
    pub in_flight: u64,
    /// Established connections when the window closed.
    pub open: u64,
    /// Connections established since the start.
    pub opened: u64,
    /// Failed connection attempts since the start; each was retried.
    pub refused: u64,
    /// Duration of connects, also before the window.
    pub connect: Histogram,
    /// Duration of TLS or WebSocket handshakes.
    pub handshake: Histogram,
    /// TLS handshakes that resumed an earlier session.
    pub resumed: u64,
    /// CPU usage of the watched server in the window.
    pub cpu_usage: Option<CpuUsage>,
    /// Totals of its time slices, if targets were loaded one at a time.
    pub slices: Option<SliceTotals>,
    /// CPU time of the watched server without load, in nanoseconds per second.
    pub idle_cpu_ns_per_s: Option<u64>,
}

/// CPU usage of one worker in its window.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOutcome {
    /// CPU time.
    pub cpu_ns: u64,
    /// Length of the window.
    pub duration_ns: u64,
}

/// Merges the results of all workers.
pub(crate) fn merge(plan: &Plan, results: Vec<WorkerResult>, monitor: &CpuMonitor) -> Outcome {
    let mut targets: Vec<TargetOutcome> =
        plan.targets.iter().map(|_| TargetOutcome::default()).collect();
    let (mut threads, mut records) = (Vec::new(), Vec::new());
    let (mut duration_ns, mut longest_gap_ns, mut longest_stall_ns) = (0, 0, 0);
    for part in results {
        let (part_ns, cpu_ns) = (part.duration_ns, part.cpu_ns);
        duration_ns = duration_ns.max(part_ns);
        records.extend(part.records);
        longest_gap_ns = longest_gap_ns.max(part.longest_gap_ns);
        longest_stall_ns = longest_stall_ns.max(part.longest_stall_ns);
        threads.push(WorkerOutcome { cpu_ns, duration_ns: part_ns });
        for (target, theirs) in targets.iter_mut().zip(part.targets) {
            target.counters.add(&theirs.counters);
            target.duration_ns = target.duration_ns.max(theirs.duration_ns);
            target.unanswered += theirs.in_flight + theirs.overdue;
            target.in_flight += theirs.in_flight;
            target.open += theirs.open;
            target.opened += theirs.connecting.opened;
            target.refused += theirs.connecting.refused;
            target.connect.add(&theirs.connecting.connect);
            target.handshake.add(&theirs.connecting.handshake);
            target.resumed += theirs.connecting.resumed;
            target.slices = theirs.slices.or_else(|| target.slices.take());
            target.idle_cpu_ns_per_s = theirs.idle_cpu_ns_per_s.or(target.idle_cpu_ns_per_s);
        }
        if let Some((open, close)) = part.cpu_snapshots {
            for (target, cpu_usage) in targets.iter_mut().zip(monitor.cpu_usage(&open, &close)) {
                target.cpu_usage = cpu_usage;
            }
        }
    }
    let (clock, drift_ppm) = ("monotonic", 0.0);
    Outcome {
        targets,
        threads,
        records,
        duration_ns,
        longest_gap_ns,
        longest_stall_ns: (plan.idle == Idle::Spin).then_some(longest_stall_ns),
        clock,
        drift_ppm,
        interrupted: false,
    }
}
