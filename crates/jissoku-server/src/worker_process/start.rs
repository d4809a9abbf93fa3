//! Starts worker processes: the same program again, with the listeners of one worker.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use jissoku_os::driver::Waker;
use jissoku_os::reexec::{Attachment, ChildStatus, ExecSpec, ReexecChild};
use jissoku_os::{clock, poll};

use crate::log::ErrorReporter;
use crate::shutdown::ShutdownSignal;
use crate::worker_thread::WorkerListeners;

/// How long a hung process may take to write its stacks.
pub(super) const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a process that cannot start may take to exit: a thread that the import has started may
/// run for ever.
const FAILED_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Prefix of the names of the listeners of a worker process; the index of the worker follows.
pub const WORKER_NAME: &str = "jissoku-worker-";

/// Prefixes of the names of the ends of a queue of connections; the address of the endpoint follows.
pub(crate) const MOVED_IN: &str = "jissoku-moved-in-";
pub(crate) const MOVED_OUT: &str = "jissoku-moved-out-";

/// How worker processes are started and watched.
#[derive(Clone, Debug)]
pub struct ProcessSettings {
    /// Creates the command line and the environment of a worker process.
    pub program: fn() -> io::Result<ExecSpec>,
    /// Environment variables of these processes alone, in place of others of these names.
    pub variables: Vec<(OsString, OsString)>,
    /// Descriptors that these processes get by name, beside those of their listeners.
    pub inherited: Vec<(String, Arc<OwnedFd>)>,
    /// Reports events of a worker to the operator.
    pub report: ErrorReporter,
    /// Resident memory in bytes above which a worker is replaced.
    pub memory_max: Option<u64>,
    /// How long a process may take until it is ready; then it is killed. `None` for no limit.
    pub start_timeout: Option<Duration>,
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
    let others = settings.inherited.iter().map(|(name, fd)| (name.clone(), fd.as_fd()));
    let descriptors: Vec<_> = listening.chain(queues).chain(others).collect();
    let mut program = (settings.program)()?;
    let is_replaced = |key: &OsString| settings.variables.iter().any(|(name, _)| name == key);
    program.environment.retain(|(key, _)| !is_replaced(key));
    program.environment.extend(settings.variables.iter().cloned());
    let child = ReexecChild::start(&program, &descriptors, Attachment::Attached)?;
    if let Some(why) = wait_until_started(&child, settings.start_timeout, stop)? {
        return Err(end_unready(child, index, why)?);
    }
    let status = child.status();
    if status == ChildStatus::Ready {
        return Ok(child);
    }
    let exited = child.exit_fd()?;
    if !poll::is_readable_within(&exited, FAILED_EXIT_TIMEOUT)? {
        // It has failed, and one of its threads runs on.
        let pid = child.pid();
        (settings.report)(&format!("process {pid} has failed and does not exit: it is killed"));
        child.kill()?;
    }
    let exit = child.wait()?;
    let kind = match exit.code {
        Some(2) => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    };
    let is_reported = status == ChildStatus::Failed;
    Err(io::Error::new(kind, StartError { index, exit: exit.description, is_reported }))
}

/// Why a process is not ready.
#[derive(Clone, Copy, Debug)]
enum Unready {
    Stopped,
    TooLate(Duration),
}

/// Waits until the process is ready or has failed, and returns why that is not waited for any more.
fn wait_until_started(
    child: &ReexecChild,
    timeout: Option<Duration>,
    stop: StopRequest<'_>,
) -> io::Result<Option<Unready>> {
    let start_ns = clock::monotonic_ns();
    loop {
        // A signal interrupts the wait.
        let elapsed = Duration::from_nanos(clock::monotonic_ns() - start_ns);
        let left = timeout.map(|timeout| timeout.saturating_sub(elapsed));
        let ready = poll::wait_readable(&[child.as_fd(), stop.waker.as_fd()], left)?;
        match (ready[0], timeout) {
            (true, _) => return Ok(None),
            _ if stop.signal.get() != 0 => return Ok(Some(Unready::Stopped)),
            (false, Some(timeout)) if left == Some(Duration::ZERO) => {
                return Ok(Some(Unready::TooLate(timeout)));
            }
            (false, _) => {}
        }
    }
}

/// Ends a process that is not ready, and returns the error of its start.
fn end_unready(child: ReexecChild, index: u16, why: Unready) -> io::Result<io::Error> {
    let error = match why {
        Unready::Stopped => io::Error::other(StoppedBeforeReady),
        Unready::TooLate(timeout) => {
            // An interpreter writes its stacks on this signal.
            child.abort()?;
            poll::is_readable_within(&child.exit_fd()?, ABORT_TIMEOUT)?;
            let why = format!("not ready within --start-timeout ({timeout:?})");
            io::Error::other(format!("worker {index} {why}"))
        }
    };
    let _killed = child.end();
    Ok(error)
}
