//! The results of one worker.

use crate::engine::counters::Counters;
use crate::engine::cpu_monitor::CpuSnapshot;
use crate::engine::histogram::Histogram;
use crate::engine::request_log::RequestRecord;
use crate::engine::time_slices::SliceTotals;

/// The results of one worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerResult {
    pub(crate) targets: Vec<TargetResult>,
    pub(crate) records: Vec<RequestRecord>,
    pub(crate) duration_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) longest_gap_ns: u64,
    /// The longest loop iteration of a spinning worker: time in which its thread did not run.
    pub(crate) longest_stall_ns: u64,
    /// CPU times of the watched processes at both edges; first worker only.
    pub(crate) cpu_snapshots: Option<(CpuSnapshot, CpuSnapshot)>,
}

/// The results of one worker for one target.
#[derive(Debug, Default)]
pub(crate) struct TargetResult {
    pub(crate) counters: Counters,
    pub(crate) connecting: ConnectCounters,
    /// Requests that were sent and had no response at the end.
    pub(crate) in_flight: u64,
    /// Requests that were due and not sent at the end.
    pub(crate) overdue: u64,
    /// Connections that were established at the end.
    pub(crate) open: u64,
    /// Totals of its time slices, if targets are loaded one at a time.
    pub(crate) slices: Option<SliceTotals>,
    pub(crate) idle_cpu_ns_per_s: Option<u64>,
    /// From the window's opening to the end of the target's last request.
    pub(crate) duration_ns: u64,
}

/// Counts of connection attempts on one target since the start.
#[derive(Debug, Default)]
pub(crate) struct ConnectCounters {
    /// Connections established.
    pub(crate) opened: u64,
    /// Failed attempts.
    pub(crate) refused: u64,
    /// Duration of TCP or Unix connects, without a handshake.
    pub(crate) connect: Histogram,
    /// Duration of TLS or WebSocket handshakes.
    pub(crate) handshake: Histogram,
    /// TLS handshakes that resumed an earlier session.
    pub(crate) resumed: u64,
}
