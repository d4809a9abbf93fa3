//! `--search`: the highest rate that meets an objective, as a function of the results so far.
//!
//! The rate doubles, or grows by --step, until the objective is violated; then the gap between the
//! highest rate that met it and the lowest that violated it is bisected geometrically. A rate
//! counts as met only if the requests were actually sent. An undecided objective (too few
//! responses) counts as violated; before any rate has met it, it ends the search.

use jissoku_load::report::Report;
use jissoku_load::{Slo, SloResult};
use serde_json::json;

use crate::units;

/// The first rate, unless -R is given.
const FIRST_RPS: u64 = 1_000;

/// The growth of the rate in percent, unless --step is given.
const STEP_PERCENT: u64 = 200;

/// Limit of the rate.
const LAST_RPS: u64 = 1 << 30;

/// The gap is narrow enough when its ends differ by this many percent.
const GAP_PERCENT: u64 = 5;

/// Fraction of the due requests that must have been sent.
const SENT_MIN: f64 = 0.99;

#[derive(Debug)]
pub(super) struct Search {
    slo: Slo,
    /// The objective as given.
    text: String,
    ladder: Ladder,
    steps: Vec<Step>,
}

/// The rates of a search.
#[derive(Clone, Copy, Debug)]
struct Ladder {
    first_rps: u64,
    step_percent: u64,
}

/// The result at one rate.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) rate_rps: u64,
    is_met: bool,
    pub(super) why: String,
    report: Report,
}

/// The highest rate that met the objective, and the lowest that violated it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gap {
    met_rps: Option<u64>,
    violated_rps: Option<u64>,
}

impl Search {
    pub(super) fn new(
        slo: Slo,
        text: String,
        first_rps: Option<u64>,
        step_percent: Option<u64>,
    ) -> Self {
        let first_rps = first_rps.unwrap_or(FIRST_RPS);
        let step_percent = step_percent.unwrap_or(STEP_PERCENT);
        Self { slo, text, ladder: Ladder { first_rps, step_percent }, steps: Vec::new() }
    }

    /// How many rates were measured.
    pub(super) fn count(&self) -> usize {
        self.steps.len()
    }

    /// The next rate to measure; `None` at the end.
    pub(super) fn next_rps(&self) -> Option<u64> {
        self.ladder.next_rps(self.gap())
    }

    /// Adds the result at a rate.
    ///
    /// # Errors
    /// A message if the objective cannot be decided at any rate.
    pub(super) fn add(&mut self, rate_rps: u64, report: Report) -> Result<&Step, String> {
        let (is_met, why) = match self.evaluate(&report) {
            SloResult::Met => (true, "met".to_owned()),
            // A lower rate would give even fewer responses.
            SloResult::Undecided(why) if self.gap().met_rps.is_none() => {
                return Err(format!("{why}: give a longer -d or a higher -R"));
            }
            SloResult::Violated(why) | SloResult::Undecided(why) => (false, why),
        };
        self.steps.push(Step { rate_rps, is_met, why, report });
        Ok(&self.steps[self.steps.len() - 1])
    }

