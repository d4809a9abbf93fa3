//! Starts the workers, lets them begin together, and collects their results.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle, scope};
use std::time::Duration;

use jissoku_os::affinity;
use jissoku_os::epoll::{self, Epoll, Interest};
use jissoku_os::process;
use jissoku_os::socket::Endpoint;
use jissoku_os::tsc::Clock;

use crate::engine::control::{Control, RunError};
use crate::engine::cpu_monitor::CpuMonitor;
use crate::engine::dispatcher::Dispatcher;
use crate::engine::epoll_transport::{EpollEvents, EpollTransport};
use crate::engine::interval::{IntervalMerger, IntervalPart, IntervalReporter};
use crate::engine::outcome::{Outcome, merge};
use crate::engine::recorder::{ReceiveClock, Recorder, WindowHooks};
use crate::engine::start::await_start;
use crate::engine::target::Target;
use crate::engine::transport::{Events, Transport};
use crate::engine::uring_transport::{UringEvents, UringTransport};
use crate::engine::window::Timing;
use crate::engine::worker::Worker;
use crate::engine::worker_result::WorkerResult;
use crate::plan::Plan;
use crate::plan::options::{ClockSource, Driver};
use crate::plan::pace::OnBusy;
use crate::protocol::request_sequence::WorkerIndex;

/// From the last worker's being ready to the common start.
const HEAD_START_NS: u64 = 2_000_000;

/// Watched processes are looked up this long before the window opens.
const LOOKUP_LEAD_NS: u64 = 100_000_000;

/// The observer learns of an interval at most this late.
const INTERVAL_POLL: Duration = Duration::from_millis(50);

/// The running workers.
pub(crate) struct WorkerSet<'scope> {
    plan: &'scope Plan,
    clock: Clock,
    ready: Receiver<Result<(), StartError>>,
    start_signals: Vec<Sender<Timing>>,
    threads: Vec<ScopedJoinHandle<'scope, io::Result<Option<WorkerResult>>>>,
    intervals: Receiver<IntervalPart>,
    /// Readable as soon as all workers have ended.
    ended: UnixStream,
    /// Dropping it stops all workers.
    halt: UnixStream,
}

impl<'scope> WorkerSet<'scope> {
    pub(crate) fn start(
        scope: &'scope Scope<'scope, '_>,
        plan: &'scope Plan,
        endpoints: &'scope [Endpoint],
        window_hooks: WindowHooks<'scope>,
        (clock, lengths_ns): (Clock, &[u64]),
    ) -> io::Result<Self> {
        let (halt, halted) = UnixStream::pair()?;
        let (ended, running) = UnixStream::pair()?;
        let (report, ready) = channel();
        let (interval, intervals) = channel();
        let (mut start_signals, mut threads) = (Vec::new(), Vec::new());
        for number in 0..plan.threads {
            let (sender, timing) = channel();
            start_signals.push(sender);
            let (halted, running) = (halted.try_clone()?, running.try_clone()?);
            let report = report.clone();
            let window_hooks = (number == 0).then_some(window_hooks);
            let reporters =
                lengths_ns.iter().map(|&length| IntervalReporter::new(interval.clone(), length));
            let recorder = Recorder::new(plan, window_hooks, reporters.collect());
            let config = WorkerConfig { plan, endpoints, number, clock };
            threads.push(scope.spawn(move || {
                let _running = running;
                let channels = (&report, &timing);
                match plan.driver {
                    Driver::Epoll => {
                        config.run::<EpollTransport, EpollEvents>(recorder, &halted, channels)
                    }
                    Driver::Uring => {
                        config.run::<UringTransport, UringEvents>(recorder, &halted, channels)
                    }
                }
            }));
        }
        Ok(Self { plan, clock, ready, start_signals, threads, intervals, ended, halt })
    }

