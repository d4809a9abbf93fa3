//! The page for people: first the shape that wrk made familiar, then what there is to say about it.

use std::fmt;

use crate::check::Check;
use crate::figures::{Figure, Support};
use crate::report::{LaneReport, Report};

/// A gap of so many times the 99th percentile is a stall.
const STALL: u64 = 10;

/// Shorter gaps are told of, but are no stall.
const STALL_NS_MIN: u64 = 10_000_000;

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
        if let Some(ceiling) = &self.self_test {
            writeln!(out, "{}", ceiling.line())?;
        }
        if self.clock == "batch" {
            writeln!(
                out,
                "Clock: read once for all answers of a wait, so latencies err by as long as those take."
            )?;
        }
        self.write_checks(out)?;
        self.write_loop(out)?;
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
            "  {} connections open, {} made{}{}",
            lane.connections_open,
            lane.connections_opened,
            match lane.connections_refused {
                0 => String::new(),
                refused => format!(", {refused} refused"),
            },
            lane.connect_ns.map_or_else(String::new, |connect| format!(
                " in {} (50 %), {} (99 %), {} (max)",
                duration(connect.p50),
                duration(connect.p99),
                duration(connect.max)
            ))
        )?;
        if let Some(shake) = lane.handshake_ns {
            let (p50, p99) = (duration(shake.p50), duration(shake.p99));
            let (max, resumed) = (duration(shake.max), lane.handshakes_resumed);
            writeln!(
                out,
                "  TLS handshakes in {p50} (50 %), {p99} (99 %), {max} (max); {resumed} resumed a session"
            )?;
        }
        write_latency(out, lane)?;
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
        let account = lane.accounting;
        if account.never_sent + account.shed > 0 {
            writeln!(
                out,
                "  Never sent: {} were still to be sent at the end, {} were given up",
                account.never_sent, account.shed
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
            if let Some(trace) = &self.trace {
                let (file, requests, length_s) = (&trace.file, trace.requests, trace.length_s);
                writeln!(out, "  Trace: {file}, {requests} requests in {length_s:.3} s")?;
            }
        }
        writeln!(out, "Requests/sec: {:10.2}", lane.rate_rps)
    }

    fn write_checks(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.checks.iter().filter(|check| check.passed.is_some()).count();
        let failed: Vec<&Check> =
            self.checks.iter().filter(|check| check.passed == Some(false)).collect();
        writeln!(out, "Self-checks: {} of {asked} passed", asked - failed.len())?;
        for Check { name, lane, value, bound, .. } in failed {
            let lane = lane.and_then(|lane| self.lanes.get(lane));
            let whose = lane.map(|lane| format!(" of {}", lane.url)).unwrap_or_default();
            writeln!(out, "  failed: {name}{whose} is {value:.6}, against {bound}")?;
        }
        Ok(())
    }

    fn write_loop(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lanes.iter().any(|lane| lane.rate_rps_offered.is_some()) {
            return writeln!(
                out,
                "Open loop: latency counts from the time at which a request was to be sent."
            );
        }
        let p99 = self.latency_ns.map_or(0, |latency| latency.p99);
        if self.longest_gap_ns > (p99 * STALL).max(STALL_NS_MIN) {
            return writeln!(
                out,
                "Closed loop: a stall is under-represented here. Nothing was answered for {}, which {} \
                 requests waited through; -R measures what users would see.",
                duration(self.longest_gap_ns),
                self.connections * usize::from(self.pipeline)
            );
        }
        writeln!(
            out,
            "Closed loop: nobody asks while a connection waits, so stalls are under-represented; -R \
             measures what users would see."
        )
    }
}

/// Percentiles with their intervals; in the open loop from both starting points.
fn write_latency(out: &mut fmt::Formatter<'_>, lane: &LaneReport) -> fmt::Result {
    let (Some(latency), Some(service)) = (lane.latency_ns, lane.service_ns) else { return Ok(()) };
    let is_paced = lane.rate_rps_offered.is_some();
    if is_paced {
        writeln!(
            out,
            "  {:<9} {:>12} {:<22} {:>12}",
            "Latency", "intended", "  95 %", "from send"
        )?;
    } else {
        writeln!(out, "  {:<9} {:>12} {:<22}", "Latency", "", "  95 %")?;
    }
    let mut row = |name: &str, value: String, interval: String, service: String| {
        let service = if is_paced { service } else { String::new() };
        let line = format!("    {name:<7} {value:>12}   {interval:<20} {service:>12}");
        writeln!(out, "{}", line.trim_end())
    };
    row("mean", duration(latency.mean), String::new(), duration(service.mean))?;
    for (figure, service) in lane.figures.iter().zip(&lane.service_figures) {
        if figure.support == Support::None {
            continue;
        }
        let high = figure.high_ns.map_or_else(|| "?".to_owned(), duration);
        let few = if figure.support == Support::Few { " few" } else { "" };
        let interval = format!("{} - {high}{few}", duration(figure.low_ns));
        row(&percent(figure.name), bounded(figure), interval, bounded(service))?;
    }
    let max = |answered: u64, waited: u64| {
        let sign = if waited > answered { ">= " } else { "" };
        format!("{sign}{}", duration(answered.max(waited)))
    };
    let service_max = max(service.max, lane.waited_service_ns_max);
    row("max", max(latency.max, lane.waited_ns_max), String::new(), service_max)?;
    if lane.figures.iter().any(|figure| figure.is_lower_bound) {
        writeln!(
            out,
            "  >= is a lower bound: {} requests had no answer in time, and count with the time they waited",
            lane.accounting.timeouts + lane.unanswered
        )?;
        if let Some(estimated) = estimated(&lane.figures) {
            writeln!(out, "  {estimated}")?;
        }
    }
    let untold = lane.figures.iter().find(|figure| figure.support == Support::None);
    if let Some(figure) = untold {
        let name = percent(figure.name);
        writeln!(out, "  {name} and above are not told: fewer than ten answers lie beyond")?;
    }
    Ok(())
}

/// What would be if those without an answer were like the others, of what is told as a bound.
fn estimated(figures: &[Figure]) -> Option<String> {
    let is_told = |figure: &&Figure| figure.is_lower_bound && figure.support != Support::None;
    let bounds: Vec<&Figure> = figures.iter().filter(is_told).collect();
    let known = bounds.iter().filter_map(|figure| Some((figure.name, figure.estimate_ns?)));
    let told: Vec<String> = known
        .map(|(name, estimate_ns)| format!("{} at {}", duration(estimate_ns), percent(name)))
        .collect();
    match (bounds.is_empty(), told.is_empty()) {
        (true, _) => None,
        (false, true) => {
            Some("nobody knows how much more: of the longest waits none had an answer".to_owned())
        }
        (false, false) => {
            let told = told.join(", ");
            Some(format!("if they are like the others (Kaplan and Meier): {told}"))
        }
    }
}

fn percent(name: &str) -> String {
    format!("{} %", name.trim_start_matches('p'))
}

pub(super) fn bounded(figure: &Figure) -> String {
    let sign = if figure.is_lower_bound { ">= " } else { "" };
    format!("{sign}{}", duration(figure.value_ns))
}

pub(super) fn duration(value_ns: u64) -> String {
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