    fn evaluate(&self, report: &Report) -> SloResult {
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

    fn gap(&self) -> Gap {
        Gap::of(self.steps.iter().map(|step| (step.rate_rps, step.is_met)))
    }

    pub(super) fn exit_code(&self) -> u8 {
        if self.gap().met_rps.is_some() { 0 } else { 3 }
    }

    /// The result as a JSON object.
    pub(super) fn to_json(&self) -> String {
        let Gap { met_rps, violated_rps } = self.gap();
        let step = |Step { rate_rps, is_met, why, report }: &Step| json!({"rate_rps": rate_rps, "is_met": is_met, "why": why, "report": report});
        let found = json!({
            "schema": "jissoku.search/2",
            "slo": self.text,
            "met_rps": met_rps,
            "violated_rps": violated_rps,
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
        });
        format!("{found}\n")
    }

    /// The result as a sentence.
    pub(super) fn to_text(&self) -> String {
        let text = &self.text;
        match self.gap() {
            Gap { met_rps: Some(met), violated_rps: Some(violated) } => {
                format!("{text} is met at {met} requests/s, and violated at {violated}\n")
            }
            Gap { met_rps: Some(met), violated_rps: None } => {
                format!("{text} is met at {met} requests/s, the highest rate tried\n")
            }
            Gap { met_rps: None, .. } => format!("{text} is met at no rate\n"),
        }
    }
}

impl Gap {
    /// The gap that results leave: rates, and whether each met the objective.
    fn of(results: impl Iterator<Item = (u64, bool)>) -> Self {
        results.fold(Self::default(), |gap, (rate_rps, is_met)| {
            if is_met {
                Self { met_rps: gap.met_rps.max(Some(rate_rps)), ..gap }
            } else {
                let lowest = gap.violated_rps.map_or(rate_rps, |lowest| lowest.min(rate_rps));
                Self { violated_rps: Some(lowest), ..gap }
            }
        })
    }
}

impl Ladder {
    /// The next rate to try; `None` at the end.
    fn next_rps(self, gap: Gap) -> Option<u64> {
        match (gap.met_rps, gap.violated_rps) {
            (None, None) => Some(self.first_rps),
            (Some(met), None) => (met < LAST_RPS).then(|| {
                let grown = u128::from(met) * u128::from(self.step_percent) / 100;
                u64::try_from(grown).unwrap_or(LAST_RPS).clamp(met + 1, LAST_RPS)
            }),
            (None, Some(violated)) => (violated > 1).then_some(violated / 2),
            (Some(met), Some(violated)) => {
                let is_narrow = met + met * GAP_PERCENT / 100 >= violated || met + 1 >= violated;
                // The geometric mean.
                let product = u128::from(met) * u128::from(violated);
                let middle = u64::try_from(product.isqrt()).unwrap_or(met);
                (!is_narrow).then(|| middle.clamp(met + 1, violated - 1))
            }
        }
    }
}

/// Parses `geom:1.25`, in percent.
pub(super) fn step(text: &str) -> Result<u64, String> {
    let factor = text.strip_prefix("geom:").and_then(|factor| factor.parse::<f64>().ok());
    match factor.filter(|factor| (1.01..=100.0).contains(factor)) {
        Some(factor) => Ok(units::whole(factor * 100.0)),
        None => Err("write a factor between 1.01 and 100, such as geom:1.25".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gap that a search of a server of this capacity ends with, and the number of its steps.
    fn search(capacity_rps: u64, first_rps: u64, step_percent: u64) -> (Gap, usize) {
        let ladder = Ladder { first_rps, step_percent };
        let mut results = Vec::new();
        let gap = |results: &[(u64, bool)]| Gap::of(results.iter().copied());
        while let Some(rate) = ladder.next_rps(gap(&results)) {
            results.push((rate, rate <= capacity_rps));
        }
        (gap(&results), results.len())
    }

    #[test]
    fn the_capacity_ends_up_in_a_narrow_gap() {
        for capacity in [1, 2, 17, 999, 1_000, 123_456, 40_000_000] {
            let (gap, steps) = search(capacity, 1_000, STEP_PERCENT);
            let met = gap.met_rps.expect("one request a second is met");
            let violated = gap.violated_rps.expect("there is an end");
            assert!(met <= capacity && capacity < violated, "{gap:?}");
            assert!(violated <= met + met / 20 + 1, "{gap:?}");
            assert!(steps < 40, "{steps}");
        }
    }

    #[test]
    fn smaller_steps_find_the_same() {
        assert_eq!((step("geom:1.25"), step("geom:2")), (Ok(125), Ok(200)));
        for text in ["", "2", "geom:1", "geom:x", "geom:NaN", "geom:1000"] {
            assert!(step(text).is_err(), "{text:?}");
        }
        let (gap, steps) = search(123_456, 1_000, 125);
        let (met, violated) = (gap.met_rps.expect("it is met"), gap.violated_rps.expect("it ends"));
        assert!(met <= 123_456 && 123_456 < violated && violated <= met + met / 20, "{gap:?}");
        assert!(steps < 40, "{steps}");
        assert_eq!(search(u64::MAX, 1, 101).0.met_rps, Some(LAST_RPS));
    }

    #[test]
    fn a_search_without_an_end_ends() {
        let (lowest, highest) = (search(0, 1_000, 200).0, search(u64::MAX, 1_000, 200).0);
        assert_eq!(lowest, Gap { met_rps: None, violated_rps: Some(1) });
        assert_eq!(highest, Gap { met_rps: Some(LAST_RPS), violated_rps: None });
    }
}
