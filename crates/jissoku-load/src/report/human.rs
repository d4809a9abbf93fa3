//! The report as text: first the layout familiar from wrk, then notes.

use std::fmt::{self, Write as _};

use super::accounting::{Accounting, rate_text};
use super::summary::{ErrorExampleReport, Report, RequestSpecReport, TargetReport};
use crate::report::percentiles::{Mean, Percentile, Support};
use crate::report::self_check::SelfCheck;

/// Width of the text.
const COLUMNS: usize = 80;

/// With more requests in the cycle, their counts are not listed.
const LISTED_MAX: usize = 16;

/// A gap between responses of this many times the 99th percentile is a stall.
const STALL: u64 = 10;

/// Shorter gaps are not called a stall.
const STALL_NS_MIN: u64 = 10_000_000;

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut page = String::new();
        self.write(&mut page)?;
        out.write_str(&wrapped(&page))
    }
}

impl Report {
    fn write(&self, out: &mut String) -> fmt::Result {
        for target in &self.targets {
            self.write_target(out, target)?;
        }
        let threads = self.threads.len();
        let plural = if threads == 1 { "" } else { "s" };
        if self.requests > 0 {
            let cost_us = self.cpu_s * 1e6 / count(self.requests);
            let busiest =
                self.threads.iter().map(|thread| thread.busy_fraction).fold(0.0, f64::max);
            writeln!(
                out,
                "Load generator: {cost_us:.2} us of CPU per request on {threads} thread{plural}, the busiest \
                 {:.0} % busy; longest time without a response {}",
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
                "Clock: read once per wait, so latencies are off by up to the time of handling its responses."
            )?;
        }
        self.write_checks(out)?;
        self.write_loop(out)?;
        if self.interrupted {
            writeln!(out, "Interrupted: the counts are those until then.")?;
        }
        Ok(())
    }

    fn write_target(&self, out: &mut String, target: &TargetReport) -> fmt::Result {
        writeln!(out, "{} for {:.2} s", target.url, self.duration_s)?;
        writeln!(
            out,
            "  {} connections open, {} established{}{}",
            target.connections_open,
            target.connections_opened,
            match target.connections_refused {
                0 => String::new(),
                refused => format!(", {refused} refused"),
            },
            target.connect_ns.map_or_else(String::new, |connect| format!(
                " in {} (50 %), {} (99 %), {} (max)",
                duration(connect.p50),
                duration(connect.p99),
                duration(connect.max)
            ))
        )?;
        write_handshakes(out, target)?;
        write_latency(out, target)?;
        if let Some(first) = target.first_byte_ns {
            let [p50, p99, max] = [first.p50, first.p99, first.max].map(duration);
            writeln!(out, "  First byte {p50} (50 %), {p99} (99 %), {max} (max)")?;
        }
        writeln!(
            out,
            "  {} requests, {} received, {} sent",
            target.requests,
            bytes(target.bytes_received),
            bytes(target.bytes_sent)
        )?;
        write_outcomes(out, target)?;
        let account = target.accounting;
        if account.never_sent + account.shed > 0 {
            writeln!(
                out,
                "  Never sent: {} were due at the end, {} were dropped",
                account.never_sent, account.shed
            )?;
        }
        if let Some(cpu_ns) = target.watched_cpu_ns.filter(|_| target.requests > 0) {
            let cost_us = count(cpu_ns) / count(target.requests) / 1e3;
            writeln!(out, "  Server: {cost_us:.2} us of CPU per request")?;
        }
        if let (Some(offered), Some(p99), Some(max)) =
            (target.rate_rps_offered, target.lag_ns_p99, target.lag_ns_max)
        {
            let (p99, max) = (duration(p99), duration(max));
            writeln!(
                out,
                "  Offered: {} requests/s; send delay {p99} (p99), {max} (max)",
                rate_text(offered)
            )?;
            if let Some(trace) = &self.trace {
                let (file, requests, length_s) = (&trace.file, trace.requests, trace.length_s);
                writeln!(out, "  Trace: {file}, {requests} requests in {length_s:.3} s")?;
            }
        }
        writeln!(out, "Requests/sec: {:10.2}", target.rate_rps)
    }

    fn write_checks(&self, out: &mut String) -> fmt::Result {
        let applicable = self.checks.iter().filter(|check| check.passed.is_some()).count();
        let failed: Vec<&SelfCheck> =
            self.checks.iter().filter(|check| check.passed == Some(false)).collect();
        writeln!(out, "Self-checks: {} of {applicable} passed", applicable - failed.len())?;
        for SelfCheck { name, target, value, bound, .. } in failed {
            let target = target.and_then(|target| self.targets.get(target));
            let whose = target.map(|target| format!(" of {}", target.url)).unwrap_or_default();
            writeln!(out, "  failed: {name}{whose} is {value:.6}, limit {bound}")?;
        }
        Ok(())
    }

