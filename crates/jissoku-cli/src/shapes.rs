//! Command lines and reports of other tools, for scripts that expect them. The load is that of
//! `jissoku load`: options are translated, and the report has the other tool's layout with notes
//! below it.

pub(crate) mod ab;
mod alike;
mod answers;
pub(crate) mod hey;
pub(crate) mod oha;
mod oha_json;
mod oha_text;
mod refusals;
mod spread;
pub(crate) mod wrk;
pub(crate) mod wrk2;

use std::io::{self, Write as _};

use clap::Parser;
use jissoku_load::Plan;
use jissoku_load::report::Report;

use crate::load::measure::{self, Measurement, ProgressOptions};
use crate::load::{Load, print_error};

/// The options of `jissoku load`.
#[derive(Debug, Parser)]
#[command(name = "jissoku load")]
struct Translated {
    #[command(flatten)]
    load: Load,
}

/// Whether a record of every request is kept (32 bytes each), as reports by status need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Counts,
    Requests,
}

/// Runs `jissoku load` with `arguments`. `Err` is the process exit code.
fn run_load(arguments: &[String], keep: Keep) -> Result<(Plan, Measurement), u8> {
    let name = "jissoku load".to_owned();
    let translated = Translated::try_parse_from([&name].into_iter().chain(arguments));
    let load = translated.map_err(|refusal| {
        let _shown = refusal.print();
        2
    })?;
    let mut plan = load.load.plan().map_err(|refusal| print_error(&refusal, 2))?;
    plan.keeps_records = keep == Keep::Requests;
    let signals = measure::catch_signals()?;
    let measurement = measure::run_plan(&plan, &signals, ProgressOptions::default())?;
    Ok((plan, measurement))
}

/// Prints a report and returns the exit code.
fn finish(page: &str, measurement: &Measurement) -> u8 {
    if io::stdout().write_all(page.as_bytes()).is_err() {
        return 1;
    }
    match (measurement.outcome.interrupted, measurement.report.nothing_measured()) {
        (true, _) => 130,
        (false, Some(sentence)) => print_error(&sentence, 1),
        (false, None) => 0,
    }
}

/// Notes below the report: those given, then self-checks and censored requests.
fn notes(report: &Report, particular: &[String]) -> String {
    let remarks = remarks(report, particular);
    let lines: Vec<String> = remarks.iter().map(|remark| format!("  {remark}\n")).collect();
    ["\njissoku notes:\n", &lines.concat()].concat()
}

fn remarks(report: &Report, particular: &[String]) -> Vec<String> {
    let failed: Vec<&str> = report
        .checks
        .iter()
        .filter(|check| check.passed == Some(false))
        .map(|check| check.name)
        .collect();
    let mut remarks = particular.to_vec();
    remarks.push(if failed.is_empty() {
        "all self-checks passed".to_owned()
    } else {
        format!("failed self-checks: {}", failed.join(", "))
    });
    let account = report.targets.first().map(|target| target.accounting);
    if let Some(account) = account.filter(|account| account.timeouts + account.never_sent > 0) {
        remarks.push(format!(
            "{} timed out and {} were never sent: in the percentiles they count with the time they waited",
            account.timeouts, account.never_sent
        ));
    }
    remarks.push("this shape tells least of it: see jissoku load".to_owned());
    remarks
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn float(value: u64) -> f64 {
    value as f64
}
