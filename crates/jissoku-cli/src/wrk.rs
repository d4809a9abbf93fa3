//! `jissoku wrk`: accepts the options of wrk and wrk2, runs `jissoku load` with them, and prints the
//! report in wrk's layout.

use std::io::{self, Write as _};

use clap::Parser;
use jissoku_load::Percentile;
use jissoku_load::report::{Report, TargetReport};

use crate::load::Load;
use crate::load::error::Failure;
use crate::load::measure::{self, Measurement};
use crate::load::progress::ProgressOptions;
use crate::{units, usage};

/// Accepts the options of wrk and wrk2, and prints a report in wrk's layout
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of wrk's command line")]
pub(crate) struct Wrk {
    /// `http(s)://HOST:PORT/PATH`
    #[arg(required_unless_present = "version")]
    url: Option<String>,
    /// Open connections
    #[arg(short, long, value_name = "N", value_parser = units::count, default_value = "10")]
    connections: u64,
    /// Worker threads
    #[arg(short, long, value_name = "N", value_parser = units::count, default_value = "2")]
    threads: u64,
    /// Length of the measurement window
    #[arg(short, long, default_value = "10s")]
    duration: String,
    /// Requests per second (wrk2) [default: closed loop]
    #[arg(short = 'R', long)]
    rate: Option<String>,
    /// Header field 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<String>,
    /// Print latency percentiles
    #[arg(short = 'L', long)]
    latency: bool,
    /// Print also the latencies from the actual send times, as wrk2 does: without the time that
    /// requests were late
    #[arg(short = 'U', long = "u_latency")]
    uncorrected: bool,
    /// Of wrk2: the latency of whole batches; here each response has its own
    #[arg(short = 'B', long = "batch_latency")]
    batch_latency: bool,
    /// Timeout of a request; a number without a unit is in seconds
    #[arg(short = 'T', long, default_value = "2s")]
    timeout: String,
    /// Print the version
    #[arg(short, long)]
    version: bool,
    /// A Lua script; not supported
    #[arg(short, long, value_name = "FILE")]
    script: Option<String>,
}

/// The options of `jissoku load`.
#[derive(Debug, Parser)]
#[command(name = "jissoku load")]
struct Translated {
    #[command(flatten)]
    load: Load,
}

impl Wrk {
    pub(crate) fn run(&self) -> u8 {
        if self.version {
            let text = concat!("jissoku ", env!("CARGO_PKG_VERSION"), ", in place of wrk\n");
            return u8::from(io::stdout().write_all(text.as_bytes()).is_err());
        }
        if let Some(script) = &self.script {
            let message =
                format!("{script}: Lua scripts are not supported; see jissoku load --raw");
            return Failure::new(message, 2).print("wrk");
        }
        match self.measure() {
            Ok(Measurement { outcome, report, .. }) => {
                if io::stdout().write_all(self.render(&report).as_bytes()).is_err() {
                    return 1;
                }
                match report.nothing_measured() {
                    _ if outcome.interrupted => 130,
                    Some(message) => Failure::new(message, 1).print("wrk"),
                    None => 0,
                }
            }
            Err(code) => code,
        }
    }

    /// Runs `jissoku load`. On failure the error is already on stderr; `Err` is the process exit
    /// code.
    fn measure(&self) -> Result<Measurement, u8> {
        let translated = Translated::try_parse_from(self.translate())
            .map_err(|refusal| usage::print("jissoku wrk", &refusal))?;
        run_load(translated.load).map_err(|failure| failure.print("wrk"))
    }

    /// The command line of `jissoku load`. Like wrk, it counts from the first request, verifies no
    /// body and accepts every certificate.
    fn translate(&self) -> Vec<String> {
        let mut arguments = vec![
            "jissoku load".to_owned(),
            format!("--connections={}", self.connections),
            format!("--threads={}", self.threads),
            format!("--duration={}", in_seconds(&self.duration)),
            format!("--timeout={}", in_seconds(&self.timeout)),
            "--warmup=0".to_owned(),
            "--verify=none".to_owned(),
        ];
        arguments.extend(self.rate.iter().map(|rate| format!("--rate={rate}")));
        arguments.extend(self.headers.iter().map(|header| format!("--header={header}")));
        arguments.extend(self.url().starts_with("https:").then(|| "--insecure".to_owned()));
        arguments.push(self.url().to_owned());
        arguments
    }

    fn url(&self) -> &str {
        self.url.as_deref().unwrap_or_default()
    }

    fn render(&self, report: &Report) -> String {
        let Some(target) = report.targets.first() else { return String::new() };
        let Self { duration, threads, connections, .. } = self;
        let url = self.url();
        let per_thread = target.per_second.iter().map(|count| (count / threads, 1));
        let received = float(target.bytes_received);
        let mut page = vec![
            format!("Running {duration} test @ {url}\n"),
            format!("  {threads} threads and {connections} connections\n"),
            "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n".to_owned(),
            latency_row(target),
            row("Req/Sec", &per_thread.collect::<Vec<_>>(), |value| metric(value, 1000.0, "")),
        ];
        if self.latency || self.uncorrected {
            page.push(percentiles("Latency Distribution", &target.percentiles));
        }
        if self.uncorrected {
            let title = "Latency Distribution, uncorrected";
            page.push(percentiles(title, &target.service_percentiles));
        }
        page.extend([
            format!("  {} requests in {:.2}s, ", target.requests, report.duration_s),
            format!("{} read\n", metric(received, 1024.0, "B")),
            errors(target),
            format!("Requests/sec: {:>10.2}\n", target.rate_rps),
        ]);
        let transfer_rate = received / report.duration_s.max(f64::MIN_POSITIVE);
        page.push(format!("Transfer/sec: {:>12}\n", metric(transfer_rate, 1024.0, "B")));
        let failed = report.checks.iter().filter(|check| check.passed == Some(false));
        page.extend(failed.map(|check| format!("jissoku: self-check {} failed\n", check.name)));
        page.concat()
    }
}

