//! The report as `OpenMetrics` text. Bucket bounds coincide with bounds of histogram bins, so that
//! the counts are exact; there are four per power of two.

use std::fmt::Write as _;

use super::summary::{Report, TargetReport};

/// Binary logarithm of the first bound, in nanoseconds.
const FIRST_BIT: u32 = 10;

/// Binary logarithm of the last bound: 137 seconds.
const LAST_BIT: u32 = 37;

pub(super) fn write(report: &Report) -> String {
    let mut out = String::new();
    for (name, unit, help) in [
        (
            "jissoku_latency_seconds",
            "seconds",
            "Correct responses: from the intended sending to the last byte.",
        ),
        (
            "jissoku_service_seconds",
            "seconds",
            "Correct responses: from the sending to the last byte.",
        ),
    ] {
        let _infallible = write!(out, "# TYPE {name} histogram\n# UNIT {name} {unit}\n");
        let _infallible = writeln!(out, "# HELP {name} {help}");
        for target in &report.targets {
            let bins =
                if name.contains("latency") { &target.latency_bins } else { &target.service_bins };
            histogram(&mut out, name, target, bins);
        }
    }
    out.push_str("# TYPE jissoku_requests counter\n# HELP jissoku_requests How requests ended.\n");
    for target in &report.targets {
        for (outcome, count) in target.accounting.by_outcome() {
            let url = escaped(&target.url);
            let _infallible = writeln!(
                out,
                "jissoku_requests_total{{url=\"{url}\",outcome=\"{outcome}\"}} {count}"
            );
        }
    }
    out.push_str("# TYPE jissoku_connect_errors counter\n");
    out.push_str("# HELP jissoku_connect_errors Failed connection attempts; each is repeated.\n");
    for target in &report.targets {
        let (url, count) = (escaped(&target.url), target.accounting.connect_errors);
        let _infallible = writeln!(out, "jissoku_connect_errors_total{{url=\"{url}\"}} {count}");
    }
    out.push_str("# EOF\n");
    out
}

fn histogram(out: &mut String, name: &str, target: &TargetReport, bins: &[(u64, u64)]) {
    let url = escaped(&target.url);
    let (mut below, mut next) = (0, 0);
    for bit in FIRST_BIT..LAST_BIT {
        for quarter in 0..4 {
            // The largest value of a bin is one below the bound.
            let edge_ns = (1_u64 << bit) + quarter * (1 << (bit - 2));
            while let Some(&(value, count)) = bins.get(next).filter(|(value, _)| *value < edge_ns) {
                debug_assert!(value < edge_ns);
                below += count;
                next += 1;
            }
            let edge = seconds(edge_ns);
            let _infallible = writeln!(out, "{name}_bucket{{url=\"{url}\",le=\"{edge}\"}} {below}");
        }
    }
    let count: u64 = bins.iter().map(|(_, count)| count).sum();
    let sum_ns =
        if name.contains("latency") { target.latency_sum_ns } else { target.service_sum_ns };
    let sum = seconds(sum_ns);
    let _infallible = writeln!(out, "{name}_bucket{{url=\"{url}\",le=\"+Inf\"}} {count}");
    let _infallible = writeln!(out, "{name}_count{{url=\"{url}\"}} {count}");
    let _infallible = writeln!(out, "{name}_sum{{url=\"{url}\"}} {sum}");
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Nanoseconds as decimal seconds, exactly.
fn seconds(value_ns: u64) -> String {
    let (whole, rest) = (value_ns / 1_000_000_000, value_ns % 1_000_000_000);
    let text = format!("{whole}.{rest:09}");
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        assert_eq!(seconds(1_024), "0.000001024");
        assert_eq!(seconds(2_500_000_000), "2.5");
        assert_eq!(seconds(3_000_000_000), "3.0");
    }
}