    fn write_loop(&self, out: &mut String) -> fmt::Result {
        if self.targets.iter().any(|target| target.rate_rps_offered.is_some()) {
            return writeln!(
                out,
                "Open loop: latency counts from the time at which a request was due."
            );
        }
        let p99 = self.latency_ns.map_or(0, |latency| latency.p99);
        if self.longest_gap_ns > (p99 * STALL).max(STALL_NS_MIN) {
            return writeln!(
                out,
                "Closed loop: a stall is under-represented. There was no response for {}, during which \
                 only {} requests waited; -R measures what independent users would see.",
                duration(self.longest_gap_ns),
                self.connections * usize::from(self.pipeline)
            );
        }
        writeln!(
            out,
            "Closed loop: no requests are sent while connections wait, so stalls are under-represented; \
             -R measures what independent users would see."
        )
    }
}

/// Requests and responses, errors, and an example of each.
fn write_outcomes(out: &mut String, target: &TargetReport) -> fmt::Result {
    if target.request_specs.len() > 1 {
        write_by_request(out, &target.request_specs)?;
    }
    let errors = target.errors.by_name().into_iter().filter(|(_, count)| *count > 0);
    let errors: Vec<String> = errors.map(|(kind, count)| format!("{kind} {count}")).collect();
    let statuses = target.statuses.iter().map(|(status, count)| format!("{status} {count}"));
    let statuses: Vec<String> = statuses.collect();
    if !statuses.is_empty() {
        writeln!(out, "  Statuses: {}", statuses.join(", "))?;
    }
    if !errors.is_empty() {
        writeln!(out, "  Errors: {}{}", errors.join(", "), target.errors.remedy())?;
    }
    for example in &target.error_examples {
        let (kind, after_s) = (example.kind, count(example.at_ns) / 1e9);
        let mut place = String::new();
        if !target.url.contains(&example.address) {
            place.extend([" at ", &example.address]);
        }
        if let Some(request) = example.request.as_ref().filter(|_| target.request_specs.len() > 1) {
            place.extend([", ", request]);
        }
        writeln!(out, "    {kind} after {after_s:.3} s{place}: {}", example.message)?;
    }
    Ok(())
}

/// How many correct responses each request had; of very many, the range.
fn write_by_request(out: &mut String, specs: &[RequestSpecReport]) -> fmt::Result {
    if specs.len() <= LISTED_MAX {
        let counts = specs.iter().map(|spec| format!("{} {}", spec.name, spec.requests));
        return writeln!(out, "  By request: {}", counts.collect::<Vec<_>>().join(", "));
    }
    let counts = || specs.iter().map(|spec| spec.requests);
    let (fewest, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    writeln!(
        out,
        "  By request: {} requests, {fewest} to {most} correct responses each",
        specs.len()
    )?;
    let mut failed: Vec<_> = specs.iter().filter(|spec| spec.errors > 0).collect();
    failed.sort_by_key(|spec| std::cmp::Reverse(spec.errors));
    if let Some(worst) = failed.first() {
        let (count, name, errors) = (failed.len(), &worst.name, worst.errors);
        writeln!(out, "  Failed requests: {count}, most often {name} ({errors})")?;
    }
    Ok(())
}

/// Breaks lines that are too long, between words.
fn wrapped(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len() + 2;
        let mut rest = line;
        while rest.chars().count() > COLUMNS {
            let fits = rest.char_indices().nth(COLUMNS + 1).map_or(rest.len(), |(at, _)| at);
            let start = rest.len() - rest.trim_start().len();
            let Some(space) = rest[start..fits].rfind(' ').map(|space| start + space) else {
                break;
            };
            page.extend([&rest[..space], "\n"]);
            page.extend([" "].repeat(indent));
            rest = &rest[space + 1..];
        }
        page.extend([rest, "\n"]);
    }
    page
}

impl ErrorExampleReport {
    /// What happened, when and where.
    pub(super) fn line(&self) -> String {
        let Self { kind, at_ns, address, request, message } = self;
        let after_s = count(*at_ns) / 1e9;
        let request = request.as_ref().map(|request| format!(", {request}")).unwrap_or_default();
        format!("{kind} after {after_s:.3} s at {address}{request}: {message}")
    }
}

fn write_handshakes(out: &mut String, target: &TargetReport) -> fmt::Result {
    let Some(handshake) = target.handshake_ns else { return Ok(()) };
    let (p50, p99) = (duration(handshake.p50), duration(handshake.p99));
    let max = duration(handshake.max);
    let (protocol, resumed) = if target.is_websocket {
        ("WebSocket", String::new())
    } else {
        ("TLS", format!("; {} resumed", target.handshakes_resumed))
    };
    writeln!(out, "  {protocol} handshakes in {p50} (50 %), {p99} (99 %), {max} (max){resumed}")
}

