//! What a report means for the exit code.

use jissoku_load::report::Report;
use jissoku_load::{Slo, SloResult};

/// What a run has to fulfil.
#[derive(Debug, Default)]
pub(super) struct Criteria {
    /// Whether all self-checks have to pass.
    pub(super) strict: bool,
    pub(super) slo: Option<Slo>,
}

/// The judgement of one report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) exit_code: u8,
    /// Why it is not 0.
    pub(super) message: Option<String>,
}

/// The exit code of a violated objective.
pub(super) const VIOLATED: u8 = 3;

impl Criteria {
    pub(super) fn judge(&self, report: &Report) -> Verdict {
        let bad = |exit_code, message| Verdict { exit_code, message: Some(message) };
        if let Some(message) = report.nothing_measured() {
            return bad(1, message);
        }
        if self.strict && report.has_failed_check() {
            return bad(4, "a self-check failed: the metrics are not to be trusted".to_owned());
        }
        match self.slo.as_ref().map(|slo| slo.evaluate(&report.targets)) {
            None | Some(SloResult::Met) => Verdict { exit_code: 0, message: None },
            Some(SloResult::Violated(message)) => bad(VIOLATED, message),
            Some(SloResult::Undecided(message)) => bad(4, message),
        }
    }
}

/// The exit code of two measurements. A violation is more severe than an undecided result.
pub(super) fn worse(one: u8, other: u8) -> u8 {
    let severity = |code: u8| [0, 4, 3, 1, 2].iter().position(|&known| known == code);
    if severity(other) > severity(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_severe_code_is_returned() {
        assert_eq!((worse(0, 4), worse(3, 4), worse(4, 3), worse(3, 0)), (4, 3, 3, 3));
    }
}
