//! `--search`: the highest rate that meets an objective.
//!
//! The rate doubles, or grows by --step, until the objective is violated; then the gap between the
//! highest rate that met it and the lowest that violated it is bisected geometrically. A rate
//! counts as met only if the requests were actually sent. An undecided objective (too few
//! responses) counts as violated; before any rate has met it, it ends the search.

use std::io::{self, Write as _};

use jissoku_load::{Pace, Plan, Slo, SloResult};
use jissoku_os::signal::Signals;
use serde_json::{Value, json};

use super::measure::{ProgressOptions, run_plan};
use crate::load::print_error;

/// The first rate, unless -R is given.
const FIRST_RPS: u64 = 1_000;

/// The growth of the rate in percent, unless --step is given.
pub(super) const STEP_PERCENT: u64 = 200;

/// Limit of the rate.
const LAST_RPS: u64 = 1 << 30;

/// The gap is narrow enough when its ends differ by this many percent.
const GAP_PERCENT: u64 = 5;

/// Fraction of the due requests that must have been sent.
const SENT_MIN: f64 = 0.99;

/// The parameters of a search.
#[derive(Clone, Debug)]
pub(super) struct Search {
    pub(super) slo: Slo,
    /// The objective as given.
    pub(super) text: String,
    pub(super) first_rps: Option<u64>,
    pub(super) step_percent: u64,
    pub(super) json: bool,
}

/// The state of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    met_rps: Option<u64>,
    violated_rps: Option<u64>,
}

impl Search {
    pub(super) fn run(self, mut plan: Plan, signals: &Signals) -> u8 {
        let mut gap = Gap { met_rps: None, violated_rps: None };
        let mut steps: Vec<Value> = Vec::new();
        let first_rps = self.first_rps.unwrap_or(FIRST_RPS);
        while let Some(rate_rps) = gap.next_rps(first_rps, self.step_percent) {
            plan.pace = Pace::Constant { rate_rps };
            let measurement = match run_plan(&plan, signals, ProgressOptions::default()) {
                Ok(measurement) => measurement,
                Err(code) => return code,
            };
            if measurement.outcome.interrupted {
                return 130;
            }
            let (is_met, why) = match self.evaluate(&measurement.report) {
                SloResult::Met => (true, "met".to_owned()),
                // A lower rate would give even fewer responses.
                SloResult::Undecided(why) if gap.met_rps.is_none() => {
                    return print_error(&format!("{why}: give a longer -d or a higher -R"), 4);
                }
                SloResult::Violated(why) | SloResult::Undecided(why) => (false, why),
            };
            if !self.json {
                let _written = writeln!(io::stderr(), "{rate_rps} requests/s: {why}");
            }
            steps.push(
                json!({"rate_rps": rate_rps, "is_met": is_met, "why": why, "report": measurement.report}),
            );
            let end = if is_met { &mut gap.met_rps } else { &mut gap.violated_rps };
            *end = Some(rate_rps);
        }
        self.conclude(gap, &steps)
    }

    fn evaluate(&self, report: &jissoku_load::report::Report) -> SloResult {
        let unsent = report
            .checks
            .iter()
            .find(|check| check.name == "achieved_over_offered" && check.value < SENT_MIN);
        match unsent {
            Some(check) => {
                let percent = check.value * 100.0;
                SloResult::Violated(format!("only {percent:.1} % of the due requests were sent"))
            }
            None => self.slo.evaluate(&report.targets),
        }
    }

    fn conclude(&self, gap: Gap, steps: &[Value]) -> u8 {
        let Gap { met_rps, violated_rps } = gap;
        let text = if self.json {
            let found = json!({
                "schema": "jissoku.search/2",
                "slo": self.text,
                "met_rps": met_rps,
                "violated_rps": violated_rps,
                "steps": steps,
            });
            format!("{found}\n")
        } else {
            match (met_rps, violated_rps) {
                (Some(met), Some(broken)) => {
                    format!("{} is met at {met} requests/s, and violated at {broken}\n", self.text)
                }
                (Some(met), None) => {
                    format!("{} is met at {met} requests/s, the highest rate tried\n", self.text)
                }
                (None, _) => format!("{} is met at no rate\n", self.text),
            }
        };
        if let Err(error) = io::stdout().write_all(text.as_bytes()) {
            return print_error(&format!("cannot write the report: {error}"), 1);
        }
        if met_rps.is_some() { 0 } else { 3 }
    }
}