/// Percentiles with their confidence intervals; in the open loop, latency and service time.
fn write_latency(out: &mut String, target: &TargetReport) -> fmt::Result {
    let (Some(latency), Some(service)) = (target.latency_ns, target.service_ns) else {
        return Ok(());
    };
    let is_paced = target.rate_rps_offered.is_some();
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
    let mean = |found: Option<Mean>| found.map_or_else(String::new, mean);
    row("mean", mean(target.mean), String::new(), mean(target.service_mean))?;
    for (percentile, service) in target.percentiles.iter().zip(&target.service_percentiles) {
        if percentile.support == Support::None {
            continue;
        }
        let high = percentile.high_ns.map_or_else(|| "?".to_owned(), duration);
        let few = if percentile.support == Support::Few { " few" } else { "" };
        let interval = format!("{} - {high}{few}", duration(percentile.low_ns));
        row(&percent(percentile.name), bounded(percentile), interval, bounded(service))?;
    }
    let max = |answered: u64, waited: u64| {
        let sign = if waited > answered { ">= " } else { "" };
        format!("{sign}{}", duration(answered.max(waited)))
    };
    let service_max = max(service.max, target.waited_service_ns_max);
    row("max", max(latency.max, target.waited_ns_max), String::new(), service_max)?;
    let is_bounded = target.percentiles.iter().any(|percentile| percentile.is_lower_bound);
    if is_bounded || target.mean.is_some_and(|mean| mean.is_lower_bound) {
        let waited = waited_text(&target.accounting);
        writeln!(out, "  >= is a lower bound: {waited} waited")?;
        if let Some(estimated) = estimated(&target.percentiles) {
            writeln!(out, "  {estimated}")?;
        }
    }
    let untold = target.percentiles.iter().find(|percentile| percentile.support == Support::None);
    if let Some(percentile) = untold {
        let name = percent(percentile.name);
        writeln!(out, "  {name} and above are not reported: fewer than ten samples lie beyond")?;
    }
    Ok(())
}

/// The requests whose times are lower bounds; those in flight at the end are no failures.
fn waited_text(accounting: &Accounting) -> String {
    let requests = |count: u64| match count {
        1 => "1 request".to_owned(),
        many => format!("{many} requests"),
    };
    let in_flight = accounting.unanswered;
    let failed = accounting.without_response() - in_flight;
    let mut parts = Vec::new();
    if failed > 0 {
        parts.push(format!("{} had no correct, timely response", requests(failed)));
    }
    if in_flight > 0 {
        let were = if in_flight == 1 { "was" } else { "were" };
        parts.push(format!("{} {were} in flight at the end", requests(in_flight)));
    }
    let them = if failed + in_flight == 1 {
        "counts with the time it"
    } else {
        "count with the time they"
    };
    format!("{}, and {them}", parts.join(", "))
}

/// The Kaplan-Meier estimates of the percentiles that are lower bounds.
fn estimated(percentiles: &[Percentile]) -> Option<String> {
    let is_shown =
        |percentile: &&Percentile| percentile.is_lower_bound && percentile.support != Support::None;
    let bounds: Vec<&Percentile> = percentiles.iter().filter(is_shown).collect();
    let known =
        bounds.iter().filter_map(|percentile| Some((percentile.name, percentile.estimate_ns?)));
    let shown: Vec<String> = known
        .map(|(name, estimate_ns)| format!("{} at {}", duration(estimate_ns), percent(name)))
        .collect();
    match (bounds.is_empty(), shown.is_empty()) {
        (true, _) => None,
        (false, true) => {
            Some("no estimate: none of the requests that waited longest had a response".to_owned())
        }
        (false, false) => {
            let shown = shown.join(", ");
            Some(format!("Kaplan-Meier estimate: {shown}"))
        }
    }
}

fn percent(name: &str) -> String {
    format!("{} %", name.trim_start_matches('p'))
}

pub(super) fn bounded(percentile: &Percentile) -> String {
    at_least(percentile.is_lower_bound, percentile.value_ns)
}

fn mean(found: Mean) -> String {
    at_least(found.is_lower_bound, found.value_ns)
}

fn at_least(is_lower_bound: bool, value_ns: u64) -> String {
    let sign = if is_lower_bound { ">= " } else { "" };
    format!("{sign}{}", duration(value_ns))
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

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn long_lines_are_broken_between_words() {
        let word = "x".repeat(39);
        for (line, expected) in [
            (format!("{word} {word}"), format!("{word} {word}\n")),
            (format!("{word} {word} a b"), format!("{word} {word}\n  a b\n")),
            (format!("  {word} {word}"), format!("  {word}\n    {word}\n")),
            ("y".repeat(90), "y".repeat(90) + "\n"),
            (format!("{word} {word}é ü"), format!("{word} {word}é\n  ü\n")),
        ] {
            assert_eq!(wrapped(&line), expected);
        }
        assert_eq!(wrapped("a\n\n  b\n"), "a\n\n  b\n");
    }
}
