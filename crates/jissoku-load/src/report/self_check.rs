//! Self-checks: is the measurement consistent, and did the load generator influence it?
//!
//! A check compares a count with what follows from other counts, or bounds the load generator's own
//! influence. If one fails, the metrics are not to be trusted, whatever the server did.

use serde::Serialize;

use crate::engine::outcome::{Outcome, TargetOutcome};
use crate::plan::Plan;
use crate::plan::options::{Idle, Reuse, Think};

/// Relative difference allowed between the requests in flight that latencies imply and the
/// connections.
const LITTLE_MAX: f64 = 0.02;

/// Little's law is not checked with fewer responses.
const LITTLE_REQUESTS_MIN: u64 = 1_000;

/// Limit of the 99th percentile of lateness: time from being due, with a free connection, to
/// sending.
const LATENESS_NS_P99_MAX: f64 = 1e6;

/// Limit of the largest lateness.
const LATENESS_NS_MAX: f64 = 100e6;

/// At least this fraction of the due requests must have been sent.
const ACHIEVED_MIN: f64 = 0.99;

/// A worker that used more CPU may have limited the rate.
const BUSY_MAX: f64 = 0.95;

/// Limit of the clock's drift against the kernel's.
const DRIFT_PPM_MAX: f64 = 50.0;

/// Percentiles up to p99 need this many samples.
const REQUESTS_MIN: f64 = 1_000.0;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelfCheck {
    /// Name of the checked quantity.
    pub name: &'static str,
    /// Index of the target; `None` if the check is about all.
    pub target: Option<usize>,
    /// The measured value.
    pub value: f64,
    /// The limit.
    pub bound: f64,
    /// Whether the value is within the limit; `None` if the check does not apply.
    pub passed: Option<bool>,
}

/// Runs all self-checks.
pub fn run_checks(plan: &Plan, outcome: &Outcome) -> Vec<SelfCheck> {
    let all = |name, value, bound| SelfCheck::at_most(name, None, value, bound);
    let busiest = outcome.threads.iter().map(|thread| ratio(thread.cpu_ns, thread.duration_ns));
    let mut busy = all("own_cpu", busiest.fold(0.0, f64::max), BUSY_MAX);
    // A run of so few requests is not limited by anything's throughput.
    let are_few = plan.requests().is_some_and(|count| float(count) < REQUESTS_MIN);
    if plan.idle != Idle::Block || are_few {
        busy.passed = None;
    }
    let mut checks = vec![busy, all("clock_drift_ppm", outcome.drift_ppm.abs(), DRIFT_PPM_MAX)];
    for (number, target) in outcome.targets.iter().enumerate() {
        checks.push(accounting(number, target));
        checks.push(little(plan, outcome.duration_ns, number, target));
        let requests = float(target.counters.requests);
        let mut samples = SelfCheck::at_least("samples", number, requests, REQUESTS_MIN);
        if are_few {
            samples.passed = None;
        }
        checks.push(samples);
        if !plan.pace.is_closed() {
            checks.extend(punctuality(number, target));
        }
    }
    checks
}

/// Every request that was sent has exactly one outcome.
fn accounting(number: usize, target: &TargetOutcome) -> SelfCheck {
    let counters = &target.counters;
    let began = counters.carried + counters.sent;
    // A failed connection attempt is not a request, and an unsolicited response not an outcome.
    let failed = counters.errors.total() - counters.errors.connect - counters.unsolicited;
    let ended = counters.requests + failed + target.in_flight;
    SelfCheck::at_most("accounting", Some(number), float(began.abs_diff(ended)), 0.0)
}

/// Little's law: requests in flight on average = rate x time, which must equal the number of
/// connections.
fn little(plan: &Plan, duration_ns: u64, number: usize, target: &TargetOutcome) -> SelfCheck {
    let counters = &target.counters;
    // A request that waits to be submitted occupies its connection, too.
    let spent_ns =
        counters.service.sum_ns() + counters.waited_service.sum_ns() + counters.queued_ns;
    let under_way = ratio(spent_ns.saturating_sub(counters.carried_ns), duration_ns);
    let wanted = float(plan.connections as u64);
    let mut check = SelfCheck::at_most(
        "littles_law",
        Some(number),
        (under_way / wanted - 1.0).abs(),
        LITTLE_MAX,
    );
    let applies = plan.pace.is_closed()
        && plan.pipeline == 1
        && plan.reuse == Reuse::KeepAlive
        && (plan.think, plan.ramp_up_ns) == (Think::Never, 0)
        && plan.requests().is_none()
        && counters.errors.total() == 0
        && counters.requests >= LITTLE_REQUESTS_MIN;
    if !applies {
        check.passed = None;
    }
    check
}

/// Whether requests were sent when they were due.
fn punctuality(number: usize, target: &TargetOutcome) -> [SelfCheck; 3] {
    let counters = &target.counters;
    let lateness = counters.lateness.quantiles();
    let (p99, max) = lateness.map_or((0, 0), |found| (found.p99, found.max));
    let never_sent = target.unanswered - target.in_flight + counters.shed;
    let achieved = ratio(counters.sent, counters.sent + never_sent);
    let at_most = |name, value, bound| SelfCheck::at_most(name, Some(number), value, bound);
    [
        at_most("lateness_ns_p99", float(p99), LATENESS_NS_P99_MAX),
        at_most("lateness_ns_max", float(max), LATENESS_NS_MAX),
        SelfCheck::at_least("achieved_over_offered", number, achieved, ACHIEVED_MIN),
    ]
}

impl SelfCheck {
    fn at_most(name: &'static str, target: Option<usize>, value: f64, bound: f64) -> Self {
        Self { name, target, value, bound, passed: Some(value <= bound) }
    }

    fn at_least(name: &'static str, target: usize, value: f64, bound: f64) -> Self {
        Self { name, target: Some(target), value, bound, passed: Some(value >= bound) }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53 for months")]
fn float(value: u64) -> f64 {
    value as f64
}
