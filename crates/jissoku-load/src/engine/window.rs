//! The measurement window of one worker: when it opens and closes, and the gaps in it.

use crate::engine::cpu_monitor::CpuSnapshot;

const SECOND_NS: u64 = 1_000_000_000;

/// The times of a run, on the load generator's clock.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "units end names")]
pub(crate) struct Timing {
    pub(crate) start_ns: u64,
    pub(crate) open_ns: u64,
    /// Counted from the actual opening; `u64::MAX` if a number of requests ends the run.
    pub(crate) duration_ns: u64,
}

/// State of the measurement window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) opened_ns: Option<u64>,
    closes_ns: u64,
    next_second_ns: u64,
    /// CPU time of the thread when the window opened.
    pub(crate) cpu_ns: u64,
    /// CPU times of the watched servers when the window opened.
    pub(crate) cpu_snapshot: CpuSnapshot,
    pub(crate) last_response_ns: u64,
    longest_gap_ns: u64,
    last_iteration_ns: u64,
    longest_stall_ns: u64,
}

impl Window {
    /// A window that opens at `now_ns`.
    pub(crate) fn open(
        now_ns: u64,
        duration_ns: u64,
        cpu_ns: u64,
        cpu_snapshot: CpuSnapshot,
    ) -> Self {
        Self {
            opened_ns: Some(now_ns),
            closes_ns: now_ns.saturating_add(duration_ns),
            next_second_ns: now_ns + SECOND_NS,
            cpu_ns,
            cpu_snapshot,
            last_response_ns: now_ns,
            longest_gap_ns: 0,
            last_iteration_ns: now_ns,
            longest_stall_ns: 0,
        }
    }

    /// Whether the window is open and its time is over.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        self.opened_ns.is_some() && now_ns >= self.closes_ns
    }

    /// Whether a second of the window has ended; true once for each.
    pub(crate) fn ends_second(&mut self, now_ns: u64) -> bool {
        let ends = self.opened_ns.is_some() && now_ns >= self.next_second_ns;
        self.next_second_ns += if ends { SECOND_NS } else { 0 };
        ends
    }

    /// When the window opens or closes or a second of it ends. Time slices decide themselves when
    /// it opens and closes.
    pub(crate) fn next_ns(&self, open_ns: u64, is_sliced: bool) -> u64 {
        match (self.opened_ns, is_sliced) {
            (None, true) => u64::MAX,
            (None, false) => open_ns,
            (Some(_), true) => self.next_second_ns,
            (Some(_), false) => self.closes_ns.min(self.next_second_ns),
        }
    }

    /// Called at the start of each loop iteration.
    #[inline]
    pub(crate) fn record_iteration(&mut self, now_ns: u64) {
        let stall_ns = now_ns.saturating_sub(self.last_iteration_ns);
        self.longest_stall_ns = self.longest_stall_ns.max(stall_ns);
        self.last_iteration_ns = now_ns;
    }

    /// Called for each response.
    #[inline]
    pub(crate) fn record_response(&mut self, now_ns: u64) {
        let gap_ns = now_ns.saturating_sub(self.last_response_ns);
        self.last_response_ns = now_ns;
        self.longest_gap_ns = self.longest_gap_ns.max(gap_ns);
    }

    /// The longest time without a response until `end_ns`.
    pub(crate) fn longest_gap_ns(&self, end_ns: u64) -> u64 {
        self.longest_gap_ns.max(end_ns.saturating_sub(self.last_response_ns))
    }

    /// The longest loop iteration: of a spinning worker, time in which its thread did not run.
    pub(crate) fn longest_stall_ns(&self) -> u64 {
        self.longest_stall_ns
    }
}
