//! `--search`: the highest rate at which an objective is met.
//!
//! The rate doubles, or grows by --step, until the objective is broken, and then the gap between the highest rate that met it
//! and the lowest that did not is halved, in proportion, until it is narrow enough. A rate counts as met
//! only if the requests were really sent: offered and never sent is not served. What cannot be decided,
//! for want of answers, is not met either; before anything was met, it ends the search.

use std::io::{self, Write as _};

use jissoku_load::{Objective, Pace, Plan, Verdict};
use jissoku_os::signal::Signals;
use serde_json::{Value, json};

use super::errand::{Curiosity, carry_out};
use crate::load::complain;

/// Where a search begins that is not told where.
const FIRST_RPS: u64 = 1_000;

/// By how much the rate grows while the objective is met, unless --step says so.
pub(super) const STEP_PERCENT: u64 = 200;

/// No machine of today goes beyond.
const LAST_RPS: u64 = 1 << 30;

/// The gap is narrow enough when its ends differ by so much, in percent.
const GAP_PERCENT: u64 = 5;

/// Of what was offered, so much must have been sent.
const SENT_MIN: f64 = 0.99;

/// What to look for, and how to tell of it.
#[derive(Clone, Debug)]
pub(super) struct Search {
    pub(super) objective: Objective,
    /// The objective as it was written.
    pub(super) text: String,
    pub(super) first_rps: Option<u64>,
    pub(super) step_percent: u64,
    pub(super) json: bool,
}

/// Where a search stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    met_rps: Option<u64>,
    broken_rps: Option<u64>,
}

impl Search {
    pub(super) fn run(self, mut plan: Plan, signals: &Signals) -> u8 {
        let mut gap = Gap { met_rps: None, broken_rps: None };
        let mut steps: Vec<Value> = Vec::new();
        let first_rps = self.first_rps.unwrap_or(FIRST_RPS);
        while let Some(rate_rps) = gap.next_rps(first_rps, self.step_percent) {
            plan.pace = Pace::Constant { rate_rps };
            let find = match carry_out(&plan, signals, Curiosity::default()) {
                Ok(find) => find,
                Err(code) => return code,
            };
            if find.outcome.interrupted {
                return 130;
            }
            let (is_met, why) = match self.judge(&find.report) {
                Verdict::Met => (true, "met".to_owned()),
                // A lower rate would tell even less.
                Verdict::Undecided(why) if gap.met_rps.is_none() => {
                    return complain(&format!("{why}: give a longer -d or a higher -R"), 4);
                }
                Verdict::Broken(why) | Verdict::Undecided(why) => (false, why),
            };
            if !self.json {
                let _written = writeln!(io::stderr(), "{rate_rps} requests/s: {why}");
            }
            steps.push(
                json!({"rate_rps": rate_rps, "is_met": is_met, "why": why, "report": find.report}),
            );
            let end = if is_met { &mut gap.met_rps } else { &mut gap.broken_rps };
            *end = Some(rate_rps);
        }
        self.conclude(gap, &steps)
    }

    fn judge(&self, report: &jissoku_load::report::Report) -> Verdict {
        let unsent = report
            .checks
            .iter()
            .find(|check| check.name == "achieved_over_offered" && check.value < SENT_MIN);
        match unsent {
            Some(check) => {
                let percent = check.value * 100.0;
                Verdict::Broken(format!("only {percent:.1} % of the requests could be sent"))
            }
            None => self.objective.judge(&report.lanes),
        }
    }

    fn conclude(&self, gap: Gap, steps: &[Value]) -> u8 {
        let Gap { met_rps, broken_rps } = gap;
        let text = if self.json {
            let found = json!({
                "schema": "jissoku.search/1",
                "objective": self.text,
                "met_rps": met_rps,
                "broken_rps": broken_rps,
                "steps": steps,
            });
            format!("{found}\n")
        } else {
            match (met_rps, broken_rps) {
                (Some(met), Some(broken)) => {
                    format!("{} was met at {met} requests/s, and not at {broken}\n", self.text)
                }
                (Some(met), None) => format!("{} was met even at {met} requests/s\n", self.text),
                (None, _) => format!("{} was met at no rate\n", self.text),
            }
        };
        if let Err(error) = io::stdout().write_all(text.as_bytes()) {
            return complain(&format!("the report cannot be written: {error}"), 1);
        }
        if met_rps.is_some() { 0 } else { 3 }
    }
}

impl Gap {
    /// The rate to try next, unless everything is known that is to be known.
    fn next_rps(self, first_rps: u64, step_percent: u64) -> Option<u64> {
        match (self.met_rps, self.broken_rps) {
            (None, None) => Some(first_rps),
            (Some(met), None) => (met < LAST_RPS).then(|| {
                let grown = u128::from(met) * u128::from(step_percent) / 100;
                u64::try_from(grown).unwrap_or(LAST_RPS).clamp(met + 1, LAST_RPS)
            }),
            (None, Some(broken)) => (broken > 1).then_some(broken / 2),
            (Some(met), Some(broken)) => {
                let is_narrow = met + met * GAP_PERCENT / 100 >= broken || met + 1 >= broken;
                // The geometric mean: ratios are what matters.
                let product = u128::from(met) * u128::from(broken);
                let middle = u64::try_from(product.isqrt()).unwrap_or(met);
                (!is_narrow).then(|| middle.clamp(met + 1, broken - 1))
            }
        }
    }
}

/// `geom:1.25`, in percent.
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
        let mut gap = Gap { met_rps: None, broken_rps: None };
        let mut steps = 0;
        while let Some(rate) = gap.next_rps(first_rps, step_percent) {
            steps += 1;
            let end = if rate <= capacity_rps { &mut gap.met_rps } else { &mut gap.broken_rps };
            *end = Some(rate);
        }
        (gap, steps)
    }

    #[test]
    fn the_capacity_ends_up_in_a_narrow_gap() {
        for capacity in [1, 2, 17, 999, 1_000, 123_456, 40_000_000] {
            let (gap, steps) = search(capacity, 1_000);
            let met = gap.met_rps.expect("one request a second is met");
            let broken = gap.broken_rps.expect("there is an end");
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
        let (met, broken) = (gap.met_rps.expect("it is met"), gap.broken_rps.expect("it ends"));
        assert!(met <= 123_456 && 123_456 < broken && broken <= met + met / 20, "{gap:?}");
        assert!(steps < 40, "{steps}");
        assert_eq!(climb(u64::MAX, 1, 101).0.met_rps, Some(LAST_RPS));
    }

    #[test]
    fn a_search_without_an_end_ends() {
        assert_eq!(search(0, 1_000).0, Gap { met_rps: None, broken_rps: Some(1) });
        assert_eq!(search(u64::MAX, 1_000).0, Gap { met_rps: Some(LAST_RPS), broken_rps: None });
    }
}
