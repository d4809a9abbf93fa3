//! Workers that are processes: each is the same program again, with the listeners of one worker.
//!
//! A thread stands for the process in its pool, so that reload, restart and shutdown treat it as any
//! other worker.

use std::fmt::{self, Debug};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jissoku_os::driver::Waker;
use jissoku_os::poll;
use jissoku_os::reexec::{ChildStatus, ExecSpec, ReexecChild};

use crate::any_service::{AnyService, RunWorker};
use crate::metrics::Metrics;
use crate::shutdown::{ABORT, RELOAD_DRAIN, ShutdownSignal};
use crate::worker_thread::{ExitNotifier, WorkerListeners, WorkerThread};

/// How long a process may take until it is ready; then it is killed.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// Prefix of the names of the listeners of a worker process; the index of the worker follows.
pub const WORKER_NAME: &str = "jissoku-worker-";

/// Creates the command line and the environment of a worker process.
pub type WorkerProgram = fn() -> io::Result<ExecSpec>;

/// A worker process that did not become ready.
#[derive(Clone, Debug)]
pub struct StartError {
    index: u16,
    exit: String,
    /// Whether the process has written the reason to standard error.
    pub is_reported: bool,
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "worker {} did not start ({})", self.index, self.exit)
    }
}

impl std::error::Error for StartError {}

/// Starts a process for each worker.
#[derive(Debug)]
pub(crate) struct WorkerProcesses {
    program: WorkerProgram,
    /// Whether the first process has become ready; unset until it has or has failed.
    first_is_ready: OnceLock<bool>,
}

impl AnyService {
    /// Workers that are processes. `program` creates their command line.
    #[must_use]
    pub fn processes(program: WorkerProgram) -> Self {
        Self::of(WorkerProcesses::new(program))
    }
}

impl WorkerProcesses {
    const fn new(program: WorkerProgram) -> Self {
        Self { program, first_is_ready: OnceLock::new() }
    }

    /// Starts the process of a worker and waits until it is ready. The first one goes ahead, so
    /// that a fault that all have in common is reported once.
    fn start(&self, index: u16, listeners: &WorkerListeners) -> io::Result<ReexecChild> {
        if index > 0 && !*self.first_is_ready.wait() {
            return Err(io::Error::other("the first worker did not start"));
        }
        self.start_now(index, listeners)
    }

    /// After the first worker: lets the others start, or fail after its error was sent.
    fn release_others(&self, index: u16, is_ready: bool) {
        if index == 0 {
            // The error is ignored: the first worker is being restarted.
            let _set = self.first_is_ready.set(is_ready);
        }
    }

    fn start_now(&self, index: u16, listeners: &WorkerListeners) -> io::Result<ReexecChild> {
        let name = format!("{WORKER_NAME}{index}");
        let sockets: Vec<_> =
            listeners.listeners.iter().map(|listener| (name.clone(), listener)).collect();
        let child = ReexecChild::start(&(self.program)()?, &sockets)?;
        if !poll::wait_readable(&[child.as_fd()], Some(READY_TIMEOUT))?.contains(&true) {
            let seconds = READY_TIMEOUT.as_secs();
            let _killed = child.end();
            return Err(io::Error::other(format!("worker {index} not ready within {seconds} s")));
        }
        let status = child.status();
        if status == ChildStatus::Ready {
            return Ok(child);
        }
        let exit = child.wait()?;
        let kind = match exit.code {
            Some(2) => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        Err(io::Error::new(
            kind,
            StartError {
                index,
                exit: exit.description,
                is_reported: status == ChildStatus::Failed,
            },
        ))
    }
}

impl RunWorker for WorkerProcesses {
    /// Requests are counted in the processes.
    fn report_to(&self, _metrics: &Metrics) {}

    fn run_worker(self: Arc<Self>, thread: WorkerThread) -> io::Result<()> {
        let WorkerThread { index, listeners, order, waker, accepting, ready, .. } = thread;
        let child = match self.start(index, &listeners) {
            Ok(child) => child,
            Err(error) => {
                // The error is ignored: the pool waits for the result.
                let _received = ready.send(Err(error));
                self.release_others(index, false);
                return Ok(());
            }
        };
        self.release_others(index, true);
        drop(listeners);
        // From here on the worker is counted, so its exit has to be reported.
        let _notifier = ExitNotifier(thread.exit_tx, index);
        // The error is ignored: the pool waits for the result.
        let _received = ready.send(Ok(()));
        drop(ready);
        match thread.begins.recv() {
            Ok(()) => supervise(child, &order, &waker, accepting),
            // The pool was cancelled.
            Err(_) => child.end().map(drop),
        }
    }
}

/// Passes shutdown signals to the process until it has exited. `accepting` is dropped with the
/// first.
fn supervise(
    child: ReexecChild,
    order: &ShutdownSignal,
    waker: &Waker,
    accepting: impl Debug,
) -> io::Result<()> {
    let exited = child.exit_fd()?;
    let mut accepting = Some(accepting);
    loop {
        let readable = poll::wait_readable(&[exited.as_fd(), waker.as_fd()], None)?;
        if readable.first() == Some(&true) {
            let exit = child.wait()?;
            // An exit that was asked for is the end, whatever its code.
            return match accepting {
                None => Ok(()),
                Some(_) => Err(io::Error::other(exit.description)),
            };
        }
        if readable.last() == Some(&true) {
            waker.take();
            match order.get() {
                ABORT => child.kill()?,
                RELOAD_DRAIN => child.drain()?,
                _ => child.stop()?,
            }
            accepting = None;
        }
    }
}
