//! The result of `--self-test`: the highest rate of the load generator itself.

use std::fmt;

use super::accounting::float;
use super::human::duration;
use super::summary::{Report, SelfTest};

/// A worker that is less busy was not the bottleneck.
const BUSY_MIN: f64 = 0.9;

impl SelfTest {
    /// Summarises two runs: with all connections, and with one.
    ///
    /// # Errors
    /// The message that says why nothing was measured.
    pub fn new(
        all: &Report,
        single: &Report,
        (cores, floor_cores): (Vec<usize>, Vec<usize>),
    ) -> Result<Self, String> {
        let nothing = || "no response from the floor".to_owned();
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
            cpu_ns_per_request: all.cpu_s * 1e9 / float(all.requests),
            busy_fraction,
            overhead_ns_p50: overhead.p50,
            overhead_ns_p99: overhead.p99,
            cores,
            floor_cores,
            used_fraction: None,
        })
    }

    /// The line in the report of a run.
    pub(super) fn line(&self) -> String {
        let rate_rps = self.rate_rps;
        let (more, at_most) = if self.is_lower_bound { (" or more", "at most ") } else { ("", "") };
        let used = self.used_fraction.map(|used| used * 100.0);
        let used = used.map(|used| format!("; this run used {at_most}{used:.0} % of it"));
        format!(
            "Limit of the load generator here: {rate_rps:.0}/s{more}{}",
            used.unwrap_or_default()
        )
    }
}

/// Whether the floor shared cores with the workers.
fn is_shared(cores: &[usize], floor_cores: &[usize]) -> bool {
    floor_cores.iter().any(|core| cores.contains(core))
}

impl Report {
    /// Adds the result of a self-test.
    pub fn set_self_test(&mut self, ceiling: &SelfTest) {
        let used_fraction = Some(self.rate_rps / ceiling.rate_rps).filter(|used| used.is_finite());
        self.self_test = Some(SelfTest { used_fraction, ..ceiling.clone() });
    }
}

fn busiest(report: &Report) -> f64 {
    report.threads.iter().map(|thread| thread.busy_fraction).fold(0.0, f64::max)
}

/// The text when only the self-test ran.
impl fmt::Display for SelfTest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, pipeline, driver, .. } = self;
        let depth =
            if *pipeline > 1 { format!(", {pipeline} requests pipelined") } else { String::new() };
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
            "  Latency with one connection {} (50 %), {} (99 %), including floor and kernel",
            duration(self.overhead_ns_p50),
            duration(self.overhead_ns_p99)
        )?;
        if is_shared(&self.cores, &self.floor_cores) {
            let sentence = "The floor had no core of its own: the rate is what both reach together";
            return writeln!(out, "  {sentence}");
        }
        if self.is_lower_bound {
            writeln!(
                out,
                "  No thread was busy all the time: the floor or other processes were the bottleneck"
            )?;
        }
        writeln!(
            out,
            "  The load generator ran on {}, the floor on {}",
            cores(&self.cores),
            cores(&self.floor_cores)
        )
    }
}

fn cores(cores: &[usize]) -> String {
    let numbers: Vec<String> = cores.iter().map(usize::to_string).collect();
    format!("core{} {}", if cores.len() == 1 { "" } else { "s" }, numbers.join(", "))
}
