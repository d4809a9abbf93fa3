//! Several measurements of one plan in turn: again and again, or with other connections or rates each time.
//!
//! Every one begins anew, with new connections and another seed. The server is not started anew: what it
//! carries over from one to the next is in the figures, and `jissoku compare` is for who does not want that.

use std::fmt::Write as _;

use jissoku_load::report::{Format, Report};
use jissoku_load::{Pace, Plan};
use jissoku_os::signal::Signals;
use serde_json::json;

use super::errand::{Curiosity, Find, carry_out};
use super::wishes::Wishes;
use crate::load::complain;
use crate::units;

/// More measurements than this are nobody's wish.
const POINTS_MAX: u64 = 10_000;

/// What is done several times.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SeriesFlags {
    /// Measure so often, with new connections and another seed each time
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u64,
    /// Measure at rates from A to B requests per second, N of them, each by the same factor above the last
    #[arg(long, value_name = "A:B:N", value_parser = rates, conflicts_with = "rate")]
    sweep: Option<Rates>,
}

// Clap would take a bare `Vec` for an argument that may be given several times.
type Rates = Vec<u64>;

/// One measurement of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    connections: usize,
    rate_rps: Option<u64>,
    repetition: u64,
}

impl SeriesFlags {
    /// The rate of the plan that stands for all.
    pub(super) fn first_rps(&self) -> Option<u64> {
        self.sweep.as_ref().and_then(|rates| rates.first().copied())
    }