fn run_load(load: Load) -> Result<Measurement, Failure> {
    let plan = load.plan().map_err(|refusal| Failure::new(refusal, 2))?;
    measure::run_plan(&plan, &measure::catch_signals()?, ProgressOptions::default())
}

/// A time of wrk: a number without a unit is in seconds.
fn in_seconds(text: &str) -> String {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    if is_number { format!("{text}s") } else { text.to_owned() }
}

/// Requests without a response in time count with the time they were waited for: the value is a
/// lower bound then.
fn percentiles(title: &str, percentiles: &[Percentile]) -> String {
    let wanted = ["p50", "p75", "p90", "p99"];
    let found = percentiles.iter().filter(|found| wanted.contains(&found.name));
    let lines = found.map(|found| {
        let bound = if found.is_lower_bound { "  or more" } else { "" };
        format!("    {}%  {:>7}{bound}\n", &found.name[1..], time(float(found.value_ns)))
    });
    [format!("  {title}\n")].into_iter().chain(lines).collect()
}

fn errors(target: &TargetReport) -> String {
    let found = target.errors;
    let (connect, write, timeout) = (found.connect, found.write, found.timeout);
    // wrk verifies no length: one that is wrong is that of a response that was cut off.
    let read = found.read + found.closed + found.malformed + found.length;
    let mut lines = Vec::new();
    if connect + read + write + timeout > 0 {
        lines.push(format!(
            "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}\n"
        ));
    }
    if found.status > 0 {
        lines.push(format!("  Non-2xx or 3xx responses: {}\n", found.status));
    }
    lines.concat()
}

/// As [`row`], of all requests: those without a response in time as in [`percentiles`].
fn latency_row(target: &TargetReport) -> String {
    let bins = [target.latency_bins.as_slice(), &target.waited_bins].concat();
    let row = row("Latency", &bins, time);
    match target.mean {
        Some(mean) if mean.is_lower_bound => format!("{}  or more\n", row.trim_end()),
        _ => row,
    }
}

/// Mean, standard deviation, maximum, and the percentage of values within one standard deviation,
/// of values with their counts.
fn row(name: &str, bins: &[(u64, u64)], show: impl Fn(f64) -> String) -> String {
    let bins: Vec<(f64, f64)> = bins.iter().map(|bin| (float(bin.0), float(bin.1))).collect();
    let count = sum(bins.iter().map(|(_, count)| *count)).max(1.0);
    let mean = sum(bins.iter().map(|(value, count)| value * count)) / count;
    let squares = bins.iter().map(|(value, count)| (value - mean).powi(2) * count);
    let deviation = (sum(squares) / count).sqrt();
    let within = bins.iter().filter(|(value, _)| (value - mean).abs() <= deviation);
    let within = sum(within.map(|(_, count)| *count)) / count * 100.0;
    let max = show(bins.iter().map(|(value, _)| *value).fold(0.0, f64::max));
    let (mean, deviation) = (show(mean), show(deviation));
    format!("    {name:<10}{mean:>8} {deviation:>9} {max:>8} {within:>8.2}%\n")
}

/// The sum of floats; that of [`Iterator::sum`] is -0.0 for none.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// Formats nanoseconds in wrk's units.
fn time(value_ns: f64) -> String {
    match value_ns {
        ..1e6 => format!("{:.2}us", value_ns / 1e3),
        1e6..1e9 => format!("{:.2}ms", value_ns / 1e6),
        _ => format!("{:.2}s", value_ns / 1e9),
    }
}

/// Formats a number with the largest prefix that leaves at least 1.
fn metric(value: f64, base: f64, unit: &str) -> String {
    let kilo = if base < 1024.0 { "k" } else { "K" };
    let (mut value, mut prefix) = (value, "");
    for next in [kilo, "M", "G"] {
        if value >= base {
            (value, prefix) = (value / base, next);
        }
    }
    format!("{value:.2}{prefix}{unit}")
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_in_wrk() {
        assert_eq!((time(635_910.0), time(12_920_000.0)), ("635.91us".into(), "12.92ms".into()));
        assert_eq!(metric(56_200.0, 1000.0, ""), "56.20k");
        assert_eq!(metric(1024.0 * 1024.0 * 2.5, 1024.0, "B"), "2.50MB");
        assert_eq!(metric(12.0, 1024.0, "B"), "12.00B");
    }

    #[test]
    fn a_row_has_the_columns_of_wrk() {
        let show = |value| metric(value, 1000.0, "");
        let filled = "    Req/Sec      15.00      5.00    20.00   100.00%\n";
        assert_eq!(row("Req/Sec", &[(10, 2), (20, 2)], show), filled);
        let empty = "    Req/Sec       0.00      0.00     0.00     0.00%\n";
        assert_eq!(row("Req/Sec", &[], show), empty);
    }
}
