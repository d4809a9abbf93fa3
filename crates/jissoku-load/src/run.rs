//! A whole measurement, from a plan to its outcome.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::thread::scope;

use jissoku_os::process;
use jissoku_os::tsc::Clock;

use crate::crew::Crew;
use crate::interval::Interval;
use crate::outcome::Outcome;
use crate::plan::{Plan, Timepiece};
use crate::watch::Watch;
use crate::window::{Edge, EdgeDuty};

/// How a measurement is watched and stopped from outside.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// The measurement ends early when this becomes readable.
    pub interrupt: BorrowedFd<'a>,
    /// Called by the first thread when the window opens and closes.
    pub on_edge: &'a (dyn Fn(Edge) + Sync),
    /// Who is told how it goes while the window is open.
    pub listener: Option<Listener<'a>>,
}

/// Somebody who wants to hear of intervals.
#[derive(Clone, Copy)]
pub struct Listener<'a> {
    /// Intervals of each of these lengths are told of.
    pub lengths_ns: &'a [u64],
    /// Called soon after each interval of the window, for each lane.
    pub hear: &'a dyn Fn(&Interval),
}

impl fmt::Debug for Listener<'_> {
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

/// Why nothing was measured.
#[derive(Debug)]
pub enum Failure {
    /// The host has no address.
    NoSuchHost {
        /// The URL that names it.
        url: String,
        /// What the look-up said.
        error: io::Error,
    },
    /// No connection could be made.
    Unreachable {
        /// The URL that leads there.
        url: String,
        /// How the last attempt ended.
        error: io::Error,
    },
    /// There is no such process to watch.
    NoSuchProcess {
        /// Its id, as given.
        pid: i32,
    },
    /// This machine refused something.
    Machine(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchHost { url, error } => write!(formatter, "{url} has no address: {error}"),
            Self::Unreachable { url, error } => {
                write!(formatter, "no connection to {url} could be made: {error}")
            }
            Self::NoSuchProcess { pid } => {
                write!(formatter, "there is no process {pid} to watch")
            }
            Self::Machine(error) => write!(formatter, "the stopwatch cannot run here: {error}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Machine(error)
    }
}

/// Measures what `plan` says, which has passed its check.
///
/// # Errors
/// See [`Failure`].
pub fn run(plan: &Plan, control: Control<'_>) -> Result<Outcome, Failure> {
    let endpoints = plan.lanes.iter().map(|lane| {
        let no_such_host = |error| Failure::NoSuchHost { url: lane.address.to_string(), error };
        lane.address.endpoint().map_err(no_such_host)
    });
    let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
    for pid in plan.lanes.iter().filter_map(|lane| lane.watch) {
        if process::family(pid)?.is_empty() {
            return Err(Failure::NoSuchProcess { pid });
        }
    }
    let watch = Watch::new(plan.lanes.iter().map(|lane| lane.watch).collect());
    let clock = match plan.clock {
        Timepiece::Best | Timepiece::Batch => Clock::calibrate(),
        Timepiece::Kernel => Clock::monotonic(),
    };
    scope(|scope| {
        let crew = Crew::start(
            scope,
            plan,
            &endpoints,
            EdgeDuty { watch: &watch, on_edge: control.on_edge },
            (clock, control.listener.map_or(&[], |listener| listener.lengths_ns)),
        )?;
        crew.measure(&watch, control)
    })
}
