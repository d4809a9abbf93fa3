//! What the stopwatch itself could do at most, beside what it did.

use std::fmt;

use serde::Serialize;

use super::Report;
use super::human::duration;

/// A thread that is less busy was not what limited the rate.
const BUSY_MIN: f64 = 0.9;

/// The stopwatch against a server that does next to nothing.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are named as in the JSON, and units end their names")]
pub struct SelfTest {
    /// The highest rate, in a closed loop over so many connections and with so many requests on each.
    pub rate_rps: f64,
    pub connections: usize,
    pub pipeline: u16,
    pub driver: &'static str,
    /// Whether something else limited it: a server on the same cores, or one that was not quick enough.
    pub is_lower_bound: bool,
    /// What a request costs the stopwatch.
    pub cpu_ns_per_request: f64,
    pub busy_fraction: f64,
    /// Latencies with one connection, of which the server and the kernel have a part.
    pub overhead_ns_p50: u64,
    pub overhead_ns_p99: u64,
    /// Where the threads ran, and where the server did.
    pub cores: Vec<usize>,
    pub floor_cores: Vec<usize>,
    /// What part of the highest rate the measurement beside it reached.
    pub used_fraction: Option<f64>,
}

impl SelfTest {
    /// Sums both runs up: the one over all connections, and the one over a single connection.
    ///
    /// # Errors
    /// The sentence that says why nothing was measured.
    pub fn new(
        all: &Report,
        single: &Report,
        (cores, floor_cores): (Vec<usize>, Vec<usize>),
    ) -> Result<Self, String> {
        let nothing = || "the floor gave no answer while it was measured".to_owned();
        if let Some(sentence) = all.nothing_measured().or_else(|| single.nothing_measured()) {
            return Err(sentence);
        }
        let overhead = single.latency_ns.ok_or_else(nothing)?;
        let busy_fraction = busiest(all);
        Ok(Self {
            is_lower_bound: busy_fraction < BUSY_MIN || is_shared(&cores, &floor_cores),
            rate_rps: all.rate_rps,
            connections: all.connections,
            pipeline: all.pipeline,
            driver: all.driver,
            cpu_ns_per_request: all.cpu_s * 1e9 / super::float(all.requests),
            busy_fraction,
            overhead_ns_p50: overhead.p50,
            overhead_ns_p99: overhead.p99,
            cores,
            floor_cores,
            used_fraction: None,
        })
    }

    /// The line that goes into the report of a measurement.
    pub(super) fn line(&self) -> String {
        let rate_rps = self.rate_rps;
        let (more, at_most) = if self.is_lower_bound { (" or more", "at most ") } else { ("", "") };
        let used = self.used_fraction.map(|used| used * 100.0);
        let used = used.map(|used| format!("; this run used {at_most}{used:.0} % of it"));
        format!(
            "The stopwatch's own ceiling here: {rate_rps:.0}/s{more}{}",
            used.unwrap_or_default()
        )
    }
}

/// Whether the server ran where the threads did.
fn is_shared(cores: &[usize], floor_cores: &[usize]) -> bool {
    floor_cores.iter().any(|core| cores.contains(core))
}

impl Report {
    /// Sets what the stopwatch can do at most beside what it did.
    pub fn hold_against(&mut self, ceiling: &SelfTest) {
        let used_fraction = Some(self.rate_rps / ceiling.rate_rps).filter(|used| used.is_finite());
        self.self_test = Some(SelfTest { used_fraction, ..ceiling.clone() });
    }
}

fn busiest(report: &Report) -> f64 {
    report.threads.iter().map(|thread| thread.busy_fraction).fold(0.0, f64::max)
}

/// The page for people, when nothing else was measured.
impl fmt::Display for SelfTest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, pipeline, driver, .. } = self;
        let depth =
            if *pipeline > 1 { format!(", {pipeline} requests in each") } else { String::new() };
        writeln!(out, "{}", self.line())?;
        writeln!(out, "  {connections} connections{depth}, over {driver}")?;
        writeln!(
            out,
            "  {:.2} us of CPU per request, the busiest thread {:.0} % busy",
            self.cpu_ns_per_request / 1e3,
            self.busy_fraction * 100.0
        )?;
        writeln!(
            out,
            "  With one connection a latency of {} (50 %), {} (99 %), of which floor and kernel have a part",
            duration(self.overhead_ns_p50),
            duration(self.overhead_ns_p99)
        )?;
        if is_shared(&self.cores, &self.floor_cores) {
            let sentence = "The floor had no core of its own: this is what both together reach";
            return writeln!(out, "  {sentence}");
        }
        if self.is_lower_bound {
            writeln!(
                out,
                "  No thread was busy all the time: the floor limited it, or others had its core"
            )?;
        }
        writeln!(
            out,
            "  The stopwatch ran on {}, the floor on {}",
            cores(&self.cores),
            cores(&self.floor_cores)
        )
    }
}

fn cores(cores: &[usize]) -> String {
    let numbers: Vec<String> = cores.iter().map(usize::to_string).collect();
    format!("core{} {}", if cores.len() == 1 { "" } else { "s" }, numbers.join(", "))
}
