//! The measurement window: counters are reset when it opens, and the CPU times of the servers and
//! of the load generator are read at both edges.

use jissoku_os::clock;

use crate::connection::{ConnectionState, RequestTimes};
use crate::counters::Counters;
use crate::cpu_monitor::{CpuMonitor, CpuSnapshot};
use crate::histogram::Histogram;
use crate::interval::IntervalReporter;
use crate::request_log::{RequestLog, RequestOutcome, RequestRecord};
use crate::target::Target;
use crate::time_slices::SliceTotals;
use crate::worker::Worker;

const SECOND_NS: u64 = 1_000_000_000;

/// The window's opening or closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEvent {
    /// Counting starts.
    Open,
    /// Counting ends.
    Close,
}

/// The times of a run, on the load generator's clock.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "units end names")]
pub(crate) struct Timing {
    pub(crate) start_ns: u64,
    pub(crate) open_ns: u64,
    /// Counted from the actual opening; `u64::MAX` if a number of requests ends the run.
    pub(crate) duration_ns: u64,
}

/// What only the first worker does at the window's edges.
#[derive(Clone, Copy)]
pub(crate) struct WindowHooks<'a> {
    pub(crate) monitor: &'a CpuMonitor,
    pub(crate) on_window_event: &'a (dyn Fn(WindowEvent) + Sync),
}

/// The results of one worker.
#[derive(Debug)]
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
#[derive(Debug)]
pub(crate) struct TargetResult {
    pub(crate) counters: Counters,
    /// Requests that were sent and had no response at the end.
    pub(crate) in_flight: u64,
    /// Requests that were due and not sent at the end.
    pub(crate) overdue: u64,
    pub(crate) open: u64,
    pub(crate) opened: u64,
    pub(crate) refused: u64,
    pub(crate) connect: Histogram,
    pub(crate) handshake: Histogram,
    pub(crate) resumed: u64,
    /// Totals of its time slices, if targets are loaded one at a time.
    pub(crate) slices: Option<SliceTotals>,
    pub(crate) idle_cpu_ns_per_s: Option<u64>,
}

/// State of the measurement window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    opened_ns: Option<u64>,
    closes_ns: u64,
    next_second_ns: u64,
    cpu_ns: u64,
    cpu_snapshots: CpuSnapshot,
    pub(crate) last_response_ns: u64,
    pub(crate) longest_gap_ns: u64,
    last_iteration_ns: u64,
    longest_stall_ns: u64,
}

impl Window {
    /// Whether the window is open and its time is over.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        self.opened_ns.is_some() && now_ns >= self.closes_ns
    }

    /// Called at the start of each loop iteration.
    #[inline]
    pub(crate) fn note_iteration(&mut self, now_ns: u64) {
        let stall_ns = now_ns.saturating_sub(self.last_iteration_ns);
        self.longest_stall_ns = self.longest_stall_ns.max(stall_ns);
        self.last_iteration_ns = now_ns;
    }
}

