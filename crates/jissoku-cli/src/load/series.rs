//! Several measurements of one plan: repetitions, numbers of connections, rates.
//!
//! Each has new connections and another seed (`runs.rs`). The server is not restarted, so its state carries
//! over; `jissoku compare` restarts it.

use std::fmt::Write as _;

use jissoku_load::report::{Format, Report, rate_text};
use jissoku_load::{Pace, Plan, Support};
use serde_json::json;

use crate::units;

/// Limit of the number of measurements.
const POINTS_MAX: u64 = 10_000;

/// Options of a series.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SeriesArgs {
    /// Number of repetitions, each with new connections and another seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u64,
    /// Measure at N rates from A to B requests per second, in geometric steps
    #[arg(long, value_name = "A:B:N", value_parser = rates, conflicts_with = "rate")]
    sweep: Option<Rates>,
}

// Clap would treat a bare `Vec` as an argument that may be repeated.
type Rates = Vec<u64>;

/// One measurement of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    connections: usize,
    rate_rps: Option<u64>,
    repetition: u64,
}

impl SeriesArgs {
    /// The rate of the plan.
    pub(super) fn first_rps(&self) -> Option<u64> {
        self.sweep.as_ref().and_then(|rates| rates.first().copied())
    }

    /// The measurements in order; empty if there is only one.
    pub(super) fn points(&self, connections: &[usize]) -> Result<Vec<Point>, String> {
        let rates: Vec<Option<u64>> = match &self.sweep {
            None => vec![None],
            Some(rates) => rates.iter().copied().map(Some).collect(),
        };
        let count = (rates.len() * connections.len()) as u64;
        if self.repeat == 0 || count.checked_mul(self.repeat).is_none_or(|all| all > POINTS_MAX) {
            return Err(format!("a series has between 1 and {POINTS_MAX} measurements"));
        }
        let mut points = Vec::new();
        for repetition in 1..=self.repeat {
            for &connections in connections {
                let point = |&rate_rps: &_| Point { connections, rate_rps, repetition };
                points.extend(rates.iter().map(point));
            }
        }
        if points.len() == 1 {
            points.clear();
        }
        Ok(points)
    }
}

impl Point {
    /// Sets what this measurement changes in the plan.
    pub(super) fn set(self, plan: &mut Plan) {
        plan.connections = self.connections;
        if let Some(rate_rps) = self.rate_rps {
            plan.pace = Pace::constant(rate_rps);
        }
    }
}

/// Refuses a format that has no form for several measurements.
pub(super) fn supports(format: Format) -> Result<(), String> {
    match format {
        Format::Human | Format::Quiet | Format::Json | Format::Benchstat => Ok(()),
        Format::Csv | Format::OpenMetrics | Format::Github => {
            Err("a series supports the formats human, json, benchstat and quiet".to_owned())
        }
    }
}

/// The results as a report in a format.
///
/// # Errors
/// The format has no form for several measurements.
pub(super) fn text(format: Format, results: &[(Point, Report)]) -> Result<String, String> {
    match format {
        Format::Human => Ok(table(results)),
        Format::Quiet => Ok(String::new()),
        Format::Json => {
            let point = |(point, report): &(Point, Report)| {
                json!({
                    "connections": point.connections,
                    "rate_rps": point.rate_rps,
                    "repetition": point.repetition,
                    "report": report,
                })
            };
            let points: Vec<_> = results.iter().map(point).collect();
            Ok(format!("{}\n", json!({"schema": "jissoku.series/1", "points": points})))
        }
        Format::Benchstat => {
            let mut out = String::new();
            for (_, report) in results {
                let page = report.write_as(format).map_err(|bad| bad.to_string())?;
                let units = |line: &&str| out.is_empty() || line.starts_with("Benchmark");
                let lines: Vec<String> =
                    page.lines().filter(units).map(|line| format!("{line}\n")).collect();
                out.push_str(&lines.concat());
            }
            Ok(out)
        }
        Format::Csv | Format::OpenMetrics | Format::Github => {
            supports(format).map(|()| String::new())
        }
    }
}

