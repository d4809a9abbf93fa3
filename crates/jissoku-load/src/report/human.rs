//! The page for people, in the shape that wrk made familiar.

use std::fmt;

use crate::histogram::Quantiles;
use crate::report::{LaneReport, Report};

/// A clock that runs away faster than this is told of.
const DRIFT_PPM_MAX: f64 = 50.0;

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for lane in &self.lanes {
            self.write_lane(out, lane)?;
        }
        let threads = self.threads.len();
        let plural = if threads == 1 { "" } else { "s" };
        if self.requests > 0 {
            let cost_us = self.cpu_s * 1e6 / count(self.requests);
            let busiest =
                self.threads.iter().map(|thread| thread.busy_fraction).fold(0.0, f64::max);
            writeln!(
                out,
                "Stopwatch: {cost_us:.2} us of CPU per request on {threads} thread{plural}, the busiest \
                 {:.0} % busy; longest time without an answer {}",
                busiest * 100.0,
                duration(self.longest_gap_ns)
            )?;
        }
        if self.clock_drift_ppm.abs() > DRIFT_PPM_MAX {
            let drift = self.clock_drift_ppm;
            writeln!(
                out,
                "The clock ran {drift:.0} ppm off the kernel's: trust no digit beyond that."
            )?;
        }
        let open_loop = self.lanes.iter().any(|lane| lane.rate_rps_offered.is_some());
        let loop_note = if open_loop {
            "Open loop: latency counts from the time at which a request was to be sent."
        } else {
            "Closed loop: nobody asks while a connection waits, so stalls are under-represented; \
             -R measures what users would see."
        };
        writeln!(out, "{loop_note}")?;
        if self.interrupted {
            writeln!(out, "Interrupted: this is what was counted until then.")?;
        }
        Ok(())
    }
}

impl Report {
    fn write_lane(&self, out: &mut fmt::Formatter<'_>, lane: &LaneReport) -> fmt::Result {
        writeln!(out, "{} for {:.2} s", lane.url, self.duration_s)?;
        writeln!(
            out,
            "  {} connections open, {} made",
            lane.connections_open, lane.connections_opened
        )?;
        if let (Some(latency), Some(service)) = (lane.latency_ns, lane.service_ns) {
            let paced = lane.rate_rps_offered.is_some();
            writeln!(out, "  Latency       {}", heading())?;
            writeln!(out, "    {:<11} {}", if paced { "intended" } else { "" }, row(latency))?;
            if paced {
                writeln!(out, "    {:<11} {}", "from send", row(service))?;
            }
        }
        writeln!(
            out,
            "  {} requests, {} received, {} sent",
            lane.requests,
            bytes(lane.bytes_received),
            bytes(lane.bytes_sent)
        )?;
        if lane.shapes.len() > 1 {
            let counts =
                lane.shapes.iter().map(|shape| format!("{} {}", shape.name, shape.requests));
            writeln!(out, "  In rotation: {}", counts.collect::<Vec<_>>().join(", "))?;
        }
        let faults = lane.errors.by_name().into_iter().filter(|(_, count)| *count > 0);
        let faults: Vec<String> = faults.map(|(kind, count)| format!("{kind} {count}")).collect();
        if !faults.is_empty() {
            writeln!(out, "  Errors: {}", faults.join(", "))?;
        }
        let in_flight = self.connections as u64 * u64::from(self.pipeline);
        let missing = lane.errors.timeout + lane.unanswered;
        if missing > in_flight || lane.errors.timeout > 0 {
            let all = lane.requests + missing;
            let known = lane.requests * 100 / all;
            writeln!(
                out,
                "  {missing} of {all} requests had no answer in time: what is above {known} % is unknown"
            )?;
        }
        if let Some(cpu_ns) = lane.watched_cpu_ns.filter(|_| lane.requests > 0) {
            let cost_us = count(cpu_ns) / count(lane.requests) / 1e3;
            writeln!(out, "  Server: {cost_us:.2} us of CPU per request")?;
        }
        if let (Some(offered), Some(p99), Some(max)) =
            (lane.rate_rps_offered, lane.lag_ns_p99, lane.lag_ns_max)
        {
            let (p99, max) = (duration(p99), duration(max));
            writeln!(
                out,
                "  Offered: {offered:.0} requests/s; sent late by {p99} (p99), {max} (max)"
            )?;
        }
        writeln!(out, "Requests/sec: {:10.2}", lane.rate_rps)
    }
}

fn heading() -> String {
    ["mean", "50 %", "90 %", "99 %", "99.9 %", "max"].map(|name| format!("{name:>9}")).join(" ")
}

fn row(figures: Quantiles) -> String {
    let Quantiles { p50, p90, p99, p999, max, mean, min: _ } = figures;
    [mean, p50, p90, p99, p999, max].map(|value| format!("{:>9}", duration(value))).join(" ")
}

fn duration(value_ns: u64) -> String {
    match value_ns {
        0..1_000 => format!("{value_ns}ns"),
        1_000..1_000_000 => format!("{:.2}us", count(value_ns) / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2}ms", count(value_ns) / 1e6),
        _ => format!("{:.2}s", count(value_ns) / 1e9),
    }
}

fn bytes(size: u64) -> String {
    match size {
        0..1_024 => format!("{size} B"),
        1_024..1_048_576 => format!("{:.2} KiB", count(size) / 1024.0),
        _ => format!("{:.2} MiB", count(size) / 1024.0 / 1024.0),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
fn count(value: u64) -> f64 {
    value as f64
}
