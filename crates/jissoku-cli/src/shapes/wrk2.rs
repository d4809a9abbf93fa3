//! `jissoku wrk2`: the flags of wrk2, and the shape of its report.

use jissoku_load::report::hgrm;
use jissoku_load::{Histogram, TargetOutcome};

use super::answers::{at, everyone};
use super::float;
use super::wrk::{Wrk, time};
use crate::load::print_error;

/// Under each distribution.
const RULE: &str = "----------------------------------------------------------\n";

/// Takes the flags of wrk2, and reports in its shape.
#[derive(Debug, clap::Args)]
pub(crate) struct Wrk2 {
    #[command(flatten)]
    wrk: Wrk,
    /// Print latencies from the sending on, too
    #[arg(short = 'U', long = "u_latency")]
    uncorrected: bool,
    /// Time batches as one; without a script there are none
    #[arg(short = 'B', long = "batch_latency")]
    batch: bool,
}

impl Wrk2 {
    pub(crate) fn run(self) -> u8 {
        if self.wrk.rate.is_none() {
            return print_error("wrk2 sends at a rate: give -R, in requests per second", 2);
        }
        let (is_told, is_uncorrected) = (self.wrk.latency, self.uncorrected);
        let told = |counted: &TargetOutcome| {
            let mut text = Vec::new();
            if is_told || is_uncorrected {
                text.push(distribution("Recorded Latency", &everyone(counted)));
            }
            if is_uncorrected {
                let mut service = counted.counters.service.clone();
                service.add(&counted.counters.waited_service);
                let title =
                    "Uncorrected Latency (measured without taking delayed starts into account)";
                text.push(format!("\n{}", distribution(title, &service)));
            }
            text.concat()
        };
        let mut particular =
            vec!["there is no calibration: requests count from the first one on".to_owned()];
        if self.batch {
            particular.push("-B: each request is a batch of its own".to_owned());
        }
        self.wrk.report(told, &particular)
    }
}

fn distribution(title: &str, latency: &Histogram) -> String {
    let mut text = vec![format!("  Latency Distribution (HdrHistogram - {title})\n")];
    for parts in [50_000, 75_000, 90_000, 99_000, 99_900, 99_990, 99_999, 100_000] {
        let value = time(float(at(latency, parts)));
        text.push(format!("{:>7.3}% {value:>9}\n", float(parts) / 1e3));
    }
    text.push("\n  Detailed Percentile spectrum:\n".to_owned());
    text.extend(hgrm::percentiles(latency).lines().map(spectral));
    text.push(RULE.to_owned());
    text.concat()
}

/// A line of the plotter's text in the columns that wrk2 gives it.
fn spectral(line: &str) -> String {
    let cells: Vec<&str> = line.split_whitespace().collect();
    match cells[..] {
        ["Value", percentile, count, inverse] => {
            format!("{:>12} {percentile:>12} {count:>12} {inverse:>12}\n", "Value")
        }
        [value, percentile, count] if !line.starts_with('#') => {
            format!("{value:>12} {:>12} {count:>12} {:>12}\n", short(percentile), "inf")
        }
        [value, percentile, count, inverse] if !line.starts_with('#') => {
            format!("{value:>12} {:>12} {count:>12} {inverse:>12}\n", short(percentile))
        }
        _ => format!("{line}\n"),
    }
}

/// Six digits behind the point are enough for wrk2.
fn short(percentile: &str) -> String {
    percentile.parse::<f64>().map_or_else(|_| percentile.to_owned(), |it| format!("{it:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_has_the_lines_of_wrk2() {
        let mut latency = Histogram::new();
        (1..=10_000_u64).for_each(|value| latency.record(value * 1_000));
        let text = distribution("Recorded Latency", &latency);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  Latency Distribution (HdrHistogram - Recorded Latency)");
        assert_eq!(lines[1], " 50.000%    5.00ms");
        assert_eq!(lines[8], "100.000%   10.00ms");
        assert_eq!(lines[10], "  Detailed Percentile spectrum:");
        assert_eq!(lines[11], "       Value   Percentile   TotalCount 1/(1-Percentile)");
        let row: Vec<&str> = lines[13].split_whitespace().collect();
        assert_eq!(row, ["0.001", "0.000100", "1", "1.00"]);
        assert!(text.contains("\n      10.000     1.000000        10000          inf\n"), "{text}");
        assert!(text.contains("\n#[Mean    =        5.0"), "{text}");
        assert!(text.contains("#[Max     =       10.000, Total count    =        10000]"));
        assert_eq!(format!("{}\n", lines[lines.len() - 1]), RULE);
    }

    #[test]
    fn nothing_counted_is_no_reason_to_fail() {
        assert!(distribution("Recorded Latency", &Histogram::new()).contains(" 50.000%    0.00us"));
    }
}