fn table(results: &[(Point, Report)]) -> String {
    let has_several = results.iter().any(|(_, report)| report.targets.len() > 1);
    let heading = if has_several { "  target" } else { "" };
    let mut out = format!(
        "{:>5} {:>11} {:>11} {:>12} {:>11} {:>11} {:>11} {:>9}{heading}\n",
        "run", "connections", "offered/s", "answered/s", "p50 ms", "p99 ms", "p99.9 ms", "errors"
    );
    for (point, report) in results {
        for target in &report.targets {
            let offered = target.rate_rps_offered.map_or("-".to_owned(), rate_text);
            let cell = |name: &str| {
                let percentile =
                    target.percentiles.iter().find(|percentile| percentile.name == name);
                let supported = percentile.filter(|found| found.support != Support::None);
                supported.map_or("-".to_owned(), |percentile| {
                    let sign = if percentile.is_lower_bound { ">=" } else { "" };
                    format!("{sign}{}", milliseconds(percentile.value_ns))
                })
            };
            let (half, most, nearly) = (cell("p50"), cell("p99"), cell("p99.9"));
            let errors = target.accounting.error_fraction() * 100.0;
            let url = if has_several { format!("  {}", target.url) } else { String::new() };
            let _infallible = writeln!(
                out,
                "{:>5} {:>11} {offered:>11} {:>12.0} {half:>11} {most:>11} {nearly:>11} {errors:>7.3} %{url}{}",
                point.repetition,
                point.connections,
                target.rate_rps,
                doubt(report),
            );
        }
    }
    out
}

fn doubt(report: &Report) -> &'static str {
    if report.has_failed_check() { "  a self-check failed" } else { "" }
}

fn milliseconds(value_ns: u64) -> String {
    format!("{}.{:03}", value_ns / 1_000_000, value_ns / 1_000 % 1_000)
}

/// Parses `1k:100k:8`.
fn rates(text: &str) -> Result<Rates, String> {
    let bad = || "write it as FROM:TO:STEPS, such as 1k:100k:8".to_owned();
    let parts: Vec<&str> = text.split(':').collect();
    let &[from, to, steps] = parts.as_slice() else { return Err(bad()) };
    let (from, to) = (units::count(from)?, units::count(to)?);
    let steps: u32 = steps.parse().map_err(|_| bad())?;
    if from == 0 || to < from || !(2..=1_000).contains(&steps) {
        return Err(bad());
    }
    let factor = (units::float(to) / units::float(from)).powf(1.0 / f64::from(steps - 1));
    let mut rates: Vec<u64> = (0..steps)
        .map(|step| units::whole(units::float(from) * factor.powi(step.cast_signed())))
        .collect();
    // The ends are exact, whatever the powers were rounded to.
    (rates[0], rates[steps as usize - 1]) = (from, to);
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_grow_by_one_factor_and_end_where_they_are_to() {
        assert_eq!(rates("1k:100k:3"), Ok(vec![1_000, 10_000, 100_000]));
        assert_eq!(rates("7:7:2"), Ok(vec![7, 7]));
        for text in ["", "1k:2k", "0:1:2", "2:1:2", "1:2:1", "1:2:x", "1:2:3:4"] {
            assert!(rates(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_series_takes_everything_with_everything() {
        let once = SeriesArgs { repeat: 1, sweep: None };
        assert_eq!(once.points(&[64]), Ok(Vec::new()));
        assert_eq!(once.points(&[1, 2]).map(|points| points.len()), Ok(2));
        let all = SeriesArgs { repeat: 2, sweep: Some(vec![10, 20]) };
        let points = all.points(&[1, 4]).expect("they are few");
        let seen: Vec<_> = points
            .iter()
            .map(|point| (point.repetition, point.connections, point.rate_rps))
            .collect();
        assert_eq!(seen[..3], [(1, 1, Some(10)), (1, 1, Some(20)), (1, 4, Some(10))]);
        assert_eq!((seen.len(), seen[4].0), (8, 2));
        assert!(SeriesArgs { repeat: 0, sweep: None }.points(&[1]).is_err());
        assert!(SeriesArgs { repeat: u64::MAX, sweep: None }.points(&[1, 2]).is_err());
    }
}
