//! The figures of a run, as the fields of one JSON object.

use std::collections::BTreeMap;

use jissoku_os::host_info::HostInfo;
use serde::Serialize;

use super::accounting::{Accounting, rate, ratio, seconds};
use crate::engine::counters::Counters;
use crate::engine::error::{ErrorCounts, ErrorExample};
use crate::engine::histogram::{Histogram, Quantiles};
use crate::engine::outcome::{Outcome, TargetOutcome};
use crate::engine::slice_log::SliceUsage;
use crate::plan::options::{Driver, Idle};
use crate::plan::pace::{Arrival, Pace};
use crate::plan::request_spec::RequestSpec;
use crate::plan::trace::Trace;
use crate::plan::{Plan, TargetPlan};
use crate::report::percentiles::{Mean, Percentile, percentiles};
use crate::report::self_check::SelfCheck;

/// Name and version of the JSON schema.
const SCHEMA: &str = "jissoku.load/2";

/// The JSON object. A metric that does not exist is null; times are in nanoseconds unless named
/// otherwise.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct Report {
    pub schema: &'static str,
    /// Correct responses in the window.
    pub requests: u64,
    pub errors: ErrorCounts,
    /// Ended requests with a response, by its status.
    pub statuses: BTreeMap<u16, u64>,
    pub duration_s: f64,
    pub rate_rps: f64,
    pub latency_ns: Option<Quantiles>,
    /// CPU time of the load generator.
    pub cpu_s: f64,
    pub threads: Vec<WorkerReport>,
    pub longest_gap_ns: u64,
    /// The longest time in which a spinning worker did not run.
    pub longest_stall_ns: Option<u64>,
    /// Connections to each target, and requests in flight on each of them.
    pub connections: usize,
    pub pipeline: u16,
    pub seed: u64,
    /// The arrival process of the open loop: `constant`, `poisson` or `trace`.
    pub arrival: Option<&'static str>,
    pub trace: Option<TraceReport>,
    pub host: Host,
    pub clock: &'static str,
    pub clock_drift_ppm: f64,
    pub driver: &'static str,
    pub idle: &'static str,
    pub interrupted: bool,
    /// The self-checks.
    pub checks: Vec<SelfCheck>,
    /// The result of the self-test, if there was one.
    pub self_test: Option<SelfTest>,
    pub targets: Vec<TargetReport>,
}

/// One worker thread.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct WorkerReport {
    pub cpu_ns: u64,
    pub busy_fraction: f64,
}

/// The trace that was replayed.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct TraceReport {
    pub file: String,
    pub requests: u64,
    /// The time of its last request.
    pub length_s: f64,
}

impl TraceReport {
    fn new(trace: &Trace) -> Self {
        let (file, length_s) = (trace.name().to_owned(), seconds(trace.length_ns()));
        Self { file, requests: trace.requests(), length_s }
    }
}

/// One request of the cycle.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON")]
pub struct RequestSpecReport {
    pub name: String,
    pub requests: u64,
    pub errors: u64,
}

/// The first error of its kind.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct ErrorExampleReport {
    pub kind: &'static str,
    /// From the window's opening.
    pub at_ns: u64,
    /// The server's address.
    pub address: String,
    /// The request, if the error is that of one.
    pub request: Option<String>,
    pub message: String,
}