    pub(crate) fn measure(
        self,
        monitor: &CpuMonitor,
        control: Control<'_>,
    ) -> Result<Outcome, RunError> {
        for _ in 0..self.plan.threads {
            match self.next_ready(control)? {
                Ok(Ok(())) => {}
                Ok(Err(StartError { target: None, error })) => return Err(error.into()),
                Ok(Err(StartError { target: Some(target), error })) => {
                    let url = self.plan.targets[target].address.to_string();
                    return Err(RunError::Unreachable { url, error });
                }
                // A worker that does not report has panicked; its join below resumes the panic.
                Err(_) => break,
            }
        }
        let timing = self.timing(monitor, control)?;
        let mut merger = IntervalMerger::new(self.plan.threads);
        for start_signals in &self.start_signals {
            // A worker that is gone has panicked; its join below resumes the panic.
            let _sent = start_signals.send(timing);
        }
        let interrupted = self.wait_for_end(timing, (monitor, &mut merger), control)?;
        drop(self.halt);
        let mut results = Vec::new();
        for thread in self.threads {
            match thread.join() {
                Ok(result) => results.extend(result?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        report_intervals(&self.intervals, &mut merger, control);
        let mut outcome = merge(self.plan, results, monitor);
        outcome.drift_ppm = self.clock.drift_ppm();
        outcome.clock =
            if self.plan.clock == ClockSource::Batch { "batch" } else { self.clock.name() };
        outcome.interrupted = interrupted;
        Ok(outcome)
    }

    /// Waits for the next worker to be ready, or for the end of all.
    ///
    /// # Errors
    /// The run was interrupted: dropping the set stops all workers.
    fn next_ready(&self, control: Control<'_>) -> Result<Ready, RunError> {
        let epoll = Epoll::new()?;
        epoll.add(control.interrupt, 0, Interest::IN)?;
        let mut event = [epoll::no_event()];
        loop {
            match self.ready.recv_timeout(INTERVAL_POLL) {
                Ok(ready) => return Ok(Ok(ready)),
                Err(RecvTimeoutError::Disconnected) => return Ok(Err(RecvError)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if epoll.wait(&mut event, Some(Duration::ZERO))? > 0 {
                return Err(RunError::Interrupted);
            }
        }
    }

    fn timing(&self, monitor: &CpuMonitor, control: Control<'_>) -> Result<Timing, RunError> {
        let is_early = self.plan.warmup_ns <= LOOKUP_LEAD_NS || self.plan.idle_watch_ns > 0;
        if monitor.is_active() && is_early {
            monitor.resolve();
        }
        let head_start_ns = match control.starter {
            Some(starter) => await_start(starter, control)?,
            None => HEAD_START_NS.saturating_add(self.plan.idle_watch_ns),
        };
        let start_ns = self.clock.now_ns().saturating_add(head_start_ns);
        let open_ns = start_ns.saturating_add(self.plan.warmup_ns);
        let duration_ns = self.plan.stop.duration_ns.unwrap_or(u64::MAX);
        Ok(Timing { start_ns, open_ns, duration_ns })
    }

    /// Waits for the end of the run; true if it was interrupted.
    fn wait_for_end(
        &self,
        timing: Timing,
        (monitor, merger): (&CpuMonitor, &mut IntervalMerger),
        control: Control<'_>,
    ) -> io::Result<bool> {
        let epoll = Epoll::new()?;
        epoll.add(control.interrupt, 0, Interest::IN)?;
        epoll.add(&self.ended, 1, Interest::IN)?;
        let mut event = [epoll::no_event()];
        let look_up_ns = timing.open_ns.saturating_sub(LOOKUP_LEAD_NS);
        let left_ns = look_up_ns.saturating_sub(self.clock.now_ns());
        if epoll.wait(&mut event, Some(Duration::from_nanos(left_ns)))? == 0 {
            if monitor.is_active() {
                monitor.resolve();
            }
            let timeout = control.observer.map(|_| INTERVAL_POLL);
            while epoll.wait(&mut event, timeout)? == 0 {
                report_intervals(&self.intervals, merger, control);
            }
        }
        Ok(event[0].data.u64() == 0)
    }
}

/// Passes completed intervals to the observer.
fn report_intervals(
    parts: &Receiver<IntervalPart>,
    merger: &mut IntervalMerger,
    control: Control<'_>,
) {
    for interval in parts.try_iter().filter_map(|part| merger.add(&part)) {
        control.observer.iter().for_each(|observer| (observer.on_interval)(&interval));
    }
}

/// What a worker says when it has connected; an error if it is gone.
type Ready = Result<Result<(), StartError>, RecvError>;

/// Why a worker could not start: a target could not be reached, or a local error (`target` is
/// `None`).
struct StartError {
    target: Option<usize>,
    error: io::Error,
}

/// What a worker is started with.
#[derive(Clone, Copy)]
struct WorkerConfig<'a> {
    plan: &'a Plan,
    endpoints: &'a [Endpoint],
    number: usize,
    clock: Clock,
}

impl<'a> WorkerConfig<'a> {
    /// The body of a worker thread: reports when it is ready, and runs at the given time.
    fn run<T: Transport, E: Events<Worker<'a, T>>>(
        self,
        recorder: Recorder<'a>,
        halt: &UnixStream,
        (report, timing): (&Sender<Result<(), StartError>>, &Receiver<Timing>),
    ) -> io::Result<Option<WorkerResult>> {
        let (prepared, ready) = match self.prepare::<T, E>(recorder, halt) {
            Ok(prepared) => (Some(prepared), Ok(())),
            Err(start_error) => (None, Err(start_error)),
        };
        // The error is ignored: if another worker has failed, there is no receiver.
        let _sent = report.send(ready);
        match (prepared, timing.recv()) {
            (Some((worker, events)), Ok(timing)) => {
                worker.run(events, timing, (self.number, self.plan.threads)).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn prepare<T: Transport, E: Events<Worker<'a, T>>>(
        self,
        recorder: Recorder<'a>,
        halt: &UnixStream,
    ) -> Result<(Worker<'a, T>, E), StartError> {
        let here = |error| StartError { target: None, error };
        let Self { plan, number, .. } = self;
        if !plan.cores.is_empty() {
            affinity::pin(&[plan.cores[number % plan.cores.len()]]).map_err(here)?;
        }
        let clock = ReceiveClock::new(self.clock, plan.clock);
        let dispatcher = Dispatcher::new(plan, self.targets());
        let worker = Worker::new(plan, clock, dispatcher, recorder, halt.as_fd());
        let mut worker = worker.map_err(here)?;
        let events = E::new().map_err(here)?;
        let connections_max = match plan.on_busy {
            OnBusy::Open { connections_max } => connections_max.max(plan.connections),
            OnBusy::Queue | OnBusy::Drop => plan.connections,
        };
        let ours = |connections: usize| {
            let share = share(connections as u64, number, plan.threads);
            usize::try_from(share).unwrap_or(usize::MAX)
        };
        let connected = worker.open_connections(ours(plan.connections), ours(connections_max));
        connected.map_err(|(target, error)| StartError { target: Some(target), error })?;
        Ok((worker, events))
    }

    fn targets(self) -> Vec<Target<'a>> {
        let Self { plan, number, .. } = self;
        let worker_index = WorkerIndex { thread: number, threads: plan.threads, seed: plan.seed };
        let target = |(target, endpoint)| {
            let mut target = Target::new(plan, target, endpoint, worker_index);
            if let Some(requests) = plan.requests() {
                target.budget = share(requests, number, plan.threads);
                target.is_limited = true;
            }
            target
        };
        (0..).zip(self.endpoints).map(target).collect()
    }
}

/// Share `number` of `whole` in `parts`; shares differ by at most one and add up to it.
pub(crate) fn share(whole: u64, number: usize, parts: usize) -> u64 {
    let (number, parts) = (number as u64, parts as u64);
    whole / parts + u64::from(number < whole % parts)
}

/// Runs a plan that has passed [`Plan::check`].
///
/// # Errors
/// See [`RunError`].
pub fn run(plan: &Plan, control: Control<'_>) -> Result<Outcome, RunError> {
    let timeout = Duration::from_nanos(plan.timeout_ns);
    let endpoints = plan.targets.iter().map(|target| {
        let no_such_host = |error| RunError::NoSuchHost { url: target.address.to_string(), error };
        target.address.endpoint(timeout).map_err(no_such_host)
    });
    let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
    for pid in plan.targets.iter().filter_map(|target| target.watch_pid) {
        if process::process_tree(pid)?.is_empty() {
            return Err(RunError::NoSuchProcess { pid });
        }
    }
    let monitor = CpuMonitor::new(plan.targets.iter().map(|target| target.watch_pid).collect());
    let clock = match plan.clock {
        ClockSource::Best | ClockSource::Batch => Clock::calibrate(),
        ClockSource::Kernel => Clock::monotonic(),
    };
    scope(|scope| {
        let worker_set = WorkerSet::start(
            scope,
            plan,
            &endpoints,
            WindowHooks { monitor: &monitor, on_window_event: control.on_window_event },
            (clock, control.observer.map_or(&[], |observer| observer.lengths_ns)),
        )?;
        let mut outcome = worker_set.measure(&monitor, control)?;
        for (target, endpoint) in outcome.targets.iter_mut().zip(&endpoints) {
            target.address = endpoint.to_string();
        }
        Ok(outcome)
    })
}
