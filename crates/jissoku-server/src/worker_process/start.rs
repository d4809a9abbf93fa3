//! Starts worker processes: the same program again, with the listeners of one worker.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use jissoku_os::driver::Waker;
use jissoku_os::poll;
use jissoku_os::reexec::{ChildStatus, ExecSpec, ReexecChild};

use crate::log::ErrorReporter;
use crate::shutdown::ShutdownSignal;
use crate::worker_thread::WorkerListeners;

/// How long a process may take until it is ready; then it is killed.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// How long a hung process may take to write its stacks.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Prefix of the names of the listeners of a worker process; the index of the worker follows.
pub const WORKER_NAME: &str = "jissoku-worker-";

/// Prefixes of the names of the ends of a queue of connections; the address of the endpoint follows.
pub(crate) const MOVED_IN: &str = "jissoku-moved-in-";
pub(crate) const MOVED_OUT: &str = "jissoku-moved-out-";

/// How worker processes are started and watched.
#[derive(Clone, Copy, Debug)]
pub struct ProcessSettings {
    /// Creates the command line and the environment of a worker process.
    pub program: fn() -> io::Result<ExecSpec>,
    /// Reports events of a worker to the operator.
    pub report: ErrorReporter,
    /// Resident memory in bytes above which a worker is replaced.
    pub memory_max: Option<u64>,
}

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

/// A signal has stopped the server before its workers were ready.
#[derive(Clone, Copy, Debug)]
pub struct StoppedBeforeReady;

impl fmt::Display for StoppedBeforeReady {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("stopped by a signal")
    }
}

impl StoppedBeforeReady {
    /// Whether it is the cause of `error`.
    #[must_use]
    pub fn is_cause_of(error: &io::Error) -> bool {
        error.get_ref().and_then(|error| error.downcast_ref::<Self>()).is_some()
    }
}

impl std::error::Error for StoppedBeforeReady {}

/// How a worker learns that it is to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopRequest<'a> {
    pub(super) signal: &'a ShutdownSignal,
    /// Woken when `signal` has changed.
    pub(super) waker: &'a Waker,
}

/// Starts a process and waits until it is ready. A request to stop ends it, and is left to be read.
///
/// # Errors
/// Why the process is not ready: [`StartError`], [`StoppedBeforeReady`], or that it took too long.
pub(super) fn start_now(
    settings: &ProcessSettings,
    index: u16,
    listeners: &WorkerListeners,
    stop: StopRequest<'_>,
) -> io::Result<ReexecChild> {
    let name = format!("{WORKER_NAME}{index}");
    let listening = listeners.listeners.iter().map(|listener| (name.clone(), listener.as_fd()));
    let queues = listeners.moves.iter().flat_map(|queue| {
        [
            (format!("{MOVED_IN}{}", queue.name), queue.receiver.as_fd()),
            (format!("{MOVED_OUT}{}", queue.name), queue.sender.as_fd()),
        ]
    });
    let sockets: Vec<_> = listening.chain(queues).collect();
    let child = ReexecChild::start(&(settings.program)()?, &sockets)?;
    let ready = poll::wait_readable(&[child.as_fd(), stop.waker.as_fd()], Some(READY_TIMEOUT))?;
    if !ready[0] && stop.signal.get() != 0 {
        let _killed = child.end();
        return Err(io::Error::other(StoppedBeforeReady));
    }
    if !ready[0] {
        let seconds = READY_TIMEOUT.as_secs();
        // An interpreter writes its stacks on this signal.
        child.abort()?;
        let exited = child.exit_fd()?;
        poll::wait_readable(&[exited.as_fd()], Some(ABORT_TIMEOUT))?;
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
    let is_reported = status == ChildStatus::Failed;
    Err(io::Error::new(kind, StartError { index, exit: exit.description, is_reported }))
}