/// One target.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct TargetReport {
    pub url: String,
    #[serde(skip)]
    pub is_websocket: bool,
    pub requests: u64,
    /// Correct responses, by request of the cycle.
    pub request_specs: Vec<RequestSpecReport>,
    pub errors: ErrorCounts,
    /// The first error of each kind.
    pub error_examples: Vec<ErrorExampleReport>,
    /// Ended requests with a response, by its status: also those that were wrong or late.
    pub statuses: BTreeMap<u16, u64>,
    pub duration_ns: u64,
    pub rate_rps: f64,
    pub rate_rps_offered: Option<f64>,
    /// From the intended send time to the last byte, of correct responses.
    pub latency_ns: Option<Quantiles>,
    /// From the actual send time to the last byte, of correct responses.
    pub service_ns: Option<Quantiles>,
    /// From the actual send time to the first byte of the response, of correct responses.
    pub first_byte_ns: Option<Quantiles>,
    /// The mean latency from the intended send time, including requests without a timely response.
    pub mean: Option<Mean>,
    /// The same from the actual send time.
    pub service_mean: Option<Mean>,
    /// Latency percentiles from the intended send time, including requests without a timely
    /// response.
    pub percentiles: Vec<Percentile>,
    /// The same from the actual send time.
    pub service_percentiles: Vec<Percentile>,
    /// The longest time that a request without a response was waited for.
    pub waited_ns_max: u64,
    pub waited_service_ns_max: u64,
    pub accounting: Accounting,
    pub lag_ns_p50: Option<u64>,
    pub lag_ns_p99: Option<u64>,
    pub lag_ns_max: Option<u64>,
    /// The load generator's own part of the lag.
    pub lateness_ns_p99: Option<u64>,
    pub lateness_ns_max: Option<u64>,
    /// Latencies as `HdrHistogram` V2, deflated, in base64.
    pub histogram: String,
    /// The bins of both distributions, for formats that contain them; JSON has `histogram`.
    #[serde(skip)]
    pub latency_bins: Vec<(u64, u64)>,
    #[serde(skip)]
    pub service_bins: Vec<(u64, u64)>,
    #[serde(skip)]
    pub first_byte_bins: Vec<(u64, u64)>,
    #[serde(skip)]
    pub first_byte_sum_ns: u64,
    /// As the former, of requests without a correct, timely response: how long they were waited for.
    #[serde(skip)]
    pub waited_bins: Vec<(u64, u64)>,
    #[serde(skip)]
    pub waited_sum_ns: u64,
    pub latency_sum_ns: u64,
    pub service_sum_ns: u64,
    pub per_second: Vec<u64>,
    /// Duration of connects, also before the window.
    pub connect_ns: Option<Quantiles>,
    /// Duration of TLS or WebSocket handshakes.
    pub handshake_ns: Option<Quantiles>,
    /// TLS handshakes that resumed an earlier session.
    pub handshakes_resumed: u64,
    pub connections_open: u64,
    pub connections_opened: u64,
    /// Failed connection attempts, also before the window.
    pub connections_refused: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    /// Requests that were sent or due and had no response when the window closed.
    pub unanswered: u64,
    pub watched_cpu_ns: Option<u64>,
    pub watched_processes: Option<u64>,
    /// With time slices: their total duration, and the watched server's CPU time in each of them.
    pub slice_duration_ns: Option<u64>,
    pub slice_cpu_ns: Option<Vec<u64>>,
    /// More of each slice, in the same order.
    pub slices: Option<Vec<SliceUsage>>,
    /// CPU time of settling requests, which are counted nowhere else.
    pub settling_cpu_ns: Option<u64>,
    pub settling_requests: Option<u64>,
    /// CPU time of the watched server without load, in nanoseconds per second.
    pub idle_cpu_ns_per_s: Option<u64>,
}

/// The load generator measured against the floor, a minimal server.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct SelfTest {
    /// The highest rate, in a closed loop with these connections and pipelined requests.
    pub rate_rps: f64,
    pub connections: usize,
    pub pipeline: u16,
    pub driver: &'static str,
    /// Whether something else was the bottleneck: a server on the same cores, or one that was too
    /// slow.
    pub is_lower_bound: bool,
    /// CPU time per request of the load generator.
    pub cpu_ns_per_request: f64,
    pub busy_fraction: f64,
    /// Latency with one connection, including server and kernel.
    pub overhead_ns_p50: u64,
    pub overhead_ns_p99: u64,
    /// The cores of the workers and of the floor.
    pub cores: Vec<usize>,
    pub floor_cores: Vec<usize>,
    /// The rate of the accompanying run as a fraction of `rate_rps`.
    pub used_fraction: Option<f64>,
}

