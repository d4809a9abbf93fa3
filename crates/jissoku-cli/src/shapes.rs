//! Other tools' command lines and reports, for scripts that have them built in. The load is our own: their
//! flags become ours, and the report has their shape with a few notes below it.

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

use crate::load::errand::{self, Curiosity, Find};
use crate::load::{Load, complain};

/// Our own command line, without the verb.
#[derive(Debug, Parser)]
#[command(name = "jissoku load")]
struct Translated {
    #[command(flatten)]
    load: Load,
}

/// Whether every single request is kept, as who tells statuses apart needs it: 32 bytes for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Counts,
    Requests,
}

/// Measures what `arguments` say in our own words. The exit code says what went wrong.
fn measure(arguments: &[String], keep: Keep) -> Result<(Plan, Find), u8> {
    let name = "jissoku load".to_owned();
    let translated = Translated::try_parse_from([&name].into_iter().chain(arguments));
    let load = translated.map_err(|refusal| {
        let _shown = refusal.print();
        2
    })?;
    let mut plan = load.load.plan().map_err(|refusal| complain(&refusal, 2))?;
    plan.keeps_entries = keep == Keep::Requests;
    let signals = errand::catch()?;
    let find = errand::carry_out(&plan, &signals, Curiosity::default())?;
    Ok((plan, find))
}

/// Prints a page; the exit code says what came of the measurement.
fn finish(page: &str, find: &Find) -> u8 {
    if io::stdout().write_all(page.as_bytes()).is_err() {
        return 1;
    }
    match (find.outcome.interrupted, find.report.nothing_measured()) {
        (true, _) => 130,
        (false, Some(sentence)) => complain(&sentence, 1),
        (false, None) => 0,
    }
}

/// What the shape has no place for, after what is particular to it.
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
    let account = report.lanes.first().map(|lane| lane.accounting);
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
