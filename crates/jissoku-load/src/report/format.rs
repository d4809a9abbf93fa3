//! The shapes a report can be written in.

use std::fmt::Write as _;
use std::str::FromStr;

use crate::check::Check;
use crate::report::{LaneReport, Report};

/// A shape of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A page for people.
    Human,
    /// One JSON object.
    Json,
    /// One row for each percentile of each lane.
    Csv,
    /// Prometheus and its kin read it.
    OpenMetrics,
    /// What `benchstat` compares.
    Benchstat,
    /// A table in Markdown, for the summary of a GitHub step.
    Github,
    /// Nothing: the exit code says it all.
    Quiet,
}

/// Names as people write them.
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
            format!("there is no format {text:?}: choose from {}", names.join(", "))
        })
    }
}

impl Report {
    /// The report in a format.
    ///
    /// # Errors
    /// It could not be encoded, which only JSON can fail at.
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
        String::from("url,figure,value_ns,is_lower_bound,low_ns,high_ns,service_ns,estimate_ns\n");
    for lane in &report.lanes {
        let url = quoted(&lane.url);
        for (figure, service) in lane.figures.iter().zip(&lane.service_figures) {
            let high = figure.high_ns.map(|high| high.to_string()).unwrap_or_default();
            let estimate = figure.estimate_ns.map(|found| found.to_string()).unwrap_or_default();
            let _infallible = writeln!(
                out,
                "{url},{},{},{},{},{high},{},{estimate}",
                figure.name,
                figure.value_ns,
                figure.is_lower_bound,
                figure.low_ns,
                service.value_ns
            );
        }
        if let (Some(latency), Some(service)) = (lane.latency_ns, lane.service_ns) {
            for (name, value, service) in
                [("mean", latency.mean, service.mean), ("max", latency.max, service.max)]
            {
                let _infallible = writeln!(out, "{url},{name},{value},false,,,{service},");
            }
        }
    }
    out
}

/// RFC 4180 section 2: quotes around what holds a comma, a quote or a line's end; quotes doubled.
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
    for lane in &report.lanes {
        let Some(latency) = lane.latency_ns else { continue };
        let name: String =
            lane.url.chars().map(|sign| if sign == ' ' { '_' } else { sign }).collect();
        let _infallible = write!(
            out,
            "BenchmarkLoad/url={name}/c={}-{} {} {} ns/op {:.2} req/s {} p50-ns {} p99-ns",
            report.connections,
            report.threads.len(),
            lane.requests,
            latency.mean,
            lane.rate_rps,
            latency.p50,
            latency.p99
        );
        if let Some(cpu_ns) = lane.watched_cpu_ns {
            let _infallible = write!(out, " {} cpu-ns/op", cpu_ns / lane.requests.max(1));
        }
        out.push('\n');
    }
    out
}

fn github(report: &Report) -> String {
    let mut out = String::from(
        "### Load\n\n| URL | requests/s | p50 | p90 | p99 | p99.9 | errors |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for lane in &report.lanes {
        let cell = |name: &str| percentile(lane, name);
        let _infallible = writeln!(
            out,
            "| `{}` | {:.0} | {} | {} | {} | {} | {:.3} % |",
            lane.url.replace('|', "\\|"),
            lane.rate_rps,
            cell("p50"),
            cell("p90"),
            cell("p99"),
            cell("p99.9"),
            lane.accounting.error_fraction() * 100.0
        );
    }
    let failed = report.checks.iter().filter(|check| check.passed == Some(false));
    for check in failed {
        let _infallible = writeln!(
            out,
            "\n**Self-check failed**: {} is {:.6}, against {}.",
            check.name, check.value, check.bound
        );
    }
    out
}

/// A line for each self-check that failed, which GitHub shows beside the step that printed it.
#[must_use]
pub fn annotations(report: &Report) -> String {
    let failed = report.checks.iter().filter(|check| check.passed == Some(false));
    let line = |check: &Check| {
        let Check { name, value, bound, .. } = check;
        format!("::warning title=jissoku load::self-check {name} is {value:.6}, against {bound}\n")
    };
    failed.map(line).collect::<Vec<_>>().concat()
}

fn percentile(lane: &LaneReport, name: &str) -> String {
    use crate::figures::Support;
    match lane.figures.iter().find(|figure| figure.name == name) {
        Some(figure) if figure.support != Support::None => super::human::bounded(figure),
        _ => "-".to_owned(),
    }
}
