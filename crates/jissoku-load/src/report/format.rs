//! The formats of a report.

use std::fmt::Write as _;
use std::str::FromStr;

use super::summary::{Report, TargetReport};
use crate::engine::histogram::Quantiles;
use crate::report::percentiles::Support;
use crate::report::self_check::SelfCheck;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for a terminal.
    Human,
    /// One JSON object.
    Json,
    /// CSV, one row per metric and target.
    Csv,
    /// OpenMetrics text, as read by Prometheus.
    OpenMetrics,
    /// The input of `benchstat`.
    Benchstat,
    /// A Markdown table, for the summary of a GitHub Actions step.
    Github,
    /// Nothing; the exit code is the result.
    Quiet,
}

/// Names on the command line.
const NAMES: [(&str, Format); 7] = [
    ("human", Format::Human),
    ("json", Format::Json),
    ("csv", Format::Csv),
    ("openmetrics", Format::OpenMetrics),
    ("benchstat", Format::Benchstat),
    ("github", Format::Github),
    ("quiet", Format::Quiet),
];

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("unknown format {text:?}: choose from {}", names.join(", "))
        })
    }
}

impl Report {
    /// Renders the report.
    ///
    /// # Errors
    /// JSON encoding failed.
    pub fn write_as(&self, format: Format) -> Result<String, serde_json::Error> {
        Ok(match format {
            Format::Human => self.to_string(),
            Format::Json => serde_json::to_string(self)? + "\n",
            Format::Csv => csv(self),
            Format::OpenMetrics => super::openmetrics::write(self),
            Format::Benchstat => benchstat(self),
            Format::Github => github(self),
            Format::Quiet => String::new(),
        })
    }
}

fn csv(report: &Report) -> String {
    let mut out =
        String::from("url,metric,value,is_lower_bound,low,high,service,estimate,support\n");
    for target in &report.targets {
        let url = quoted(&target.url);
        let _infallible = writeln!(out, "{url},rate_rps,{:.3},,,,,,", target.rate_rps);
        for (outcome, count) in target.accounting.by_outcome() {
            let _infallible = writeln!(out, "{url},requests_{outcome},{count},,,,,,");
        }
        for (status, count) in &target.statuses {
            let _infallible = writeln!(out, "{url},status_{status},{count},,,,,,");
        }
        for (kind, count) in target.errors.by_name().into_iter().filter(|(_, count)| *count > 0) {
            let _infallible = writeln!(out, "{url},errors_{kind},{count},,,,,,");
        }
        if let Some(Quantiles { p50, p90, p99, max, .. }) = target.first_byte_ns {
            for (name, value) in [("p50", p50), ("p90", p90), ("p99", p99), ("max", max)] {
                let _infallible = writeln!(out, "{url},first_byte_{name}_ns,{value},,,,,,");
            }
        }
        let attempts = target.accounting.connect_errors;
        let _infallible = writeln!(out, "{url},connect_errors,{attempts},,,,,,");
        let both = target.percentiles.iter().zip(&target.service_percentiles);
        for (percentile, service) in both.filter(|(found, _)| found.support != Support::None) {
            let high = percentile.high_ns.map(|high| high.to_string()).unwrap_or_default();
            let estimate =
                percentile.estimate_ns.map(|found| found.to_string()).unwrap_or_default();
            let _infallible = writeln!(
                out,
                "{url},{}_ns,{},{},{},{high},{},{estimate},{}",
                percentile.name,
                percentile.value_ns,
                percentile.is_lower_bound,
                percentile.low_ns,
                service.value_ns,
                if percentile.support == Support::Plenty { "plenty" } else { "few" }
            );
        }
        if let (Some(mean), Some(service)) = (target.mean, target.service_mean) {
            let (value, is_bound, service) = (mean.value_ns, mean.is_lower_bound, service.value_ns);
            let _infallible = writeln!(out, "{url},mean_ns,{value},{is_bound},,,{service},,");
        }
        if let (Some(latency), Some(service)) = (target.latency_ns, target.service_ns) {
            let value = latency.max.max(target.waited_ns_max);
            let is_bound = target.waited_ns_max > latency.max;
            let service = service.max.max(target.waited_service_ns_max);
            let _infallible = writeln!(out, "{url},max_ns,{value},{is_bound},,,{service},,");
        }
    }
    out
}

