//! One measurement whose report is returned, for programs that call the load generator. Nothing is
//! printed; files are written as with the command.

use std::os::fd::AsFd;

use clap::{Args as _, Command, FromArgMatches as _};
use jissoku_load::report::Format;

use super::Load;
use super::progress::Shown;
use super::runs::measure_once;
use crate::usage::{self, Failure};

/// The end of a measurement.
#[derive(Debug)]
pub struct LoadReport {
    /// That of `jissoku load`.
    pub exit_code: u8,
    /// Why it is not 0; empty if it is.
    pub message: String,
    /// The report as JSON; empty if nothing was measured.
    pub json: String,
}

/// Runs `jissoku load` with these arguments, until its end or until `interrupt` can be read.
#[must_use]
pub fn load_report(arguments: &[String], interrupt: &impl AsFd) -> LoadReport {
    let failed =
        |Failure { message, code }| LoadReport { exit_code: code, message, json: String::new() };
    measured(arguments, interrupt).unwrap_or_else(failed)
}

fn measured(arguments: &[String], interrupt: &impl AsFd) -> Result<LoadReport, Failure> {
    let bad = |refusal: String| Failure::new(refusal, 2);
    let command = Load::augment_args(Command::new("load").no_binary_name(true));
    let parsed = command.try_get_matches_from(arguments);
    let mut load = parsed
        .and_then(|matches| Load::from_arg_matches(&matches))
        .map_err(|refusal| bad(usage::sentence(&refusal)))?;
    load.check_returned().map_err(bad)?;
    let mut options = load.output_options(false).map_err(bad)?;
    options.outputs.retain(|output| output.destination().is_some());
    let plan = load.plan().map_err(bad)?;
    let measurement = measure_once(&plan, &options, interrupt, Shown::Nothing)?;
    let json = measurement.report.write_as(Format::Json);
    let json = json.map_err(|error| Failure::new(format!("JSON encoding failed: {error}"), 1))?;
    let verdict = options.criteria.judge(&measurement.report);
    let message = verdict.message.unwrap_or_default();
    Ok(LoadReport { exit_code: verdict.exit_code, message, json })
}

impl Load {
    /// Refuses what makes other than one report, or writes to stdout or stderr.
    fn check_returned(&self) -> Result<(), String> {
        let points = self.series.points(&self.connections)?;
        let given = [
            (!points.is_empty(), "several measurements"),
            (self.search.is_some(), "--search"),
            (self.self_test, "--self-test"),
            (self.from.is_some(), "--from"),
            (self.events, "--events"),
            (self.output.is_some(), "--output"),
            (self.format.iter().any(|one| one.destination().is_none()), "--format without a file"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, name)) => Err(format!("{name}: the report of one measurement is returned")),
            None => Ok(()),
        }
    }
}
