//! Does the stopwatch's own account hold? Every report carries the answers.
//!
//! A check compares what was counted in one way with what must follow from what was counted in another,
//! or says how far the stopwatch itself got into the way. One that fails says that the figures are not to
//! be trusted, whatever the server did.

use serde::Serialize;

use crate::outcome::{LaneOutcome, Outcome};
use crate::plan::{Idle, Plan, Reuse, Think};

/// Requests under way, told from latencies, may differ so much from the connections there were.
const LITTLE_MAX: f64 = 0.02;

/// With fewer answers, Little's law says nothing.
const LITTLE_REQUESTS_MIN: u64 = 1_000;

/// A due request with a free connection is to be sent so soon, 99 times in 100.
const LATENESS_NS_P99_MAX: f64 = 1e6;

/// And every time so soon.
const LATENESS_NS_MAX: f64 = 100e6;

/// Of the requests that were due, so many must have been sent.
const ACHIEVED_MIN: f64 = 0.99;

/// A thread that is busier may be what limits the rate.
const BUSY_MAX: f64 = 0.95;

/// A clock that runs away faster is not to be trusted.
const DRIFT_PPM_MAX: f64 = 50.0;

/// Percentiles up to p99 need so many answers.
const REQUESTS_MIN: f64 = 1_000.0;

/// One question about a measurement and its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// On which lane, if not on all together.
    pub lane: Option<usize>,
    /// What was found.
    pub value: f64,
    /// What it is held against.
    pub bound: f64,
    /// Whether it is within the bound; without a value when the question makes no sense here.
    pub passed: Option<bool>,
}

/// Looks at a whole measurement.
pub(crate) fn checks(plan: &Plan, outcome: &Outcome) -> Vec<Check> {
    let all = |name, value, bound| Check::at_most(name, None, value, bound);
    let busiest = outcome.threads.iter().map(|thread| ratio(thread.cpu_ns, thread.duration_ns));
    let mut busy = all("own_cpu", busiest.fold(0.0, f64::max), BUSY_MAX);
    // Whoever asks for so few requests wants answers, and no load that anything could limit.
    let are_few = plan.requests().is_some_and(|count| float(count) < REQUESTS_MIN);
    if plan.idle != Idle::Block || are_few {
        busy.passed = None;
    }
    let mut checks = vec![busy, all("clock_drift_ppm", outcome.drift_ppm.abs(), DRIFT_PPM_MAX)];
    for (number, lane) in outcome.lanes.iter().enumerate() {
        checks.push(accounting(number, lane));
        checks.push(little(plan, outcome.duration_ns, number, lane));
        let requests = float(lane.tally.requests);
        let mut samples = Check::at_least("samples", number, requests, REQUESTS_MIN);
        if are_few {
            samples.passed = None;
        }
        checks.push(samples);
        if !plan.pace.is_closed() {
            checks.extend(punctuality(number, lane));
        }
    }
    checks
}

/// Everything that was sent has come to one end or another.
fn accounting(number: usize, lane: &LaneOutcome) -> Check {
    let tally = &lane.tally;
    let began = tally.carried + tally.sent;
    // An attempt to connect is no request, and neither is an answer that nobody had asked for.
    let failed = tally.faults.total() - tally.faults.connect - tally.unasked;
    let ended = tally.requests + failed + lane.in_flight;
    Check::at_most("accounting", Some(number), float(began.abs_diff(ended)), 0.0)
}

/// Little's law: requests under way on average = rate x time, which must be what the connections hold.
fn little(plan: &Plan, duration_ns: u64, number: usize, lane: &LaneOutcome) -> Check {
    let tally = &lane.tally;
    let spent_ns = tally.service.sum_ns() + tally.waited_service.sum_ns();
    let under_way = ratio(spent_ns.saturating_sub(tally.carried_ns), duration_ns);
    let wanted = float(plan.connections as u64);
    let mut check =
        Check::at_most("littles_law", Some(number), (under_way / wanted - 1.0).abs(), LITTLE_MAX);
    let applies = plan.pace.is_closed()
        && plan.pipeline == 1
        && plan.reuse == Reuse::KeepAlive
        && (plan.think, plan.ramp_up_ns) == (Think::Never, 0)
        && plan.requests().is_none()
        && tally.faults.total() == 0
        && tally.requests >= LITTLE_REQUESTS_MIN;
    if !applies {
        check.passed = None;
    }
    check
}

/// Whether requests left when they were due.
fn punctuality(number: usize, lane: &LaneOutcome) -> [Check; 3] {
    let tally = &lane.tally;
    let lateness = tally.lateness.quantiles();
    let (p99, max) = lateness.map_or((0, 0), |found| (found.p99, found.max));
    let never_sent = lane.unanswered - lane.in_flight + tally.shed;
    let achieved = ratio(tally.sent, tally.sent + never_sent);
    let at_most = |name, value, bound| Check::at_most(name, Some(number), value, bound);
    [
        at_most("lateness_ns_p99", float(p99), LATENESS_NS_P99_MAX),
        at_most("lateness_ns_max", float(max), LATENESS_NS_MAX),
        Check::at_least("achieved_over_offered", number, achieved, ACHIEVED_MIN),
    ]
}

impl Check {
    fn at_most(name: &'static str, lane: Option<usize>, value: f64, bound: f64) -> Self {
        Self { name, lane, value, bound, passed: Some(value <= bound) }
    }

    fn at_least(name: &'static str, lane: usize, value: f64, bound: f64) -> Self {
        Self { name, lane: Some(lane), value, bound, passed: Some(value >= bound) }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53 for months")]
fn float(value: u64) -> f64 {
    value as f64
}
