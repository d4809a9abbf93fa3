//! What is written about a measurement: one JSON object, or a page for people.

mod accounting;
mod format;
pub mod hgrm;
pub mod hlog;
mod host;
mod human;
mod openmetrics;
pub mod raw;
mod self_test;
pub mod timeseries;

pub use accounting::Accounting;
pub use format::{Format, annotations};
pub use host::Host;
pub use self_test::SelfTest;

use serde::Serialize;

use crate::check::{Check, checks};
use crate::fault::Faults;
use crate::figures::{Figure, figures};
use crate::histogram::Quantiles;
use crate::outcome::{LaneOutcome, Outcome};
use crate::plan::{Arrival, Driver, Idle, LanePlan, Pace, Plan};
use crate::tally::Tally;
use crate::trace::Trace;

/// Name and version of the JSON's shape.
const SCHEMA: &str = "jissoku.load/1";

/// The JSON object. A figure that does not exist is null; all times are nanoseconds unless named else.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct Report {
    pub schema: &'static str,
    /// Whole, right answers in the window.
    pub requests: u64,
    pub errors: Faults,
    pub duration_s: f64,
    pub rate_rps: f64,
    pub latency_ns: Option<Quantiles>,
    /// What the stopwatch itself used.
    pub cpu_s: f64,
    pub threads: Vec<ThreadReport>,
    pub longest_gap_ns: u64,
    /// Connections of each lane, and requests in flight on each of them.
    pub connections: usize,
    pub pipeline: u16,
    pub seed: u64,
    /// How the requests of the open loop lay in time: `constant`, `poisson` or `trace`.
    pub arrival: Option<&'static str>,
    pub trace: Option<TraceReport>,
    pub host: Host,
    pub clock: &'static str,
    pub clock_drift_ppm: f64,
    pub driver: &'static str,
    pub idle: &'static str,
    pub interrupted: bool,
    /// Whether the stopwatch's own account holds.
    pub checks: Vec<Check>,
    /// What the stopwatch could do at most, if that was looked at too.
    pub self_test: Option<SelfTest>,
    pub lanes: Vec<LaneReport>,
}

/// One thread of the stopwatch.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct ThreadReport {
    pub cpu_ns: u64,
    pub busy_fraction: f64,
}

/// The trace that was replayed.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct TraceReport {
    pub file: String,
    pub requests: u64,
    /// From the start to the last of its times.
    pub length_s: f64,
}

impl TraceReport {
    fn new(trace: &Trace) -> Self {
        let (file, length_s) = (trace.name().to_owned(), seconds(trace.length_ns()));
        Self { file, requests: trace.requests(), length_s }
    }
}

/// One of the requests that were sent in rotation.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON")]
pub struct ShapeReport {
    pub name: String,
    pub requests: u64,
}

/// One lane.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct LaneReport {
    pub url: String,
    pub requests: u64,
    /// Right answers to each of the requests that were sent in rotation.
    pub shapes: Vec<ShapeReport>,
    pub errors: Faults,
    pub duration_ns: u64,
    pub rate_rps: f64,
    pub rate_rps_offered: Option<f64>,
    /// From the intended sending to the last byte, of right answers.
    pub latency_ns: Option<Quantiles>,
    /// From the actual sending to the last byte, of right answers.
    pub service_ns: Option<Quantiles>,
    /// Percentiles from the intended sending on, those included that had no answer in time.
    pub figures: Vec<Figure>,
    /// The same, from the actual sending on.
    pub service_figures: Vec<Figure>,
    /// The longest that a request without an answer was waited for.
    pub waited_ns_max: u64,
    pub waited_service_ns_max: u64,
    pub accounting: Accounting,
    pub lag_ns_p50: Option<u64>,
    pub lag_ns_p99: Option<u64>,
    pub lag_ns_max: Option<u64>,
    /// What of the lag was the stopwatch's own doing.
    pub lateness_ns_p99: Option<u64>,
    pub lateness_ns_max: Option<u64>,
    /// Of the latencies: `HdrHistogram` V2, deflated, in base64.
    pub histogram: String,
    /// The bins of both distributions, for formats that hold them; JSON has them in `histogram`.
    #[serde(skip)]
    pub latency_bins: Vec<(u64, u64)>,
    #[serde(skip)]
    pub service_bins: Vec<(u64, u64)>,
    pub latency_sum_ns: u64,
    pub service_sum_ns: u64,
    pub per_second: Vec<u64>,
    /// From the first step of connecting to the socket's standing, before the window too.
    pub connect_ns: Option<Quantiles>,
    /// From there to the end of the handshake of TLS.
    pub handshake_ns: Option<Quantiles>,
    /// How many of them resumed an earlier session.
    pub handshakes_resumed: u64,
    pub connections_open: u64,
    pub connections_opened: u64,
    /// Attempts at a connection that failed, before the window too.
    pub connections_refused: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    /// Sent or due, and without an answer when the window closed.
    pub unanswered: u64,
    pub watched_cpu_ns: Option<u64>,
    pub watched_processes: Option<u64>,
}