impl Report {
    /// Summarises an outcome and its self-checks.
    pub fn new(plan: &Plan, outcome: &Outcome, checks: Vec<SelfCheck>) -> Self {
        let mut all = Counters::default();
        for target in &outcome.targets {
            all.add(&target.counters);
        }
        let cpu_ns: u64 = outcome.threads.iter().map(|thread| thread.cpu_ns).sum();
        let targets = plan.targets.iter().zip(&outcome.targets);
        let targets =
            targets.map(|(planned, target)| TargetReport::new(planned, &plan.pace, target));
        let threads = outcome.threads.iter().map(|thread| WorkerReport {
            cpu_ns: thread.cpu_ns,
            busy_fraction: ratio(thread.cpu_ns, thread.duration_ns),
        });
        Self {
            schema: SCHEMA,
            requests: all.requests,
            errors: all.errors,
            statuses: by_status(&all),
            duration_s: seconds(outcome.duration_ns),
            rate_rps: rate(all.requests, outcome.duration_ns),
            latency_ns: all.latency.quantiles(),
            cpu_s: seconds(cpu_ns),
            threads: threads.collect(),
            longest_gap_ns: outcome.longest_gap_ns,
            longest_stall_ns: outcome.longest_stall_ns,
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
            checks,
            self_test: None,
            targets: targets.collect(),
        }
    }

    /// Whether a self-check failed.
    pub fn has_failed_check(&self) -> bool {
        self.checks.iter().any(|check| check.passed == Some(false))
    }

    /// A message if a target gave no correct response at all, with the most frequent error.
    pub fn nothing_measured(&self) -> Option<String> {
        let target = self.targets.iter().find(|target| target.requests == 0)?;
        let errors = target.errors.by_name();
        let worst = errors.iter().max_by_key(|(_, count)| *count)?;
        let url = &target.url;
        Some(match worst {
            (_, 0) => format!("{url}: no response in the window"),
            (kind, count) => {
                let remedy = target.errors.remedy();
                format!("{url}: no correct response; {count} requests failed with {kind:?}{remedy}")
            }
        })
    }
}

impl TargetReport {
    fn new(planned: &TargetPlan, pace: &Pace, target: &TargetOutcome) -> Self {
        let (counters, duration_ns) = (&target.counters, target.duration_ns);
        let slices = target.slices.as_ref();
        let loaded_ns = slices.map_or(duration_ns, |slices| slices.duration_ns);
        let (lag, lateness) = (counters.lag.quantiles(), counters.lateness.quantiles());
        let known = percentiles(&counters.latency, &counters.waited);
        let known_service = percentiles(&counters.service, &counters.waited_service);
        let accounting = Accounting::of(target);
        let failed = accounting.failed();
        let is_websocket = planned.handshake.is_some();
        let first_byte = if is_websocket { Histogram::new() } else { counters.first_byte() };
        Self {
            url: planned.address.to_string(),
            is_websocket,
            requests: counters.requests,
            request_specs: spec_reports(planned, counters),
            errors: counters.errors,
            error_examples: error_examples(planned, target),
            statuses: by_status(counters),
            duration_ns,
            rate_rps: rate(counters.requests, loaded_ns),
            rate_rps_offered: offered_rps(pace, duration_ns, target),
            latency_ns: counters.latency.quantiles(),
            service_ns: counters.service.quantiles(),
            first_byte_ns: first_byte.quantiles(),
            mean: Mean::of(&counters.latency, &counters.waited, &known, failed),
            service_mean: Mean::of(
                &counters.service,
                &counters.waited_service,
                &known_service,
                failed,
            ),
            percentiles: known,
            service_percentiles: known_service,
            waited_ns_max: counters.waited.max_ns(),
            waited_service_ns_max: counters.waited_service.max_ns(),
            accounting,
            lag_ns_p50: lag.map(|lag| lag.p50),
            lag_ns_p99: lag.map(|lag| lag.p99),
            lag_ns_max: lag.map(|lag| lag.max),
            lateness_ns_p99: lateness.map(|lateness| lateness.p99),
            lateness_ns_max: lateness.map(|lateness| lateness.max),
            histogram: counters.latency.export(),
            latency_bins: counters.latency.bins().collect(),
            service_bins: counters.service.bins().collect(),
            first_byte_bins: first_byte.bins().collect(),
            first_byte_sum_ns: first_byte.sum_ns(),
            waited_bins: counters.waited.bins().collect(),
            waited_sum_ns: counters.waited.sum_ns(),
            latency_sum_ns: counters.latency.sum_ns(),
            service_sum_ns: counters.service.sum_ns(),
            per_second: counters.per_second.clone(),
            connect_ns: target.connect.quantiles(),
            handshake_ns: target.handshake.quantiles(),
            handshakes_resumed: target.resumed,
            connections_open: target.open,
            connections_opened: target.opened,
            connections_refused: target.refused,
            bytes_received: counters.bytes_received,
            bytes_sent: counters.bytes_sent,
            unanswered: target.unanswered,
            watched_cpu_ns: target.cpu_usage.and_then(|usage| usage.cpu_ns),
            watched_processes: target.cpu_usage.map(|usage| usage.processes),
            slice_duration_ns: slices.map(|slices| slices.duration_ns),
            slice_cpu_ns: slices.map(|one| one.slices.iter().map(|slice| slice.cpu_ns).collect()),
            slices: slices.map(|one| one.slices.clone()),
            settling_cpu_ns: slices.map(|slices| slices.settling_cpu_ns),
            settling_requests: slices.map(|slices| slices.settling_requests),
            idle_cpu_ns_per_s: target.idle_cpu_ns_per_s,
        }
    }
}

