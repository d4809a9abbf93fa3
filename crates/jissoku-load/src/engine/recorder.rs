//! What one worker counts: responses, errors, connects, CPU time, and the intervals of the window.

use crate::plan::options::ClockSource;
use jissoku_os::clock;
use jissoku_os::tsc::Clock;

use crate::engine::connection::RequestTimes;
use crate::engine::control::WindowEvent;
use crate::engine::counters::Counters;
use crate::engine::cpu_monitor::{CpuMonitor, CpuSnapshot};
use crate::engine::error::{ErrorExample, RequestError};
use crate::engine::interval::IntervalReporter;
use crate::engine::request_log::{RequestLog, RequestOutcome};
use crate::engine::window::{Timing, Window};
use crate::engine::worker_result::{ConnectCounters, TargetResult, WorkerResult};
use crate::plan::Plan;

const SECOND_NS: u64 = 1_000_000_000;

/// What only the first worker does at the window's edges.
#[derive(Clone, Copy)]
pub(crate) struct WindowHooks<'a> {
    pub(crate) monitor: &'a CpuMonitor,
    pub(crate) on_window_event: &'a (dyn Fn(WindowEvent) + Sync),
}

/// Counts the outcomes of requests, by target.
pub(crate) struct Recorder<'a> {
    timeout_ns: u64,
    pub(crate) counters: Vec<Counters>,
    pub(crate) connecting: Vec<ConnectCounters>,
    pub(crate) window: Window,
    /// Empty counters that replace those of the warm-up when the window opens.
    window_counters: Vec<Counters>,
    hooks: Option<WindowHooks<'a>>,
    /// One for each interval length that is observed.
    reporters: Vec<IntervalReporter>,
    /// Records every request, if the plan asks for it.
    request_log: Option<RequestLog>,
    /// CPU time of the watched servers without load, in nanoseconds per second.
    idle_cpu_ns_per_s: Vec<Option<u64>>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(
        plan: &Plan,
        hooks: Option<WindowHooks<'a>>,
        reporters: Vec<IntervalReporter>,
    ) -> Self {
        let counters = || plan.targets.iter().map(|target| Counters::new(target.specs.len()));
        Self {
            timeout_ns: plan.timeout_ns,
            counters: counters().collect(),
            connecting: plan.targets.iter().map(|_| ConnectCounters::default()).collect(),
            window: Window::default(),
            window_counters: counters().collect(),
            hooks,
            reporters,
            request_log: None,
            idle_cpu_ns_per_s: Vec::new(),
        }
    }

    /// Called at the start of the load.
    pub(crate) fn start(&mut self, plan: &Plan, timing: Timing) {
        self.request_log = plan.keeps_records.then(|| RequestLog::new(timing.start_ns));
    }

    /// Counts the outcome of a request: its status, 0 if there is none, and its error.
    #[inline]
    pub(crate) fn record_response(
        &mut self,
        (target, spec): (u16, u16),
        times: RequestTimes,
        (status, error): (u16, Option<RequestError>),
        now_ns: u64,
    ) {
        let service_ns = now_ns.saturating_sub(times.sent_ns);
        let latency_ns = now_ns.saturating_sub(times.due_ns);
        let late = service_ns > self.timeout_ns;
        let error = error.or(late.then_some(RequestError::Timeout));
        if let Some(request_log) = &mut self.request_log {
            let kind = error.map_or(RequestOutcome::Ok, RequestOutcome::Failed);
            request_log.note(target, times, now_ns, (status, kind));
        }
        let counters = &mut self.counters[usize::from(target)];
        if let Some(count) = counters.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
        match error {
            None => counters.record_success(spec, latency_ns, service_ns),
            Some(error) => {
                counters.record_error(error, 1);
                counters.record_unanswered(latency_ns, service_ns);
                if let Some(count) = counters.errors_per_spec.get_mut(usize::from(spec)) {
                    *count += 1;
                }
                self.add_example((target, Some(spec)), error, now_ns, || match status {
                    0 => error.description().to_owned(),
                    _ => format!("a response with status {status}, after the timeout"),
                });
            }
        }
        let counters = &mut self.counters[usize::from(target)];
        counters.last_end_ns = now_ns;
        self.window.record_response(now_ns);
    }

    /// Records when the first part of a correct response came that ended at `now_ns`.
    pub(crate) fn record_first_read(
        &mut self,
        target: u16,
        sent_ns: u64,
        read_ns: u64,
        now_ns: u64,
    ) {
        let service_ns = now_ns.saturating_sub(sent_ns);
        if service_ns <= self.timeout_ns {
            let counters = &mut self.counters[usize::from(target)];
            counters.first_read.record(read_ns.saturating_sub(sent_ns).min(service_ns));
            counters.first_read_service.record(service_ns);
        }
    }

    /// Keeps what has happened with a request, if it is the first error of its kind.
    pub(crate) fn add_example(
        &mut self,
        (target, spec): (u16, Option<u16>),
        error: RequestError,
        now_ns: u64,
        message: impl FnOnce() -> String,
    ) {
        let counters = &mut self.counters[usize::from(target)];
        if counters.examples.iter().all(|known| known.error != error) {
            let at_ns = now_ns.saturating_sub(self.window.opened_ns.unwrap_or(now_ns));
            counters.add_example(ErrorExample { error, at_ns, spec, message: message() });
        }
    }

    /// Counts a failed connection attempt, and whether a request was given up because of it.
    pub(crate) fn record_refused(&mut self, target: usize, gives_up: bool) {
        self.connecting[target].refused += 1;
        let counters = &mut self.counters[target];
        counters.record_error(RequestError::Connect, 1);
        counters.not_connected += u64::from(gives_up);
    }

    pub(crate) fn monitor(&self) -> Option<&'a CpuMonitor> {
        self.hooks.map(|hooks| hooks.monitor)
    }

    /// Measures the CPU usage of the watched servers without load for `idle_watch_ns`, until the
    /// start.
    pub(crate) fn measure_idle_cpu(
        &mut self,
        clock: &ReceiveClock,
        idle_watch_ns: u64,
        start_ns: u64,
    ) {
        let Some(monitor) = self.monitor().filter(|_| idle_watch_ns > 0) else { return };
        let targets = self.counters.len();
        // The first quarter is left out: servers may still be handling the new connections.
        let settled_ns = start_ns.saturating_sub(idle_watch_ns / 4 * 3);
        while clock.now_ns() < settled_ns {
            std::hint::spin_loop();
        }
        let before_ns = clock.now_ns();
        let before: Vec<_> = (0..targets).map(|target| monitor.cpu_ns(target)).collect();
        while clock.now_ns() < start_ns {
            std::hint::spin_loop();
        }
        let span_ns = (clock.now_ns() - before_ns).max(1);
        let used = |(target, before): (usize, &Option<u64>)| {
            let used_ns = monitor.cpu_ns(target)?.checked_sub((*before)?)?;
            u64::try_from(u128::from(used_ns) * u128::from(SECOND_NS) / u128::from(span_ns)).ok()
        };
        self.idle_cpu_ns_per_s = before.iter().enumerate().map(used).collect();
    }

    /// Opens the window: resets the counters at the moment at which CPU times are read. Returns
    /// that moment.
    pub(crate) fn open(&mut self, clock: &ReceiveClock, duration_ns: u64) -> u64 {
        self.counters = std::mem::take(&mut self.window_counters);
        let snapshot = self.hooks.map(|hooks| {
            (hooks.on_window_event)(WindowEvent::Open);
            hooks.monitor.snapshot()
        });
        let cpu_ns = clock::thread_cpu_ns();
        let now_ns = clock.now_ns();
        self.reporters.iter_mut().for_each(|reporter| reporter.begin(self.counters.len(), now_ns));
        self.request_log.iter_mut().for_each(RequestLog::open);
        self.window = Window::open(now_ns, duration_ns, cpu_ns, snapshot.unwrap_or_default());
        now_ns
    }

    /// Records the requests in flight when the window opens, by target.
    pub(crate) fn record_carried(
        &mut self,
        in_flight: impl Iterator<Item = (u16, RequestTimes)>,
        now_ns: u64,
    ) {
        for (target, times) in in_flight {
            let counters = &mut self.counters[usize::from(target)];
            counters.carried += 1;
            counters.carried_ns += now_ns.saturating_sub(times.sent_ns);
        }
    }

    /// Ends the seconds and intervals that are over.
    pub(crate) fn end_intervals(&mut self, now_ns: u64) {
        while self.window.ends_second(now_ns) {
            self.counters.iter_mut().for_each(Counters::end_second);
        }
        for reporter in &mut self.reporters {
            while now_ns >= reporter.next_ns() {
                reporter.report(&self.counters);
            }
        }
    }

    /// When the next interval ends.
    pub(crate) fn next_interval_ns(&self) -> u64 {
        self.reporters.iter().map(IntervalReporter::next_ns).min().unwrap_or(u64::MAX)
    }

    /// Reads the CPU times at the end of the window.
    pub(crate) fn close(&self, clock: &ReceiveClock) -> Closing {
        let snapshot = self.hooks.map(|hooks| hooks.monitor.snapshot());
        let (cpu_ns, now_ns) = (clock::thread_cpu_ns(), clock.now_ns());
        if let Some(hooks) = self.hooks {
            (hooks.on_window_event)(WindowEvent::Close);
        }
        Closing { now_ns, cpu_ns, snapshot }
    }

    /// Records how long requests in flight have waited when the window closes, by target.
    pub(crate) fn record_unanswered(
        &mut self,
        in_flight: impl Iterator<Item = (u16, RequestTimes)>,
        end_ns: u64,
    ) {
        for (target, times) in in_flight {
            let latency_ns = end_ns.saturating_sub(times.due_ns);
            let service_ns = end_ns.saturating_sub(times.sent_ns);
            self.counters[usize::from(target)].record_unanswered(latency_ns, service_ns);
            if let Some(request_log) = &mut self.request_log {
                request_log.note(target, times, end_ns, (0, RequestOutcome::Unanswered));
            }
        }
    }

    /// Takes what was counted of a target; nothing before the window, but for its connections.
    pub(crate) fn take_target(&mut self, target: usize) -> TargetResult {
        let connecting = std::mem::take(&mut self.connecting[target]);
        if self.window.opened_ns.is_none() {
            return TargetResult { connecting, ..TargetResult::default() };
        }
        let mut counters = std::mem::take(&mut self.counters[target]);
        if counters.per_second.iter().sum::<u64>() < counters.requests {
            counters.end_second();
        }
        let idle_cpu_ns_per_s = self.idle_cpu_ns_per_s.get(target).copied().flatten();
        TargetResult { counters, connecting, idle_cpu_ns_per_s, ..TargetResult::default() }
    }

    /// The results of a window that ended at `end_ns`.
    pub(crate) fn finish(
        self,
        targets: Vec<TargetResult>,
        closing: Closing,
        end_ns: u64,
    ) -> WorkerResult {
        let window = self.window;
        let Some(opened_ns) = window.opened_ns else {
            return WorkerResult { targets, ..WorkerResult::default() };
        };
        WorkerResult {
            targets,
            records: self.request_log.map(RequestLog::into_records).unwrap_or_default(),
            duration_ns: end_ns.saturating_sub(opened_ns),
            cpu_ns: closing.cpu_ns - window.cpu_ns,
            longest_gap_ns: window.longest_gap_ns(end_ns),
            longest_stall_ns: window.longest_stall_ns(),
            cpu_snapshots: closing.snapshot.map(|close| (window.cpu_snapshot, close)),
        }
    }
}

