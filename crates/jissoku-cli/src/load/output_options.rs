//! What to do with the results: outputs, objective, and exit code.

use std::path::PathBuf;

use jissoku_load::report::{Format, Report, SelfTest, annotations, hgrm};
use jissoku_load::{Slo, SloResult};

use super::measure::Measurement;
use super::output::{self, Output};
use super::timeseries::Intervals;
use crate::load::print_error;

/// The output options.
#[derive(Debug)]
pub(super) struct OutputOptions {
    pub(super) outputs: Vec<Output>,
    /// Whether text output includes all percentiles.
    pub(super) full_percentiles: bool,
    pub(super) hlog: Option<PathBuf>,
    pub(super) events: bool,
    pub(super) strict: bool,
    pub(super) slo: Option<Slo>,
    /// The result of the self-test, to be added to the report.
    pub(super) self_test: Option<SelfTest>,
    pub(super) hdr: Option<PathBuf>,
    pub(super) raw_log: Option<PathBuf>,
    pub(super) timeseries: Option<Intervals>,
}

impl OutputOptions {
    pub(super) fn write(
        &self,
        Measurement { report, outcome, rows, log }: &Measurement,
    ) -> Result<(), String> {
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
            let page = report
                .write_as(format)
                .map_err(|error| format!("JSON encoding failed: {error}"))?;
            let wants_more = self.full_percentiles && format == Format::Human;
            let more = wants_more.then(|| hgrm::percentiles(&output::merged_latency(outcome)));
            Ok(page + &more.unwrap_or_default())
        })
    }

    /// Adds the result of the self-test to a report.
    pub(super) fn add_self_test(&self, report: &mut Report) {
        if let Some(self_test) = &self.self_test {
            report.set_self_test(self_test);
        }
    }

    /// Writes each requested format.
    pub(super) fn write_all(
        &self,
        text: impl Fn(Format) -> Result<String, String>,
    ) -> Result<(), String> {
        self.outputs.iter().try_for_each(|output| output.write(&text(output.format())?))
    }

    /// Whether to print GitHub workflow commands.
    fn annotates_github(&self) -> bool {
        let is_asked = self.outputs.iter().any(|output| output.format() == Format::Github);
        is_asked && output::is_github_actions()
    }

    /// The exit code for a report.
    pub(super) fn exit_code(&self, report: &Report) -> u8 {
        if self.annotates_github() {
            output::annotate(&annotations(report));
        }
        if let Some(sentence) = report.nothing_measured() {
            return print_error(&sentence, 1);
        }
        if self.strict && report.has_failed_check() {
            return print_error("a self-check failed: the metrics are not to be trusted", 4);
        }
        let verdict = self.slo.as_ref().map(|slo| slo.evaluate(&report.targets));
        match verdict {
            None | Some(SloResult::Met) => 0,
            Some(SloResult::Violated(sentence)) => {
                if self.annotates_github() {
                    output::annotate(&format!("::error title=jissoku load::{sentence}\n"));
                }
                print_error(&sentence, 3)
            }
            Some(SloResult::Undecided(sentence)) => print_error(&sentence, 4),
        }
    }
}