fn by_status(counters: &Counters) -> BTreeMap<u16, u64> {
    let counts = (0..).zip(&counters.statuses).skip(1);
    counts.filter(|(_, count)| **count > 0).map(|(status, &count)| (status, count)).collect()
}

fn spec_reports(planned: &TargetPlan, counters: &Counters) -> Vec<RequestSpecReport> {
    let counts = counters.per_spec.iter().zip(&counters.errors_per_spec);
    let specs = planned.specs.iter().zip(counts);
    let report = |(spec, (&requests, &errors)): (&RequestSpec, _)| RequestSpecReport {
        name: spec.name.clone(),
        requests,
        errors,
    };
    specs.map(report).collect()
}

fn error_examples(planned: &TargetPlan, target: &TargetOutcome) -> Vec<ErrorExampleReport> {
    let example = |example: &ErrorExample| ErrorExampleReport {
        kind: example.error.name(),
        at_ns: example.at_ns,
        address: target.address.clone(),
        request: example.spec.map(|spec| planned.specs[usize::from(spec)].name.clone()),
        message: example.message.clone(),
    };
    target.counters.examples.iter().map(example).collect()
}

/// The offered rate in requests per second; of a trace, that of the requests due in the window.
fn offered_rps(pace: &Pace, duration_ns: u64, target: &TargetOutcome) -> Option<f64> {
    match *pace {
        Pace::Closed => None,
        Pace::Constant { rate } => Some(rate.rps()),
        Pace::Ramp { from, to } => Some(f64::midpoint(from.rps(), to.rps())),
        Pace::Trace(_) => {
            let never_sent = target.counters.shed + target.unanswered - target.in_flight;
            Some(rate(target.counters.sent + never_sent, duration_ns))
        }
    }
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the machine")]
pub struct Host {
    pub kernel: String,
    pub cpu: String,
    pub clocksource: String,
    pub governor: String,
    pub mitigations: Vec<String>,
}

impl Host {
    pub(crate) fn ours() -> Self {
        let HostInfo { kernel, cpu, clocksource, governor, mitigations } = HostInfo::current();
        Self { kernel, cpu, clocksource, governor, mitigations }
    }
}
