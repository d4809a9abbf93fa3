//! `jissoku wrk` and `jissoku wrk2`: the flags of wrk 4 and wrk2, and the shape of their reports.

use std::io::{self, Write as _};

use jissoku_load::Histogram;
use jissoku_load::report::{LaneReport, hgrm};

use super::spread::Spread;
use super::{float, measure, notes};
use crate::load::complain;
use crate::load::errand::Find;

/// Percentiles that wrk2 tells, in thousandths.
const PERCENTILES: [u64; 8] = [50_000, 75_000, 90_000, 99_000, 99_900, 99_990, 99_999, 100_000];

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
    rate: Option<String>,
    /// Header field 'Name: value'; may be given several times
    #[arg(short = 'H', long = "header")]
    headers: Vec<String>,
    /// Print the distribution of latencies
    #[arg(short = 'L', long)]
    latency: bool,
    /// Print the distribution of latencies from the actual sending too (wrk2)
    #[arg(short = 'U', long = "u_latency")]
    uncorrected: bool,
    /// Time-out of a request
    #[arg(long, default_value = "2s")]
    timeout: String,
    /// A script in Lua, which is not run here
    #[arg(short, long)]
    script: Option<String>,
}

impl Wrk {
    /// As wrk2, which has no closed loop.
    pub(crate) fn run_paced(self) -> u8 {
        if self.rate.is_none() {
            return complain("wrk2 sends at a rate: give -R (requests per second)", 2);
        }
        self.run()
    }

    pub(crate) fn run(self) -> u8 {
        if let Some(script) = &self.script {
            let refusal = format!(
                "{script} is a script for wrk, and no Lua is run here: see --raw of jissoku load"
            );
            return complain(&refusal, 2);
        }
        let find = match measure(&self.translate()) {
            Ok((_, find)) => find,
            Err(code) => return code,
        };
        let page = self.page(&find);
        if io::stdout().write_all(page.as_bytes()).is_err() {
            return 1;
        }
        match (find.outcome.interrupted, find.report.nothing_measured()) {
            (true, _) => 130,
            (false, Some(sentence)) => complain(&sentence, 1),
            (false, None) => 0,
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

    fn page(&self, find: &Find) -> String {
        let (Some(lane), Some(counted)) = (find.report.lanes.first(), find.outcome.lanes.first())
        else {
            return String::new();
        };
        let mut page = vec![format!(
            "Running {} test @ {}\n  {} threads and {} connections\n",
            self.duration, self.url, self.threads, self.connections
        )];
        page.push("  Thread Stats   Avg      Stdev     Max   +/- Stdev\n".to_owned());
        let latencies = Spread::of(counted.tally.latency.bins());
        page.push(row("Latency", latencies, time));
        let threads = self.threads as u64;
        let rates = counted.tally.per_second.iter().map(|count| (count / threads, 1));
        page.push(row("Req/Sec", Spread::of(rates), |value| metric(value, 1000.0, "")));
        let (is_paced, tally) = (self.rate.is_some(), &counted.tally);
        if is_paced && (self.latency || self.uncorrected) {
            page.push(spectrum("Recorded Latency", &tally.latency));
        } else if self.latency {
            page.push(distribution(&tally.latency));
        }
        if is_paced && self.uncorrected {
            let what = "Uncorrected Latency (measured without taking delayed starts into account)";
            page.push(spectrum(what, &tally.service));
        }
        let read = metric(float(lane.bytes_received), 1024.0, "B");
        let seconds = find.report.duration_s;
        page.push(format!("  {} requests in {seconds:.2}s, {read} read\n", lane.requests));
        page.push(complaints(lane));
        page.push(format!("Requests/sec: {:>10.2}\n", lane.rate_rps));
        let transfer = float(lane.bytes_received) / seconds.max(f64::MIN_POSITIVE);
        page.push(format!("Transfer/sec: {:>12}\n", metric(transfer, 1024.0, "B")));
        page.push(notes(&find.report));
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

/// As wrk2 tells latencies, with all percentiles below the usual ones.
fn spectrum(what: &str, latency: &Histogram) -> String {
    let mut text = vec![format!("  Latency Distribution (HdrHistogram - {what})\n")];
    for thousandths in PERCENTILES {
        let rank = u128::from(latency.count()) * u128::from(thousandths);
        let rank = u64::try_from(rank.div_ceil(100_000)).unwrap_or(u64::MAX);
        let value = if latency.count() == 0 { 0 } else { latency.at_rank(rank.max(1)) };
        let percent = float(thousandths) / 1e3;
        text.push(format!("{percent:>7.3}%{:>10}\n", time(float(value))));
    }
    text.push(format!("\n  Detailed Percentile spectrum:\n{}", hgrm::percentiles(latency)));
    text.push("----------------------------------------------------------\n".to_owned());
    text.concat()
}

fn complaints(lane: &LaneReport) -> String {
    let faults = lane.errors;
    let mut text = Vec::new();
    let reads = faults.read + faults.closed + faults.malformed;
    if faults.connect + reads + faults.write + faults.timeout > 0 {
        text.push(format!(
            "  Socket errors: connect {}, read {reads}, write {}, timeout {}\n",
            faults.connect, faults.write, faults.timeout
        ));
    }
    if faults.status > 0 {
        text.push(format!("  Non-2xx or 3xx responses: {}\n", faults.status));
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
fn time(value_ns: f64) -> String {
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
    fn a_spectrum_has_the_percentiles_of_wrk2() {
        let mut latency = Histogram::new();
        latency.record_many(1_000_000, 99);
        latency.record_many(2_000_000, 1);
        let text = spectrum("Recorded Latency", &latency);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  Latency Distribution (HdrHistogram - Recorded Latency)");
        assert_eq!((lines[1], lines[4]), (" 50.000%    1.00ms", " 99.000%    1.00ms"));
        assert_eq!((lines[5], lines[8]), (" 99.900%    2.00ms", "100.000%    2.00ms"));
        assert_eq!(lines[10], "  Detailed Percentile spectrum:");
        assert!(lines[11].contains("TotalCount"), "{text}");
        assert!(spectrum("x", &Histogram::new()).contains("100.000%    0.00us"));
    }

    #[test]
    fn a_row_has_the_columns_of_wrk() {
        let spread = Spread::of([(10, 2), (20, 2)].into_iter());
        let row = row("Req/Sec", spread, |value| metric(value, 1000.0, ""));
        assert_eq!(row, "    Req/Sec      15.00      5.00    20.00   100.00%\n");
    }
}
