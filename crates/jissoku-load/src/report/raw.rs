//! Every request as a line of comma-separated values.

use std::io::{self, Write};

use crate::ledger::{Entry, Kind};
use crate::outcome::Outcome;

/// The first line.
const HEAD: &str = "lane,intended_ns,sent_ns,done_ns,status,kind";

/// Writes the entries of an outcome whose plan wanted them.
///
/// # Errors
/// Those of `out`.
pub fn write(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{HEAD}")?;
    for entry in &outcome.entries {
        let Entry { lane, intended_ns, sent_ns, done_ns, status, kind } = entry;
        let kind = match kind {
            Kind::Ok => "ok",
            Kind::Failed(fault) => fault.name(),
            Kind::Unanswered => "unanswered",
        };
        writeln!(out, "{lane},{intended_ns},{sent_ns},{done_ns},{status},{kind}")?;
    }
    out.flush()
}
