//! Workers that are processes: each is the same program again, with the listeners of one worker.
//!
//! [`start`] starts a process, [`supervisor`] watches and replaces it, and kills it if it has not
//! ended by its [`end_deadline`]. A thread stands for the
//! process in its pool, so that reload, restart and shutdown treat it as any other worker.

mod end_deadline;
mod pause;
mod process;
mod start;
mod supervisor;

use std::io;
use std::sync::{Arc, OnceLock};

use jissoku_os::reexec::ReexecChild;

use crate::dyn_service::{DynService, RunWorker};
use crate::metrics::Metrics;
use crate::worker_thread::{ExitNotifier, WorkerListeners, WorkerThread};
pub(crate) use start::{MOVED_IN, MOVED_OUT};
pub use start::{ProcessSettings, StartError, StoppedBeforeReady, WORKER_NAME};
use start::{StopRequest, start_now};
use supervisor::Supervisor;

/// Starts a process for each worker.
#[derive(Debug)]
pub(crate) struct WorkerProcesses {
    settings: ProcessSettings,
    /// Whether the first process has become ready; unset until it has or has failed.
    first_is_ready: OnceLock<bool>,
}

impl DynService {
    /// Workers that are processes.
    pub fn processes(settings: ProcessSettings) -> Self {
        Self::of(WorkerProcesses { settings, first_is_ready: OnceLock::new() })
    }
}

impl WorkerProcesses {
    /// Starts the process of a worker and waits until it is ready. The others wait for the first
    /// one, so that an error that all have in common is reported once.
    fn start(
        &self,
        index: u16,
        listeners: &WorkerListeners,
        stop: StopRequest<'_>,
    ) -> io::Result<ReexecChild> {
        if index > 0 && !*self.first_is_ready.wait() {
            return Err(io::Error::other("the first worker did not start"));
        }
        start_now(&self.settings, index, listeners, stop)
    }

    /// After the first worker: lets the others start, or fail after its error was sent.
    fn release_others(&self, index: u16, is_ready: bool) {
        if index == 0 {
            // The error is ignored: the first worker is being restarted.
            let _set = self.first_is_ready.set(is_ready);
        }
    }
}

impl RunWorker for WorkerProcesses {
    /// Requests are counted in the processes.
    fn report_to(&self, _metrics: &Metrics) {}

    fn are_processes(&self) -> bool {
        true
    }

    fn run_worker(self: Arc<Self>, thread: WorkerThread) -> io::Result<()> {
        let WorkerThread { index, settings, listeners, order, waker, accepting, ready, .. } =
            thread;
        let stop = StopRequest { signal: &order, waker: &waker };
        let child = match self.start(index, &listeners, stop) {
            Ok(child) => child,
            Err(error) => {
                ready.send(Err(error));
                self.release_others(index, false);
                return Ok(());
            }
        };
        self.release_others(index, true);
        // From here on the worker is counted, so its exit has to be reported.
        let _notifier = ExitNotifier(thread.exit_tx, index);
        ready.send(Ok(()));
        match thread.start_rx.recv() {
            Ok(()) => {
                let process_settings = (self.settings.clone(), settings.limits);
                let counters = settings.telemetry.metrics.as_ref().map(|it| it.shard_owner());
                Supervisor::new(process_settings, index, listeners, counters, child)?
                    .run(StopRequest { signal: &order, waker: &waker }, accepting)
            }
            // The pool was cancelled.
            Err(_) => child.end().map(drop),
        }
    }
}
