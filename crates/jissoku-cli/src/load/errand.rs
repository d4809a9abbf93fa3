//! A measurement from a plan to its outcome, with Ctrl-C as its early end.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::OnceLock;

use jissoku_load::report::Report;
use jissoku_load::report::timeseries::Layout;
use jissoku_load::{Control, Edge, Failure, Interval, Listener, OnBusy, Outcome, Plan};
use jissoku_os::signal::{SIGINT, SIGTERM, Signals};
use jissoku_os::{clock, descriptors};

use super::progress::Progress;
use crate::load::complain;

/// Descriptors for everything but connections.
const SPARE_DESCRIPTORS: usize = 64;

/// What somebody who waits for it wants to see meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Curiosity {
    /// A line on stderr when the window opens and closes; without the line of progress.
    pub(crate) events: bool,
    /// A row for each interval of this length.
    pub(crate) rows: Option<(u64, Layout)>,
    /// All bins of each second.
    pub(crate) log: bool,
}

/// What an errand brought.
#[derive(Debug)]
pub(crate) struct Find {
    pub(crate) report: Report,
    pub(crate) outcome: Outcome,
    pub(crate) rows: String,
    pub(crate) log: String,
}

/// Where Ctrl-C and its kin arrive from now on.
pub(crate) fn catch() -> Result<Signals, u8> {
    Signals::catch(&[SIGINT, SIGTERM])
        .map_err(|error| complain(&format!("signals cannot be caught: {error}"), 1))
}

/// Carries a plan out. What went wrong has been told, and the exit code says it.
pub(crate) fn carry_out(plan: &Plan, signals: &Signals, curiosity: Curiosity) -> Result<Find, u8> {
    has_descriptors_enough(plan)?;
    let opened = OnceLock::new();
    let on_edge = |edge| {
        opened.get_or_init(clock::wall_ns);
        if curiosity.events {
            tell(edge);
        }
    };
    let progress = Progress::new(plan, curiosity);
    let (hear, lengths_ns) = (|interval: &Interval| progress.hear(interval), progress.lengths_ns());
    let listener = Listener { lengths_ns: &lengths_ns, hear: &hear };
    let listener = Some(listener).filter(|_| !lengths_ns.is_empty());
    let control = Control { interrupt: signals.as_fd(), on_edge: &on_edge, listener };
    let outcome = jissoku_load::run(plan, control);
    let opened_ns = opened.get().copied().unwrap_or_default();
    let (rows, log) = progress.finish(outcome.as_ref().ok(), opened_ns);
    match outcome {
        Ok(outcome) => Ok(Find { report: Report::new(plan, &outcome), outcome, rows, log }),
        Err(failure @ Failure::NoSuchProcess { .. }) => Err(complain(&failure.to_string(), 2)),
        Err(failure) => Err(complain(&failure.to_string(), 1)),
    }
}

/// Asks the system for as many descriptors as it gives, and says so if those are too few.
fn has_descriptors_enough(plan: &Plan) -> Result<(), u8> {
    let each = match plan.on_busy {
        OnBusy::Open { connections_max } => connections_max.max(plan.connections),
        OnBusy::Queue | OnBusy::Drop => plan.connections,
    };
    has_descriptors_for(each * plan.lanes.len())
}

/// As many sockets, and what else a process needs.
pub(super) fn has_descriptors_for(sockets: usize) -> Result<(), u8> {
    let wanted = (sockets + SPARE_DESCRIPTORS) as u64;
    match descriptors::raise_limit() {
        Ok(Some(limit)) if limit < wanted => {
            let refusal = format!(
                "{sockets} sockets need {wanted} descriptors, and this process may have {limit}: raise \
                 its hard limit (ulimit -Hn), or give a smaller -c"
            );
            Err(complain(&refusal, 2))
        }
        // If the limit cannot be raised, the lack is met and told when a connection fails.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn tell(edge: Edge) {
    let line = match edge {
        Edge::Open => "window open\n",
        Edge::Close => "window close\n",
    };
    // Whoever does not listen misses it; the measurement does not depend on it.
    let _written = io::stderr().write_all(line.as_bytes());
}
