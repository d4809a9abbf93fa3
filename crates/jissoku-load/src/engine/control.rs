//! How a run is observed, interrupted, and how it fails.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use crate::engine::interval::Interval;

/// The window's opening or closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEvent {
    /// Counting starts.
    Open,
    /// Counting ends.
    Close,
}

/// How a run is observed and interrupted.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// The run ends early when this becomes readable.
    pub interrupt: BorrowedFd<'a>,
    /// Called by the first worker when the window opens and closes.
    pub on_window_event: &'a (dyn Fn(WindowEvent) + Sync),
    /// Observes intervals while the window is open.
    pub observer: Option<IntervalObserver<'a>>,
    /// What decides when the load starts; `None`: it starts when all workers have connected.
    pub starter: Option<Starter<'a>>,
}

/// Decides when the load starts, so that several load generators start together.
#[derive(Clone, Copy)]
pub struct Starter<'a> {
    /// Called when all workers have connected.
    pub on_armed: &'a dyn Fn(),
    /// A pipe from which a line is read then: the time of the start, in nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub line: BorrowedFd<'a>,
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
            .debug_struct("IntervalObserver")
            .field("lengths_ns", &self.lengths_ns)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Starter<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Starter").field("line", &self.line).finish_non_exhaustive()
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
    /// The run was interrupted before the load began.
    Interrupted,
    /// The line with the time of the start was another one, or came after that time.
    NotStarted {
        /// What was wrong.
        reason: &'static str,
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
            Self::Interrupted => formatter.write_str("interrupted before the load began"),
            Self::NotStarted { reason } => write!(formatter, "the load was not started: {reason}"),
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