    /// What is to be measured, in this order; nothing, if it is one measurement like any other.
    pub(super) fn points(&self, connections: &[usize]) -> Result<Vec<Point>, String> {
        let rates: Vec<Option<u64>> = match &self.sweep {
            None => vec![None],
            Some(rates) => rates.iter().copied().map(Some).collect(),
        };
        let count = (rates.len() * connections.len()) as u64;
        if self.repeat == 0 || count.checked_mul(self.repeat).is_none_or(|all| all > POINTS_MAX) {
            return Err(format!("between 1 and {POINTS_MAX} measurements can be made in turn"));
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
    fn set(self, plan: &mut Plan) {
        plan.connections = self.connections;
        if let Some(rate_rps) = self.rate_rps {
            plan.pace = Pace::Constant { rate_rps };
        }
    }
}

/// Carries all of them out, writes of them, and returns the worst exit code.
pub(super) fn run(points: &[Point], mut plan: Plan, wishes: &Wishes, signals: &Signals) -> u8 {
    let first_seed = plan.seed;
    let mut finds = Vec::new();
    let mut code = 0;
    for point in points {
        point.set(&mut plan);
        if let Err(bad) = plan.check() {
            return complain(&bad.to_string(), 2);
        }
    }
    for (number, point) in (0..).zip(points) {
        point.set(&mut plan);
        plan.seed = first_seed.wrapping_add(number);
        let mut find = match carry_out(&plan, signals, Curiosity::default()) {
            Ok(find) => find,
            Err(code) => return code,
        };
        if find.outcome.interrupted {
            return 130;
        }
        wishes.complete(&mut find.report);
        code = worse(code, wishes.judge(&find.report));
        finds.push((*point, find));
    }
    match wishes.write_all(|format| text(format, &finds)) {
        Ok(()) => code,
        Err(refusal) => complain(&format!("the report cannot be written: {refusal}"), 1),
    }
}

/// What is proven broken counts before what is undecided.
fn worse(one: u8, other: u8) -> u8 {
    let severity = |code: u8| [0, 4, 3, 1, 2].iter().position(|&known| known == code);
    if severity(other) > severity(one) { other } else { one }
}

fn text(format: Format, finds: &[(Point, Find)]) -> Result<String, String> {
    match format {
        Format::Human => Ok(table(finds)),
        Format::Quiet => Ok(String::new()),
        Format::Json => {
            let point = |(point, find): &(Point, Find)| {
                json!({
                    "connections": point.connections,
                    "rate_rps": point.rate_rps,
                    "repetition": point.repetition,
                    "report": find.report,
                })
            };
            let points: Vec<_> = finds.iter().map(point).collect();
            Ok(format!("{}\n", json!({"schema": "jissoku.series/1", "points": points})))
        }
        Format::Benchstat => {
            let mut out = String::new();
            for (_, find) in finds {
                let page = find.report.write_as(format).map_err(|bad| bad.to_string())?;
                let units = |line: &&str| out.is_empty() || line.starts_with("Benchmark");
                let lines: Vec<String> =
                    page.lines().filter(units).map(|line| format!("{line}\n")).collect();
                out.push_str(&lines.concat());
            }
            Ok(out)
        }
        Format::Csv | Format::OpenMetrics | Format::Github => {
            Err("several measurements are told as human, json, benchstat or quiet".to_owned())
        }
    }
}

fn table(finds: &[(Point, Find)]) -> String {
    let mut out = format!(
        "{:>5} {:>11} {:>11} {:>12} {:>11} {:>11} {:>11} {:>9}\n",
        "run", "connections", "offered/s", "answered/s", "p50 ms", "p99 ms", "p99.9 ms", "errors"
    );
    for (point, find) in finds {
        for lane in &find.report.lanes {
            let offered = lane.rate_rps_offered.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
            let cell = |name: &str| {
                let figure = lane.figures.iter().find(|figure| figure.name == name);
                figure.map_or("-".to_owned(), |figure| {
                    let sign = if figure.is_lower_bound { ">=" } else { "" };
                    format!("{sign}{}", milliseconds(figure.value_ns))
                })
            };
            let (half, most, nearly) = (cell("p50"), cell("p99"), cell("p99.9"));
            let errors = lane.accounting.error_fraction() * 100.0;
            let _infallible = writeln!(
                out,
                "{:>5} {:>11} {offered:>11} {:>12.0} {half:>11} {most:>11} {nearly:>11} {errors:>7.3} %{}",
                point.repetition,
                point.connections,
                lane.rate_rps,
                doubt(&find.report),
            );
        }
    }
    out
}

fn doubt(report: &Report) -> &'static str {
    if report.is_doubtful() { "  a self-check failed" } else { "" }
}

fn milliseconds(value_ns: u64) -> String {
    format!("{}.{:03}", value_ns / 1_000_000, value_ns / 1_000 % 1_000)
}

/// `1k:100k:8`.
fn rates(text: &str) -> Result<Rates, String> {
    let bad = || "write it as FROM:TO:STEPS, such as 1k:100k:8".to_owned();
    let parts: Vec<&str> = text.split(':').collect();
    let &[from, to, steps] = parts.as_slice() else { return Err(bad()) };
    let (from, to) = (units::count(from)?, units::count(to)?);
    let steps: u32 = steps.parse().map_err(|_| bad())?;
    if from == 0 || to < from || !(2..=1_000).contains(&steps) {
        return Err(bad());
    }
    let factor = (super::float(to) / super::float(from)).powf(1.0 / f64::from(steps - 1));
    let mut rates: Vec<u64> = (0..steps)
        .map(|step| super::whole(super::float(from) * factor.powi(step.cast_signed())))
        .collect();
    // The ends are as asked for, whatever the powers were rounded to.
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
        let once = SeriesFlags { repeat: 1, sweep: None };
        assert_eq!(once.points(&[64]), Ok(Vec::new()));
        assert_eq!(once.points(&[1, 2]).map(|points| points.len()), Ok(2));
        let all = SeriesFlags { repeat: 2, sweep: Some(vec![10, 20]) };
        let points = all.points(&[1, 4]).expect("they are few");
        let told: Vec<_> = points
            .iter()
            .map(|point| (point.repetition, point.connections, point.rate_rps))
            .collect();
        assert_eq!(told[..3], [(1, 1, Some(10)), (1, 1, Some(20)), (1, 4, Some(10))]);
        assert_eq!((told.len(), told[4].0), (8, 2));
        assert!(SeriesFlags { repeat: 0, sweep: None }.points(&[1]).is_err());
        assert!(SeriesFlags { repeat: u64::MAX, sweep: None }.points(&[1, 2]).is_err());
    }

    #[test]
    fn the_worst_code_is_told() {
        assert_eq!((worse(0, 4), worse(3, 4), worse(4, 3), worse(3, 0)), (4, 3, 3, 3));
    }
}
