//! Watches the process of one worker: forwards signals, collects its counters, and replaces it on
//! its request or if it uses too much memory. The new process is ready before the old one drains.

use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use jissoku_os::driver::Waker;
use jissoku_os::reexec::ReexecChild;
use jissoku_os::{clock, poll, process};

use super::pause::Pause;
use super::process::Process;
use super::start::{ProcessSettings, StopRequest, start_now};
use crate::limits::Limits;
use crate::metrics::ShardOwner;
use crate::shutdown::{MOVE_DRAIN, STOP_DRAIN};
use crate::worker_thread::WorkerListeners;

/// How often the memory of a process is compared with its limit.
const MEMORY_INTERVAL: Duration = Duration::from_millis(500);

/// The process of one worker, and those that it has replaced.
#[derive(Debug)]
pub(super) struct Supervisor {
    settings: ProcessSettings,
    limits: Limits,
    index: u16,
    /// For replacements. Dropped with the first signal, so that the last process closes them.
    listeners: Option<WorkerListeners>,
    sum: Option<ShardOwner>,
    /// `None` once it has exited after a signal.
    current: Option<Process>,
    draining: Vec<Process>,
    /// After a replacement that did not start, and after one because of memory.
    pause: Pause,
}

impl Supervisor {
    pub(super) fn new(
        (settings, limits): (ProcessSettings, Limits),
        index: u16,
        listeners: WorkerListeners,
        sum: Option<ShardOwner>,
        child: ReexecChild,
    ) -> io::Result<Self> {
        Ok(Self {
            settings,
            limits,
            index,
            listeners: Some(listeners),
            sum,
            current: Some(Process::new(child)?),
            draining: Vec::new(),
            pause: Pause::default(),
        })
    }

    /// Watches until the process has exited, and after a signal until all have. `accepting` is
    /// dropped when the process has accepted its last connection because of a signal.
    pub(super) fn run(mut self, stop: StopRequest<'_>, accepting: impl Debug) -> io::Result<()> {
        let mut accepting = Some(accepting);
        let mut is_signalled = false;
        loop {
            let (has_exited, is_woken) = self.wait(Some(stop.waker))?;
            if is_woken {
                stop.waker.take();
                self.forward(stop.signal.get())?;
                self.listeners = None;
                is_signalled = true;
            }
            if has_exited && let Some(current) = self.current.take() {
                if !is_signalled {
                    let exit = current.reap(self.sum.as_ref())?;
                    return self.crashed(exit.description);
                }
                current.reap_requested(self.index, self.sum.as_ref(), self.settings.report)?;
            }
            if is_signalled && self.current.as_ref().is_none_or(|current| !current.is_accepting) {
                drop(accepting.take());
            }
            if self.current.is_none() && self.draining.is_empty() {
                return Ok(());
            }
            if !is_signalled {
                self.replace_if_needed(stop)?;
            }
        }
    }

    /// Returns why the process has crashed; the worker is replaced then. Processes that drain are
    /// watched by another thread until they have exited.
    fn crashed(mut self, how: String) -> io::Result<()> {
        if !self.draining.is_empty() {
            // They receive a signal to stop when the thread ends that has started them.
            let now_ns = clock::monotonic_ns();
            for old in &mut self.draining {
                old.request_end(STOP_DRAIN, &self.limits, now_ns)?;
            }
            let name = format!("draining-{}", self.index);
            let watch = move || while !self.draining.is_empty() && self.wait(None).is_ok() {};
            std::thread::Builder::new().name(name).spawn(watch)?;
        }
        Err(io::Error::other(how))
    }

