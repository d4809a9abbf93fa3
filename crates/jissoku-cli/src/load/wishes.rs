//! What is to be done with an outcome: where it is written, and what it is held against.

use std::path::PathBuf;

use jissoku_load::report::{Format, Report, SelfTest, annotations, hgrm};
use jissoku_load::{Objective, Verdict};

use super::errand::Find;
use super::output::{self, Output};
use super::timeseries::Intervals;
use crate::load::complain;

/// What becomes of an outcome.
#[derive(Debug)]
pub(super) struct Wishes {
    pub(super) outputs: Vec<Output>,
    /// Whether people want to see all percentiles.
    pub(super) spectrum: bool,
    pub(super) hlog: Option<PathBuf>,
    pub(super) events: bool,
    pub(super) strict: bool,
    pub(super) objective: Option<Objective>,
    /// What the stopwatch itself reaches, to be told beside what it did.
    pub(super) ceiling: Option<SelfTest>,
    pub(super) hdr: Option<PathBuf>,
    pub(super) raw_log: Option<PathBuf>,
    pub(super) timeseries: Option<Intervals>,
}

impl Wishes {
    pub(super) fn write(&self, Find { report, outcome, rows, log }: &Find) -> Result<(), String> {
        if let Some(file) = &self.hlog {
            output::write_file(file, log)?;
        }
        if let Some(file) = &self.hdr {
            output::write_hgrm(file, outcome)?;
        }
        if let Some(file) = &self.raw_log {
            output::write_raw(file, outcome)?;
        }
        if let Some(intervals) = &self.timeseries {
            output::write_file(&intervals.file, rows)?;
        }
        self.write_all(|format| {
            let page =
                report.write_as(format).map_err(|error| format!("it has no JSON: {error}"))?;
            let wants_more = self.spectrum && format == Format::Human;
            let more = wants_more.then(|| hgrm::percentiles(&output::together(outcome)));
            Ok(page + &more.unwrap_or_default())
        })
    }

    /// Puts into a report what belongs there and does not come from its measurement.
    pub(super) fn complete(&self, report: &mut Report) {
        if let Some(ceiling) = &self.ceiling {
            report.hold_against(ceiling);
        }
    }

    /// Writes the text of each format that is wanted where it belongs.
    pub(super) fn write_all(
        &self,
        text: impl Fn(Format) -> Result<String, String>,
    ) -> Result<(), String> {
        self.outputs.iter().try_for_each(|output| output.write(&text(output.format())?))
    }

    /// Whether there is a step on GitHub beside which something can be said.
    fn has_a_step(&self) -> bool {
        let is_asked = self.outputs.iter().any(|output| output.format() == Format::Github);
        is_asked && output::is_read_by_github()
    }

    /// The exit code that the report deserves.
    pub(super) fn judge(&self, report: &Report) -> u8 {
        if self.has_a_step() {
            output::annotate(&annotations(report));
        }
        if let Some(sentence) = report.nothing_measured() {
            return complain(&sentence, 1);
        }
        if self.strict && report.is_doubtful() {
            return complain("a self-check failed, so the figures are not to be trusted", 4);
        }
        let verdict = self.objective.as_ref().map(|objective| objective.judge(&report.lanes));
        match verdict {
            None | Some(Verdict::Met) => 0,
            Some(Verdict::Broken(sentence)) => {
                if self.has_a_step() {
                    output::annotate(&format!("::error title=jissoku load::{sentence}\n"));
                }
                complain(&sentence, 3)
            }
            Some(Verdict::Undecided(sentence)) => complain(&sentence, 4),
        }
    }
}