impl Gap {
    /// The next rate to try; `None` at the end.
    fn next_rps(self, first_rps: u64, step_percent: u64) -> Option<u64> {
        match (self.met_rps, self.violated_rps) {
            (None, None) => Some(first_rps),
            (Some(met), None) => (met < LAST_RPS).then(|| {
                let grown = u128::from(met) * u128::from(step_percent) / 100;
                u64::try_from(grown).unwrap_or(LAST_RPS).clamp(met + 1, LAST_RPS)
            }),
            (None, Some(broken)) => (broken > 1).then_some(broken / 2),
            (Some(met), Some(broken)) => {
                let is_narrow = met + met * GAP_PERCENT / 100 >= broken || met + 1 >= broken;
                // The geometric mean.
                let product = u128::from(met) * u128::from(broken);
                let middle = u64::try_from(product.isqrt()).unwrap_or(met);
                (!is_narrow).then(|| middle.clamp(met + 1, broken - 1))
            }
        }
    }
}

/// Parses `geom:1.25`, in percent.
pub(super) fn step(text: &str) -> Result<u64, String> {
    let factor = text.strip_prefix("geom:").and_then(|factor| factor.parse::<f64>().ok());
    match factor.filter(|factor| (1.01..=100.0).contains(factor)) {
        Some(factor) => Ok(super::whole(factor * 100.0)),
        None => Err("write a factor between 1.01 and 100, such as geom:1.25".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(capacity_rps: u64, first_rps: u64) -> (Gap, u32) {
        climb(capacity_rps, first_rps, STEP_PERCENT)
    }

    fn climb(capacity_rps: u64, first_rps: u64, step_percent: u64) -> (Gap, u32) {
        let mut gap = Gap { met_rps: None, violated_rps: None };
        let mut steps = 0;
        while let Some(rate) = gap.next_rps(first_rps, step_percent) {
            steps += 1;
            let end = if rate <= capacity_rps { &mut gap.met_rps } else { &mut gap.violated_rps };
            *end = Some(rate);
        }
        (gap, steps)
    }

    #[test]
    fn the_capacity_ends_up_in_a_narrow_gap() {
        for capacity in [1, 2, 17, 999, 1_000, 123_456, 40_000_000] {
            let (gap, steps) = search(capacity, 1_000);
            let met = gap.met_rps.expect("one request a second is met");
            let broken = gap.violated_rps.expect("there is an end");
            assert!(met <= capacity && capacity < broken, "{gap:?}");
            assert!(broken <= met + met / 20 + 1, "{gap:?}");
            assert!(steps < 40, "{steps}");
        }
    }

    #[test]
    fn smaller_steps_find_the_same() {
        assert_eq!((step("geom:1.25"), step("geom:2")), (Ok(125), Ok(200)));
        for text in ["", "2", "geom:1", "geom:x", "geom:NaN", "geom:1000"] {
            assert!(step(text).is_err(), "{text:?}");
        }
        let (gap, steps) = climb(123_456, 1_000, 125);
        let (met, broken) = (gap.met_rps.expect("it is met"), gap.violated_rps.expect("it ends"));
        assert!(met <= 123_456 && 123_456 < broken && broken <= met + met / 20, "{gap:?}");
        assert!(steps < 40, "{steps}");
        assert_eq!(climb(u64::MAX, 1, 101).0.met_rps, Some(LAST_RPS));
    }

    #[test]
    fn a_search_without_an_end_ends() {
        assert_eq!(search(0, 1_000).0, Gap { met_rps: None, violated_rps: Some(1) });
        assert_eq!(search(u64::MAX, 1_000).0, Gap { met_rps: Some(LAST_RPS), violated_rps: None });
    }
}