/// Quotes a CSV field (RFC 4180 section 2).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn benchstat(report: &Report) -> String {
    let mut out = String::from(
        "Unit req/s better=higher\nUnit ns/op better=lower\nUnit cpu-ns/op better=lower\n",
    );
    let _infallible = writeln!(out, "kernel: {}\ncpu: {}", report.host.kernel, report.host.cpu);
    for target in &report.targets {
        let Some(mean) = target.mean.filter(|_| target.requests > 0) else { continue };
        // A slash would end the value of the key (golang.org/x/perf/benchfmt).
        let name = target.url.replace(' ', "_").replace('/', "%2F");
        let (connections, threads) = (report.connections, report.threads.len());
        let _infallible =
            write!(out, "BenchmarkLoad/url={name}/c={connections}-{threads} {}", target.requests);
        benchstat_time(&mut out, "ns/op", mean.value_ns, mean.is_lower_bound);
        let _infallible = write!(out, " {:.2} req/s", target.rate_rps);
        for percentile in &target.percentiles {
            let unit = match percentile.name {
                "p50" => "p50-ns",
                "p99" => "p99-ns",
                _ => continue,
            };
            benchstat_time(&mut out, unit, percentile.value_ns, percentile.is_lower_bound);
        }
        if let Some(cpu_ns) = target.watched_cpu_ns {
            let _infallible = write!(out, " {} cpu-ns/op", cpu_ns / target.requests.max(1));
        }
        out.push('\n');
    }
    out
}

/// A time in its unit. One that is a lower bound has another unit, so that it is not compared with
/// times that are none.
fn benchstat_time(out: &mut String, unit: &str, value_ns: u64, is_lower_bound: bool) {
    let mark = if is_lower_bound { "-or-more" } else { "" };
    let _infallible = write!(out, " {value_ns} {unit}{mark}");
}

fn github(report: &Report) -> String {
    let mut out = String::from(
        "### Load\n\n| URL | requests/s | p50 | p90 | p99 | p99.9 | errors |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for target in &report.targets {
        let cell = |name: &str| percentile(target, name);
        let _infallible = writeln!(
            out,
            "| `{}` | {:.0} | {} | {} | {} | {} | {:.3} % |",
            target.url.replace('|', "\\|"),
            target.rate_rps,
            cell("p50"),
            cell("p90"),
            cell("p99"),
            cell("p99.9"),
            target.accounting.error_fraction() * 100.0
        );
    }
    let examples = report.targets.iter().flat_map(|target| {
        target.error_examples.iter().map(|example| (target.errors.of(example.kind), example))
    });
    for (place, (count, example)) in examples.enumerate() {
        // What a server has sent is shown as code, so that it is no markup.
        let line = example.line().replace('`', "'");
        let gap = if place == 0 { "\n" } else { "" };
        let _infallible = writeln!(out, "{gap}* {count} x `{line}`");
    }
    let failed = report.checks.iter().filter(|check| check.passed == Some(false));
    for check in failed {
        let _infallible = writeln!(
            out,
            "\n**Self-check failed**: {} is {:.6}, limit {}.",
            check.name, check.value, check.bound
        );
    }
    out
}

/// A workflow command for each failed self-check, which GitHub shows beside the step.
pub fn annotations(report: &Report) -> String {
    let failed = report.checks.iter().filter(|check| check.passed == Some(false));
    let line = |check: &SelfCheck| {
        let SelfCheck { name, value, bound, .. } = check;
        format!("::warning title=jissoku load::self-check {name} is {value:.6}, limit {bound}\n")
    };
    failed.map(line).collect::<Vec<_>>().concat()
}

fn percentile(target: &TargetReport, name: &str) -> String {
    match target.percentiles.iter().find(|percentile| percentile.name == name) {
        Some(percentile) if percentile.support != Support::None => {
            super::human::bounded(percentile)
        }
        _ => "-".to_owned(),
    }
}
