//! `jissoku wrk`: the flags of wrk 4 and wrk2, and the shape of their report.

use jissoku_load::report::TargetReport;
use jissoku_load::{Histogram, TargetOutcome};

use super::answers::everyone;
use super::spread::Spread;
use super::{Keep, finish, float, notes, run_load};
use crate::load::measure::Measurement;
use crate::load::print_error;

/// Takes the flags of wrk and wrk2, and reports in their shape.
#[derive(Debug, clap::Args)]
pub(crate) struct Wrk {
    /// Where to, as `http://HOST:PORT/PATH`
    url: String,
    /// Connections in all
    #[arg(short, long, default_value_t = 10)]
    connections: usize,
    /// Threads
    #[arg(short, long, default_value_t = 2)]
    threads: usize,
    /// Length of the measurement
    #[arg(short, long, default_value = "10s")]
    duration: String,
    /// Requests per second (wrk2)
    #[arg(short = 'R', long)]
    pub(super) rate: Option<String>,
    /// Header field 'Name: value'; may be given several times
    #[arg(short = 'H', long = "header")]
    headers: Vec<String>,
    /// Print the distribution of latencies
    #[arg(short = 'L', long)]
    pub(super) latency: bool,
    /// Time-out of a request
    #[arg(long, default_value = "2s")]
    timeout: String,
    /// A script in Lua, which is not run here
    #[arg(short, long)]
    script: Option<String>,
}

impl Wrk {
    pub(crate) fn run(self) -> u8 {
        let is_told = self.latency;
        let told = |counted: &TargetOutcome| {
            if is_told { distribution(&everyone(counted)) } else { String::new() }
        };
        self.report(told, &[])
    }

    /// Measures, and tells the latencies as `told` does.
    pub(super) fn report(
        &self,
        told: impl Fn(&TargetOutcome) -> String,
        particular: &[String],
    ) -> u8 {
        if let Some(script) = &self.script {
            let refusal = format!(
                "{script} is a script for wrk, and no Lua is run here: see --raw of jissoku load"
            );
            return print_error(&refusal, 2);
        }
        match run_load(&self.translate(), Keep::Counts) {
            Ok((_, measurement)) => {
                finish(&self.page(&measurement, told, particular), &measurement)
            }
            Err(code) => code,
        }
    }

    fn translate(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--connections={}", self.connections),
            format!("--threads={}", self.threads),
            format!("--duration={}", self.duration),
            format!("--timeout={}", self.timeout),
            "--warmup=0".to_owned(),
            "--verify=none".to_owned(),
        ];
        arguments.extend(self.rate.iter().map(|rate| format!("--rate={rate}")));
        arguments.extend(self.headers.iter().map(|header| format!("--header={header}")));
        if self.url.starts_with("https:") {
            // wrk believes every certificate.
            arguments.push("--insecure".to_owned());
        }
        arguments.push(self.url.clone());
        arguments
    }

    fn page(
        &self,
        measurement: &Measurement,
        told: impl Fn(&TargetOutcome) -> String,
        particular: &[String],
    ) -> String {
        let (Some(target), Some(counted)) =
            (measurement.report.targets.first(), measurement.outcome.targets.first())
        else {
            return String::new();
        };
        let mut page = vec![format!(
            "Running {} test @ {}\n  {} threads and {} connections\n",
            self.duration, self.url, self.threads, self.connections
        )];
        page.push("  Thread Stats   Avg      Stdev     Max   +/- Stdev\n".to_owned());
        let latencies = Spread::of(counted.counters.latency.bins());
        page.push(row("Latency", latencies, time));
        let threads = self.threads as u64;
        let rates = counted.counters.per_second.iter().map(|count| (count / threads, 1));
        page.push(row("Req/Sec", Spread::of(rates), |value| metric(value, 1000.0, "")));
        page.push(told(counted));
        let read = metric(float(target.bytes_received), 1024.0, "B");
        let seconds = measurement.report.duration_s;
        page.push(format!("  {} requests in {seconds:.2}s, {read} read\n", target.requests));
        page.push(complaints(target));
        page.push(format!("Requests/sec: {:>10.2}\n", target.rate_rps));
        let transfer = float(target.bytes_received) / seconds.max(f64::MIN_POSITIVE);
        page.push(format!("Transfer/sec: {:>12}\n", metric(transfer, 1024.0, "B")));
        page.push(notes(&measurement.report, particular));
        page.concat()
    }
}

fn distribution(latency: &Histogram) -> String {
    let mut text = vec!["  Latency Distribution\n".to_owned()];
    for percent in [50, 75, 90, 99] {
        let value = if latency.count() == 0 { 0 } else { latency.quantile(percent * 10) };
        text.push(format!("    {percent}%  {:>7}\n", time(float(value))));
    }
    text.concat()
}

fn complaints(target: &TargetReport) -> String {
    let errors = target.errors;
    let mut text = Vec::new();
    let reads = errors.read + errors.closed + errors.malformed;
    if errors.connect + reads + errors.write + errors.timeout > 0 {
        text.push(format!(
            "  Socket errors: connect {}, read {reads}, write {}, timeout {}\n",
            errors.connect, errors.write, errors.timeout
        ));
    }
    if errors.status > 0 {
        text.push(format!("  Non-2xx or 3xx responses: {}\n", errors.status));
    }
    text.concat()
}

/// A line of the table on top.
fn row(name: &str, spread: Spread, show: impl Fn(f64) -> String) -> String {
    let Spread { mean, deviation, max, within_percent: within, .. } = spread;
    let (mean, deviation, max) = (show(mean), show(deviation), show(max));
    format!("    {name:<10}{mean:>8} {deviation:>9} {max:>8} {within:>8.2}%\n")
}

/// Nanoseconds, in wrk's units.
pub(super) fn time(value_ns: f64) -> String {
    match value_ns {
        ..1e6 => format!("{:.2}us", value_ns / 1e3),
        1e6..1e9 => format!("{:.2}ms", value_ns / 1e6),
        _ => format!("{:.2}s", value_ns / 1e9),
    }
}

/// A number with the multiple that leaves the fewest digits.
fn metric(value: f64, base: f64, unit: &str) -> String {
    let signs = if base < 1024.0 { ["", "k", "M", "G"] } else { ["", "K", "M", "G"] };
    let mut value = value;
    let mut sign = signs[0];
    for next in &signs[1..] {
        if value < base {
            break;
        }
        value /= base;
        sign = next;
    }
    format!("{value:.2}{sign}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_wrk_shows_them() {
        assert_eq!(time(635_910.0), "635.91us");
        assert_eq!(time(12_920_000.0), "12.92ms");
        assert_eq!(metric(56_200.0, 1000.0, ""), "56.20k");
        assert_eq!(metric(1024.0 * 1024.0 * 2.5, 1024.0, "B"), "2.50MB");
        assert_eq!(metric(12.0, 1024.0, "B"), "12.00B");
    }

    #[test]
    fn a_row_has_the_columns_of_wrk() {
        let spread = Spread::of([(10, 2), (20, 2)].into_iter());
        let row = row("Req/Sec", spread, |value| metric(value, 1000.0, ""));
        assert_eq!(row, "    Req/Sec      15.00      5.00    20.00   100.00%\n");
    }
}