impl Worker<'_> {
    /// Measures the CPU usage of the watched servers without load, until the start.
    pub(crate) fn measure_idle_cpu(&mut self, timing: Timing) {
        let Some(window_hooks) = self.window_hooks.filter(|_| self.plan.idle_watch_ns > 0) else {
            return;
        };
        let read = |target| window_hooks.monitor.cpu_ns(target);
        // The first quarter is left out: servers may still be handling the new connections.
        let settled_ns = timing.start_ns.saturating_sub(self.plan.idle_watch_ns / 4 * 3);
        while self.clock.now_ns() < settled_ns {
            std::hint::spin_loop();
        }
        let (before_ns, before): (u64, Vec<_>) =
            (self.clock.now_ns(), (0..self.targets.len()).map(read).collect());
        while self.clock.now_ns() < timing.start_ns {
            std::hint::spin_loop();
        }
        let span_ns = (self.clock.now_ns() - before_ns).max(1);
        let used = |(target, before): (usize, &Option<u64>)| {
            let used_ns = read(target)?.checked_sub((*before)?)?;
            u64::try_from(u128::from(used_ns) * u128::from(SECOND_NS) / u128::from(span_ns)).ok()
        };
        self.idle_cpu_ns_per_s = before.iter().enumerate().map(used).collect();
    }

    /// Runs expired timers; returns true when the window is over.
    pub(crate) fn run_timers(&mut self, now_ns: u64, timing: Timing) -> bool {
        if self.window.opened_ns.is_none() && now_ns >= timing.open_ns && self.slicer.is_none() {
            self.open(timing);
        }
        while self.window.opened_ns.is_some() && now_ns >= self.window.next_second_ns {
            self.targets.iter_mut().for_each(|target| target.counters.end_second());
            self.window.next_second_ns += SECOND_NS;
        }
        for reporter in &mut self.reporters {
            while now_ns >= reporter.next_ns() {
                reporter.report(&self.targets);
            }
        }
        if self.slicer.is_none() && self.window.is_over(now_ns) {
            return true;
        }
        self.check_timeouts(now_ns);
        self.retry(now_ns);
        self.send_delayed(now_ns);
        self.schedule_timers(timing);
        false
    }

    pub(crate) fn schedule_timers(&mut self, timing: Timing) {
        let edge = match self.window.opened_ns {
            None if self.slicer.is_some() => u64::MAX,
            None => timing.open_ns,
            Some(_) if self.slicer.is_some() => self.window.next_second_ns,
            Some(_) => self.window.closes_ns.min(self.window.next_second_ns),
        };
        let interval =
            self.reporters.iter().map(IntervalReporter::next_ns).min().unwrap_or(u64::MAX);
        self.timers.reschedule(edge.min(interval));
    }

    /// Opens the window: resets the counters at the moment at which CPU times are read.
    pub(crate) fn open(&mut self, timing: Timing) {
        for (target, window_counters) in self.targets.iter_mut().zip(self.window_counters.drain(..))
        {
            target.counters = window_counters;
        }
        if let Some(window_hooks) = self.window_hooks {
            (window_hooks.on_window_event)(WindowEvent::Open);
            self.window.cpu_snapshots = window_hooks.monitor.snapshot();
        }
        self.window.cpu_ns = clock::thread_cpu_ns();
        let now_ns = self.clock.now_ns();
        self.set_queued_sent_times(now_ns);
        self.targets.iter_mut().for_each(|target| target.counters.queued_ns = 0);
        self.record_carried(now_ns);
        self.reporters.iter_mut().for_each(|reporter| reporter.begin(self.targets.len(), now_ns));
        self.request_log.iter_mut().for_each(RequestLog::open);
        self.window.opened_ns = Some(now_ns);
        self.window.closes_ns = now_ns.saturating_add(timing.duration_ns);
        self.window.next_second_ns = now_ns + SECOND_NS;
        self.window.last_response_ns = now_ns;
        self.window.longest_gap_ns = 0;
        self.window.last_iteration_ns = now_ns;
        self.window.longest_stall_ns = 0;
    }

    pub(crate) fn close(mut self) -> WorkerResult {
        let cpu_snapshots = self.window_hooks.map(|window_hooks| window_hooks.monitor.snapshot());
        let cpu_ns = clock::thread_cpu_ns() - self.window.cpu_ns;
        let now_ns = self.clock.now_ns();
        if let Some(window_hooks) = self.window_hooks {
            (window_hooks.on_window_event)(WindowEvent::Close);
        }
        // A run that is limited by requests ends with the last response.
        let end_ns = if self.is_done() { self.window.last_response_ns } else { now_ns };
        let Some(opened_ns) = self.window.opened_ns else { return self.empty_result() };
        let gap_ns = end_ns.saturating_sub(self.window.last_response_ns);
        let open = self.open_per_target();
        self.set_queued_sent_times(end_ns);
        self.record_unanswered(end_ns);
        let records = self.request_log.take().map(RequestLog::into_records);
        let mut slices =
            self.slicer.take().map(|slices| slices.finish(&mut self.targets).into_iter());
        let mut idle = self.idle_cpu_ns_per_s.into_iter();
        let targets = self.targets.into_iter().zip(open).map(|(mut target, open)| {
            if target.counters.per_second.iter().sum::<u64>() < target.counters.requests {
                target.counters.end_second();
            }
            let (in_flight, overdue) = (target.in_flight, target.record_overdue(end_ns));
            let Target { counters, opened, refused, connect, handshake, resumed, .. } = target;
            TargetResult {
                counters,
                in_flight,
                overdue,
                open,
                opened,
                refused,
                connect,
                handshake,
                resumed,
                slices: slices.as_mut().and_then(Iterator::next),
                idle_cpu_ns_per_s: idle.next().flatten(),
            }
        });
        WorkerResult {
            targets: targets.collect(),
            records: records.unwrap_or_default(),
            duration_ns: end_ns.saturating_sub(opened_ns),
            cpu_ns,
            longest_gap_ns: self.window.longest_gap_ns.max(gap_ns),
            longest_stall_ns: self.window.longest_stall_ns,
            cpu_snapshots: cpu_snapshots.map(|close| (self.window.cpu_snapshots, close)),
        }
    }

    /// The result of a run that ended before its window opened.
    fn empty_result(self) -> WorkerResult {
        let nothing = |target: &Target<'_>| TargetResult {
            counters: Counters::default(),
            in_flight: 0,
            overdue: 0,
            open: 0,
            opened: target.opened,
            refused: target.refused,
            connect: target.connect.clone(),
            handshake: target.handshake.clone(),
            resumed: target.resumed,
            slices: None,
            idle_cpu_ns_per_s: None,
        };
        let targets = self.targets.iter().map(nothing).collect();
        WorkerResult {
            targets,
            records: Vec::new(),
            duration_ns: 0,
            cpu_ns: 0,
            longest_gap_ns: 0,
            longest_stall_ns: 0,
            cpu_snapshots: None,
        }
    }

    /// Records the requests in flight when the window opens.
    fn record_carried(&mut self, now_ns: u64) {
        for index in 0..self.connections.len() {
            let target = usize::from(self.connections[index].target);
            for place in 0..self.connections[index].outstanding {
                let since_ns = now_ns.saturating_sub(self.times_of(index, place).sent_ns);
                let counters = &mut self.targets[target].counters;
                counters.carried += 1;
                counters.carried_ns += since_ns;
            }
        }
    }

    /// Records how long requests in flight have waited when the window closes.
    fn record_unanswered(&mut self, now_ns: u64) {
        for index in 0..self.connections.len() {
            let target = usize::from(self.connections[index].target);
            for place in 0..self.connections[index].outstanding {
                let RequestTimes { due_ns, sent_ns } = self.times_of(index, place);
                let (latency_ns, service_ns) =
                    (now_ns.saturating_sub(due_ns), now_ns.saturating_sub(sent_ns));
                self.targets[target].counters.record_unanswered(latency_ns, service_ns);
                if let Some(request_log) = &mut self.request_log {
                    let (times, target) =
                        (RequestTimes { due_ns, sent_ns }, self.connections[index].target);
                    request_log.note(target, times, now_ns, (0, RequestOutcome::Unanswered));
                }
            }
        }
    }

    /// The times of a request in flight; `place` counts from the oldest one.
    fn times_of(&self, index: usize, place: u16) -> RequestTimes {
        let depth = usize::from(self.plan.pipeline);
        let slot = (usize::from(self.connections[index].oldest) + usize::from(place)) % depth;
        self.request_times[index * depth + slot]
    }

    fn open_per_target(&self) -> Vec<u64> {
        let mut open = vec![0; self.targets.len()];
        for connection in
            self.connections.iter().filter(|found| found.state == ConnectionState::Open)
        {
            open[usize::from(connection.target)] += 1;
        }
        open
    }
}
