//! A run, from a plan to its outcome.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::thread::scope;

use jissoku_os::process;
use jissoku_os::tsc::Clock;

use crate::cpu_monitor::CpuMonitor;
use crate::interval::Interval;
use crate::outcome::Outcome;
use crate::plan::{ClockSource, Plan};
use crate::window::{WindowEvent, WindowHooks};
use crate::worker_set::WorkerSet;

/// How a run is observed and interrupted.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// The run ends early when this becomes readable.
    pub interrupt: BorrowedFd<'a>,
    /// Called by the first worker when the window opens and closes.
    pub on_window_event: &'a (dyn Fn(WindowEvent) + Sync),
    /// Observes intervals while the window is open.
    pub observer: Option<IntervalObserver<'a>>,
}

/// Receives the intervals of the window.
#[derive(Clone, Copy)]
pub struct IntervalObserver<'a> {
    /// One series of intervals for each of these lengths.
    pub lengths_ns: &'a [u64],
    /// Called for each target, shortly after each interval.
    pub on_interval: &'a dyn Fn(&Interval),
}

impl fmt::Debug for IntervalObserver<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Listener")
            .field("lengths_ns", &self.lengths_ns)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Control<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Control")
            .field("interrupt", &self.interrupt)
            .finish_non_exhaustive()
    }
}

/// Why a run failed.
#[derive(Debug)]
pub enum RunError {
    /// The host has no address.
    NoSuchHost {
        /// The URL.
        url: String,
        /// The error of the look-up.
        error: io::Error,
    },
    /// No connection to a target could be established.
    Unreachable {
        /// The URL.
        url: String,
        /// The error of the last attempt.
        error: io::Error,
    },
    /// The process to watch does not exist.
    NoSuchProcess {
        /// Its process id.
        pid: i32,
    },
    /// A local error, such as a refused system call.
    Machine(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchHost { url, error } => write!(formatter, "cannot resolve {url}: {error}"),
            Self::Unreachable { url, error } => {
                write!(formatter, "cannot connect to {url}: {error}")
            }
            Self::NoSuchProcess { pid } => {
                write!(formatter, "no process {pid} to watch")
            }
            Self::Machine(error) => write!(formatter, "the load generator cannot run: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<io::Error> for RunError {
    fn from(error: io::Error) -> Self {
        Self::Machine(error)
    }
}

/// Runs a plan that has passed [`Plan::check`].
///
/// # Errors
/// See [`RunError`].
pub fn run(plan: &Plan, control: Control<'_>) -> Result<Outcome, RunError> {
    let endpoints = plan.targets.iter().map(|target| {
        let no_such_host = |error| RunError::NoSuchHost { url: target.address.to_string(), error };
        target.address.endpoint().map_err(no_such_host)
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
        worker_set.measure(&monitor, control)
    })
}