impl Report {
    /// Sums an outcome up.
    #[must_use]
    pub fn new(plan: &Plan, outcome: &Outcome) -> Self {
        let mut all = Tally::default();
        for lane in &outcome.lanes {
            all.add(&lane.tally);
        }
        let cpu_ns: u64 = outcome.threads.iter().map(|thread| thread.cpu_ns).sum();
        let lanes = plan.lanes.iter().zip(&outcome.lanes);
        let lanes = lanes
            .map(|(asked, lane)| LaneReport::new(asked, &plan.pace, outcome.duration_ns, lane));
        let threads = outcome.threads.iter().map(|thread| ThreadReport {
            cpu_ns: thread.cpu_ns,
            busy_fraction: ratio(thread.cpu_ns, thread.duration_ns),
        });
        Self {
            schema: SCHEMA,
            requests: all.requests,
            errors: all.faults,
            duration_s: seconds(outcome.duration_ns),
            rate_rps: rate(all.requests, outcome.duration_ns),
            latency_ns: all.latency.quantiles(),
            cpu_s: seconds(cpu_ns),
            threads: threads.collect(),
            longest_gap_ns: outcome.longest_gap_ns,
            connections: plan.connections,
            pipeline: plan.pipeline,
            seed: plan.seed,
            arrival: match (&plan.pace, plan.arrival) {
                (Pace::Closed, _) => None,
                (Pace::Trace(_), _) => Some("trace"),
                (_, Arrival::Constant) => Some("constant"),
                (_, Arrival::Poisson) => Some("poisson"),
            },
            trace: plan.pace.trace().map(TraceReport::new),
            host: Host::ours(),
            clock: outcome.clock,
            clock_drift_ppm: outcome.drift_ppm,
            driver: if plan.driver == Driver::Uring { "uring" } else { "epoll" },
            idle: match plan.idle {
                Idle::Block => "block",
                Idle::Spin => "spin",
                Idle::Hybrid => "hybrid",
            },
            interrupted: outcome.interrupted,
            checks: checks(plan, outcome),
            self_test: None,
            lanes: lanes.collect(),
        }
    }

    /// Whether a self-check failed.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.checks.iter().any(|check| check.passed == Some(false))
    }

    /// Says so when not a single right answer came, and what came instead.
    #[must_use]
    pub fn nothing_measured(&self) -> Option<String> {
        let lane = self.lanes.iter().find(|lane| lane.requests == 0)?;
        let faults = lane.errors.by_name();
        let worst = faults.iter().max_by_key(|(_, count)| *count)?;
        let url = &lane.url;
        Some(match worst {
            (_, 0) => format!("{url} gave no answer while it was measured"),
            (kind, count) => format!("{url} gave no right answer: {count} failed with {kind:?}"),
        })
    }
}

impl LaneReport {
    fn new(asked: &LanePlan, pace: &Pace, duration_ns: u64, lane: &LaneOutcome) -> Self {
        let tally = &lane.tally;
        let (lag, lateness) = (tally.lag.quantiles(), tally.lateness.quantiles());
        let shapes = asked.shapes.iter().zip(&tally.per_shape);
        let shapes =
            shapes.map(|(shape, &requests)| ShapeReport { name: shape.name.clone(), requests });
        Self {
            url: asked.address.to_string(),
            requests: tally.requests,
            shapes: shapes.collect(),
            errors: tally.faults,
            duration_ns,
            rate_rps: rate(tally.requests, duration_ns),
            rate_rps_offered: offered_rps(pace, duration_ns, lane),
            latency_ns: tally.latency.quantiles(),
            service_ns: tally.service.quantiles(),
            figures: figures(&tally.latency, &tally.waited),
            service_figures: figures(&tally.service, &tally.waited_service),
            waited_ns_max: tally.waited.max_ns(),
            waited_service_ns_max: tally.waited_service.max_ns(),
            accounting: Accounting::of(lane),
            lag_ns_p50: lag.map(|lag| lag.p50),
            lag_ns_p99: lag.map(|lag| lag.p99),
            lag_ns_max: lag.map(|lag| lag.max),
            lateness_ns_p99: lateness.map(|lateness| lateness.p99),
            lateness_ns_max: lateness.map(|lateness| lateness.max),
            histogram: tally.latency.export(),
            latency_bins: tally.latency.bins().collect(),
            service_bins: tally.service.bins().collect(),
            latency_sum_ns: tally.latency.sum_ns(),
            service_sum_ns: tally.service.sum_ns(),
            per_second: tally.per_second.clone(),
            connect_ns: lane.connect.quantiles(),
            handshake_ns: lane.handshake.quantiles(),
            handshakes_resumed: lane.resumed,
            connections_open: lane.open,
            connections_opened: lane.opened,
            connections_refused: lane.refused,
            bytes_received: tally.bytes_received,
            bytes_sent: tally.bytes_sent,
            unanswered: lane.unanswered,
            watched_cpu_ns: lane.used.and_then(|used| used.cpu_ns),
            watched_processes: lane.used.map(|used| used.processes),
        }
    }
}

/// Requests per second that the schedule asked for; of a trace, those that were due in the window.
fn offered_rps(pace: &Pace, duration_ns: u64, lane: &LaneOutcome) -> Option<f64> {
    match *pace {
        Pace::Closed => None,
        Pace::Constant { rate_rps } => Some(float(rate_rps)),
        Pace::Ramp { from_rps, to_rps } => Some(f64::midpoint(float(from_rps), float(to_rps))),
        Pace::Trace(_) => {
            let never_sent = lane.tally.shed + lane.unanswered - lane.in_flight;
            Some(rate(lane.tally.sent + never_sent, duration_ns))
        }
    }
}

fn rate(count: u64, duration_ns: u64) -> f64 {
    ratio(count, duration_ns) * 1e9
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

fn seconds(duration_ns: u64) -> f64 {
    float(duration_ns) / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds stay below 2^53 for months")]
fn float(value: u64) -> f64 {
    value as f64
}
