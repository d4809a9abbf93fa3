//! The report as `OpenMetrics` text. Bucket bounds coincide with bounds of histogram bins, so that
//! the counts are exact; there are four per power of two.

use std::fmt::Write as _;

use super::summary::{Report, TargetReport};

/// Binary logarithm of the first bound, in nanoseconds.
const FIRST_BIT: u32 = 10;

/// Binary logarithm of the last bound: 137 seconds.
const LAST_BIT: u32 = 37;

/// A distribution: its bins, and the sum of its values.
struct Distribution<'a>(&'a [(u64, u64)], u64);

struct Times {
    name: &'static str,
    help: &'static str,
    of: fn(&TargetReport) -> Distribution<'_>,
}

const TIMES: [Times; 4] = [
    Times {
        name: "jissoku_latency_seconds",
        help: "Correct responses: from the intended sending to the last byte. Other requests are in \
               jissoku_waited_seconds.",
        of: |target| Distribution(&target.latency_bins, target.latency_sum_ns),
    },
    Times {
        name: "jissoku_service_seconds",
        help: "Correct responses: from the sending to the last byte.",
        of: |target| Distribution(&target.service_bins, target.service_sum_ns),
    },
    Times {
        name: "jissoku_first_byte_seconds",
        help: "Correct responses: from the sending to the first byte.",
        of: |target| Distribution(&target.first_byte_bins, target.first_byte_sum_ns),
    },
    Times {
        name: "jissoku_waited_seconds",
        help: "Requests without a correct, timely response: from the intended sending to the failure \
               or the end, a lower bound of their latency.",
        of: |target| Distribution(&target.waited_bins, target.waited_sum_ns),
    },
];

pub(super) fn write(report: &Report) -> String {
    let mut out = String::new();
    for Times { name, help, of } in TIMES {
        let _infallible = write!(out, "# TYPE {name} histogram\n# UNIT {name} seconds\n");
        let _infallible = writeln!(out, "# HELP {name} {help}");
        for target in &report.targets {
            histogram(&mut out, name, target, of(target));
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
    out.push_str(
        "# TYPE jissoku_responses counter\n# HELP jissoku_responses Responses by status.\n",
    );
    for target in &report.targets {
        let url = escaped(&target.url);
        for (status, count) in &target.statuses {
            let _infallible = writeln!(
                out,
                "jissoku_responses_total{{url=\"{url}\",status=\"{status}\"}} {count}"
            );
        }
    }
    out.push_str("# TYPE jissoku_errors counter\n# HELP jissoku_errors Errors by kind.\n");
    for target in &report.targets {
        let url = escaped(&target.url);
        for (kind, count) in target.errors.by_name() {
            let _infallible =
                writeln!(out, "jissoku_errors_total{{url=\"{url}\",kind=\"{kind}\"}} {count}");
        }
    }
    out.push_str("# EOF\n");
    out
}

fn histogram(
    out: &mut String,
    name: &str,
    target: &TargetReport,
    Distribution(bins, sum_ns): Distribution<'_>,
) {
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
