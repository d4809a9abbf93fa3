//! What to do with the results: outputs, and what they are judged by.

use std::path::PathBuf;

use jissoku_load::report::{Format, Report, SelfTest, annotations, histogram};

use super::judge::{Criteria, VIOLATED};
use super::measure::Measurement;
use super::output::{self, Output, ReservedFiles};
use super::timeseries::Intervals;
use crate::usage::print_error;

/// The output options.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct OutputOptions {
    pub(super) outputs: Vec<Output>,
    /// Whether text output includes all percentiles.
    pub(super) full_percentiles: bool,
    /// Whether text output includes a histogram.
    pub(super) histogram: bool,
    pub(super) hlog: Option<PathBuf>,
    pub(super) events: bool,
    /// Whether the load starts at a time that is read from stdin.
    pub(super) armed: bool,
    pub(super) criteria: Criteria,
    /// The result of the self-test, to be added to the report.
    pub(super) self_test: Option<SelfTest>,
    pub(super) hdr: Option<PathBuf>,
    pub(super) raw_log: Option<PathBuf>,
    pub(super) timeseries: Option<Intervals>,
}

impl OutputOptions {
    /// Makes sure that every output file can be written, before anything is measured.
    pub(super) fn reserve_files(&self) -> Result<ReservedFiles, String> {
        let mut reserved = ReservedFiles::default();
        let intervals = self.timeseries.as_ref().map(|intervals| intervals.file.clone());
        let single = [self.hlog.clone(), self.hdr.clone(), self.raw_log.clone(), intervals];
        let reports = self.outputs.iter().filter_map(Output::destination);
        for file in single.into_iter().flatten().chain(reports) {
            reserved.add(&file)?;
        }
        Ok(reserved)
    }

    /// Refuses formats that `supports` refuses.
    pub(super) fn check_formats(
        &self,
        supports: impl Fn(Format) -> Result<(), String>,
    ) -> Result<(), String> {
        self.outputs.iter().try_for_each(|output| supports(output.format))
    }

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
            let is_text = format == Format::Human;
            let bars = (self.histogram && is_text).then(|| histogram(report));
            let more = (self.full_percentiles && is_text).then(|| output::hgrm_text(outcome));
            Ok(page + &bars.unwrap_or_default() + &more.unwrap_or_default())
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
        self.outputs.iter().try_for_each(|output| output.write(&text(output.format)?))
    }

    /// Whether to print GitHub workflow commands.
    fn annotates_github(&self) -> bool {
        let is_asked = self.outputs.iter().any(|output| output.format == Format::Github);
        is_asked && output::is_github_actions()
    }

    /// Judges a report, prints why it is not accepted, and returns the exit code.
    pub(super) fn judge(&self, report: &Report) -> u8 {
        let verdict = self.criteria.judge(report);
        if self.annotates_github() {
            output::annotate(&annotations(report));
        }
        let Some(message) = verdict.message else { return verdict.exit_code };
        if self.annotates_github() && verdict.exit_code == VIOLATED {
            output::annotate(&format!("::error title=jissoku load::{message}\n"));
        }
        print_error(&message, verdict.exit_code)
    }
}
