//! What was counted, over all threads.

use crate::histogram::Histogram;
use crate::ledger::Entry;
use crate::plan::Plan;
use crate::tally::Tally;
use crate::watch::{Used, Watch};
use crate::window::Yield;

/// What was counted.
#[derive(Debug)]
pub struct Outcome {
    /// One for each lane of the plan.
    pub lanes: Vec<LaneOutcome>,
    /// One for each thread.
    pub threads: Vec<ThreadOutcome>,
    /// Every request, if the plan wanted them; those of each thread in the order of their ends.
    pub entries: Vec<Entry>,
    /// Length of the window: the threads have the same, unless it ends with the last answer to each.
    pub duration_ns: u64,
    /// The longest time in which some thread saw no answer.
    pub longest_gap_ns: u64,
    /// The stopwatch's clock: `tsc`, `monotonic`, or `batch` for one reading to each wait.
    pub clock: &'static str,
    /// How far it ran away from the kernel's.
    pub drift_ppm: f64,
    /// Whether the measurement was ended early.
    pub interrupted: bool,
}

/// What was counted on one lane.
#[derive(Debug, Default)]
pub struct LaneOutcome {
    /// The counts of all threads.
    pub tally: Tally,
    /// Requests that were sent or due and had no answer when the window closed.
    pub unanswered: u64,
    /// Of these, the ones that were sent.
    pub in_flight: u64,
    /// Connections that stood when the window closed.
    pub open: u64,
    /// Connections made since the start.
    pub opened: u64,
    /// Attempts to connect that failed since the start; each was made again.
    pub refused: u64,
    /// How long connecting took, before the window too.
    pub connect: Histogram,
    /// How long the handshakes of TLS took from there on.
    pub handshake: Histogram,
    /// How many of them resumed an earlier session.
    pub resumed: u64,
    /// What the watched server used meanwhile.
    pub used: Option<Used>,
}

/// What one thread used in its window.
#[derive(Clone, Copy, Debug)]
pub struct ThreadOutcome {
    /// Its CPU time.
    pub cpu_ns: u64,
    /// The window's length.
    pub duration_ns: u64,
}

/// Adds up what the threads brought back.
pub(crate) fn merge(plan: &Plan, yields: Vec<Yield>, watch: &Watch) -> Outcome {
    let mut lanes: Vec<LaneOutcome> = plan.lanes.iter().map(|_| LaneOutcome::default()).collect();
    let (mut threads, mut entries) = (Vec::new(), Vec::new());
    let (mut duration_ns, mut longest_gap_ns) = (0, 0);
    for part in yields {
        let (part_ns, cpu_ns) = (part.duration_ns, part.cpu_ns);
        duration_ns = duration_ns.max(part_ns);
        entries.extend(part.entries);
        longest_gap_ns = longest_gap_ns.max(part.longest_gap_ns);
        threads.push(ThreadOutcome { cpu_ns, duration_ns: part_ns });
        for (lane, theirs) in lanes.iter_mut().zip(part.lanes) {
            lane.tally.add(&theirs.tally);
            lane.unanswered += theirs.in_flight + theirs.overdue;
            lane.in_flight += theirs.in_flight;
            lane.open += theirs.open;
            lane.opened += theirs.opened;
            lane.refused += theirs.refused;
            lane.connect.add(&theirs.connect);
            lane.handshake.add(&theirs.handshake);
            lane.resumed += theirs.resumed;
        }
        if let Some((open, close)) = part.watched {
            for (lane, used) in lanes.iter_mut().zip(watch.used(&open, &close)) {
                lane.used = used;
            }
        }
    }
    let (clock, drift_ppm) = ("monotonic", 0.0);
    Outcome {
        lanes,
        threads,
        entries,
        duration_ns,
        longest_gap_ns,
        clock,
        drift_ppm,
        interrupted: false,
    }
}