/// What was read when the window closed.
pub(crate) struct Closing {
    pub(crate) now_ns: u64,
    cpu_ns: u64,
    snapshot: Option<CpuSnapshot>,
}

/// A clock, and when the last wait ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveClock {
    clock: Clock,
    is_batched: bool,
    wait_ended_ns: Option<u64>,
    /// The time of a test.
    #[cfg(test)]
    manual_ns: Option<&'static std::sync::atomic::AtomicU64>,
}

impl ReceiveClock {
    pub(crate) fn new(clock: Clock, source: ClockSource) -> Self {
        Self {
            clock,
            is_batched: source == ClockSource::Batch,
            wait_ended_ns: None,
            #[cfg(test)]
            manual_ns: None,
        }
    }

    /// A clock that a test sets.
    #[cfg(test)]
    pub(crate) fn manual(now_ns: &'static std::sync::atomic::AtomicU64) -> Self {
        let clock = Self::new(Clock::monotonic(), ClockSource::Kernel);
        Self { manual_ns: Some(now_ns), ..clock }
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        #[cfg(test)]
        if let Some(now_ns) = self.manual_ns {
            return now_ns.load(std::sync::atomic::Ordering::Relaxed);
        }
        self.clock.now_ns()
    }

    /// Called when a wait has returned.
    #[inline]
    pub(crate) fn on_wait_ended(&mut self) {
        self.wait_ended_ns = self.is_batched.then(|| self.clock.now_ns());
    }

    /// The receive time of the bytes that were just read.
    #[inline]
    pub(crate) fn received_ns(&self) -> u64 {
        self.wait_ended_ns.unwrap_or_else(|| self.clock.now_ns())
    }
}
