//! Other tools' command lines and reports, for scripts that have them built in. The load is our own: their
//! flags become ours, and the report has their shape with a few notes below it.

pub(crate) mod ab;
mod spread;
pub(crate) mod wrk;

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

/// Measures what `arguments` say in our own words. The exit code says what went wrong.
fn measure(arguments: &[String]) -> Result<(Plan, Find), u8> {
    let name = "jissoku load".to_owned();
    let translated = Translated::try_parse_from([&name].into_iter().chain(arguments));
    let load = translated.map_err(|refusal| {
        let _shown = refusal.print();
        2
    })?;
    let plan = load.load.plan().map_err(|refusal| complain(&refusal, 2))?;
    let signals = errand::catch()?;
    let find = errand::carry_out(&plan, &signals, Curiosity::default())?;
    Ok((plan, find))
}

/// What the shape has no place for.
fn notes(report: &Report) -> String {
    let mut notes = vec!["\njissoku notes:\n".to_owned()];
    let failed: Vec<&str> = report
        .checks
        .iter()
        .filter(|check| check.passed == Some(false))
        .map(|check| check.name)
        .collect();
    if failed.is_empty() {
        notes.push("  all self-checks passed\n".to_owned());
    } else {
        notes.push(format!("  failed self-checks: {}\n", failed.join(", ")));
    }
    let account = report.lanes.first().map(|lane| lane.accounting);
    if let Some(account) = account.filter(|account| account.timeouts + account.never_sent > 0) {
        notes.push(format!(
            "  {} timed out and {} were never sent: they count with the time they waited\n",
            account.timeouts, account.never_sent
        ));
    }
    notes.push("  this shape tells least of it: see jissoku load\n".to_owned());
    notes.concat()
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn float(value: u64) -> f64 {
    value as f64
}
