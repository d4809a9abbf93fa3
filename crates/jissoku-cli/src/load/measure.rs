//! Runs a plan, with Ctrl-C as its early end.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use jissoku_load::report::Report;
use jissoku_load::{
    Control, Interval, IntervalObserver, OnBusy, Outcome, Plan, RunError, Starter, WindowEvent,
    run_checks,
};
use jissoku_os::signal::{SIGINT, SIGTERM, Signals};
use jissoku_os::{clock, process};

use super::progress::{Progress, ProgressOptions, Shown};
use crate::usage::Failure;

/// Exit code after SIGINT or SIGTERM.
pub(super) const INTERRUPTED: u8 = 130;

/// Descriptors for everything but connections.
const SPARE_DESCRIPTORS: usize = 64;

#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) report: Report,
    pub(crate) outcome: Outcome,
    /// The time series, as lines of text; empty if it was not asked for.
    pub(crate) rows: String,
    /// The log of interval histograms; empty if it was not asked for.
    pub(crate) log: String,
}

/// Registers SIGINT and SIGTERM.
pub(crate) fn catch_signals() -> Result<Signals, Failure> {
    Signals::register(&[SIGINT, SIGTERM])
        .map_err(|error| Failure::new(format!("cannot register signals: {error}"), 1))
}

/// Runs a plan until its end, or until `interrupt` can be read.
pub(crate) fn run_plan(
    plan: &Plan,
    interrupt: &impl AsFd,
    progress_options: ProgressOptions,
) -> Result<Measurement, Failure> {
    check_descriptors(plan)?;
    let opened = OnceLock::new();
    let on_window_event = |edge| {
        opened.get_or_init(clock::wall_ns);
        if progress_options.shown == Shown::Events {
            print_event(edge);
        }
    };
    let progress = Progress::new(plan, progress_options);
    let (on_interval, lengths_ns) =
        (|interval: &Interval| progress.on_interval(interval), progress.lengths_ns());
    let observer = IntervalObserver { lengths_ns: &lengths_ns, on_interval: &on_interval };
    let observer = Some(observer).filter(|_| !lengths_ns.is_empty());
    let stdin = io::stdin();
    let starter = Starter { on_armed: &|| print_line("armed"), line: stdin.as_fd() };
    let control = Control {
        interrupt: interrupt.as_fd(),
        on_window_event: &on_window_event,
        observer,
        starter: progress_options.armed.then_some(starter),
    };
    let outcome = jissoku_load::run(plan, control);
    let opened_ns = opened.get().copied().unwrap_or_default();
    let (rows, log) = progress.finish(outcome.as_ref().ok(), opened_ns);
    match outcome {
        Ok(outcome) => {
            let report = Report::new(plan, &outcome, run_checks(plan, &outcome));
            Ok(Measurement { report, outcome, rows, log })
        }
        Err(error @ RunError::NoSuchProcess { .. }) => Err(Failure::new(error.to_string(), 2)),
        Err(error @ RunError::Interrupted) => Err(Failure::new(error.to_string(), INTERRUPTED)),
        Err(error) => Err(Failure::new(error.to_string(), 1)),
    }
}

/// The report of a run that shows no progress. In `Err` is the process exit code; the error is
/// already on stderr.
pub(super) fn report_of(plan: &Plan, signals: &Signals) -> Result<Report, u8> {
    match run_plan(plan, signals, ProgressOptions::default()) {
        Ok(Measurement { outcome, .. }) if outcome.interrupted => Err(INTERRUPTED),
        Ok(Measurement { report, .. }) => Ok(report),
        Err(failure) => Err(failure.print("load")),
    }
}

/// Raises the limit of descriptors, and fails if it is too low for the plan.
fn check_descriptors(plan: &Plan) -> Result<(), Failure> {
    let each = match plan.on_busy {
        OnBusy::Open { connections_max } => connections_max.max(plan.connections),
        OnBusy::Queue | OnBusy::Drop => plan.connections,
    };
    require_descriptors(each * plan.targets.len())
}

/// The same for `sockets` sockets.
pub(super) fn require_descriptors(sockets: usize) -> Result<(), Failure> {
    let wanted = (sockets + SPARE_DESCRIPTORS) as u64;
    match process::raise_descriptor_limit() {
        Ok(Some(limit)) if limit < wanted => {
            let refusal = format!(
                "{sockets} sockets need {wanted} descriptors, and this process may have {limit}: raise \
                 its hard limit (ulimit -Hn), or give a smaller -c"
            );
            Err(Failure::new(refusal, 2))
        }
        // If the limit cannot be raised, a failing connection reports it.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Prints the event with its time in nanoseconds of `CLOCK_MONOTONIC`. The window opens just after the
/// first of the two, and has closed just before the second.
fn print_event(edge: WindowEvent) {
    let name = match edge {
        WindowEvent::Open => "open",
        WindowEvent::Close => "close",
    };
    print_line(&format!("window {name} {}", clock::monotonic_ns()));
}

fn print_line(text: &str) {
    // The error is ignored: stderr may be closed.
    let _written = io::stderr().write_all(format!("{text}\n").as_bytes());
}