    /// Waits for events and handles those of draining processes. Returns whether the current process
    /// has exited, and whether there is a signal.
    fn wait(&mut self, waker: Option<&Waker>) -> io::Result<(bool, bool)> {
        let mut sources: Vec<BorrowedFd<'_>> = waker.map(AsFd::as_fd).into_iter().collect();
        sources.extend(self.processes().flat_map(Process::sources));
        let ready = poll::wait_readable(&sources, self.timeout(waker.is_some()))?;
        let now_ns = clock::monotonic_ns();
        let Self { sum, limits, index, current, draining, settings, .. } = self;
        let mut ready = ready.into_iter();
        let is_woken = waker.is_some() && ready.next() == Some(true);
        let context = (sum.as_ref(), &*limits, now_ns);
        let has_exited =
            current.as_mut().is_some_and(|current| current.take_events(&mut ready, context));
        for mut old in std::mem::take(draining) {
            if old.take_events(&mut ready, context) {
                old.reap_requested(*index, sum.as_ref(), settings.report)?;
            } else {
                draining.push(old);
            }
        }
        for process in current.iter_mut().filter(|_| !has_exited).chain(draining) {
            process.enforce_deadline(*index, settings.report, now_ns)?;
        }
        Ok((has_exited, is_woken))
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.current.iter().chain(&self.draining)
    }

    /// Time until something is to be done without an event.
    fn timeout(&self, is_serving: bool) -> Option<Duration> {
        let now_ns = clock::monotonic_ns();
        let wants_replacement =
            self.current.as_ref().is_some_and(|current| current.wants_replacement);
        let retry = (is_serving && wants_replacement && self.listeners.is_some())
            .then(|| Duration::from_nanos(self.pause.left_ns(now_ns)));
        let memory = self.settings.memory_max.filter(|_| is_serving).map(|_| MEMORY_INTERVAL);
        let deadlines = self.processes().filter_map(|process| process.left(now_ns));
        deadlines.chain(retry).chain(memory).min()
    }

    /// Replaces the process if it has requested that or uses too much memory, unless there was a
    /// replacement a moment ago.
    fn replace_if_needed(&mut self, stop: StopRequest<'_>) -> io::Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        if self.pause.left_ns(clock::monotonic_ns()) > 0 {
            return Ok(());
        }
        let size_above_limit = self.memory_above_limit(current);
        if current.wants_replacement {
            self.replace("has served as many requests as it is to serve", stop)?;
        } else if let Some(size) = size_above_limit {
            self.replace(&format!("uses {} MiB of memory", size >> 20), stop)?;
        }
        // The limit may be below what any process uses.
        let is_requested = self.current.as_ref().is_some_and(|current| current.wants_replacement);
        if is_requested || size_above_limit.is_some() {
            self.pause.begin(clock::monotonic_ns());
        }
        Ok(())
    }

    fn memory_above_limit(&self, current: &Process) -> Option<u64> {
        let size_max = self.settings.memory_max?;
        // The process may have exited.
        let size = process::resident_size(current.child.pid()).ok()?;
        Some(size).filter(|&size| size > size_max)
    }

    /// Starts another process, and lets the current one drain once that is ready.
    fn replace(&mut self, why: &str, stop: StopRequest<'_>) -> io::Result<()> {
        let Some(listeners) = self.listeners.as_ref() else { return Ok(()) };
        let report = self.settings.report;
        match start_now(&self.settings, self.index, listeners, stop).and_then(Process::new) {
            Ok(new) => {
                report(&format!("worker {} {why} and is replaced", self.index));
                if let Some(mut old) = self.current.replace(new) {
                    let now_ns = clock::monotonic_ns();
                    let drained = old.request_end(MOVE_DRAIN, &self.limits, now_ns);
                    self.draining.push(old);
                    drained?;
                }
            }
            // The current one stops, too.
            Err(_) if stop.signal.get() != 0 => {}
            Err(error) => {
                report(&format!("worker {} {why}, and stays: {error}", self.index));
            }
        }
        Ok(())
    }

    fn forward(&mut self, signal: u8) -> io::Result<()> {
        let (limits, now_ns) = (self.limits, clock::monotonic_ns());
        let mut processes = self.current.iter_mut().chain(&mut self.draining);
        processes.try_for_each(|process| process.request_end(signal, &limits, now_ns))
    }
}
