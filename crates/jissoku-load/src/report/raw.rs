//! The request log as CSV.

use std::io::{self, Write};

use crate::engine::outcome::Outcome;
use crate::engine::request_log::{RequestOutcome, RequestRecord};

/// The header.
const HEAD: &str = "target,intended_ns,sent_ns,done_ns,status,outcome";

/// Writes the records of an outcome.
///
/// # Errors
/// The errors of `out`.
pub fn write(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{HEAD}")?;
    for record in &outcome.records {
        let RequestRecord { target, intended_ns, sent_ns, done_ns, status, kind } = record;
        let kind = match kind {
            RequestOutcome::Ok => "ok",
            RequestOutcome::Failed(error) => error.name(),
            RequestOutcome::Unanswered => "unanswered",
        };
        writeln!(out, "{target},{intended_ns},{sent_ns},{done_ns},{status},{kind}")?;
    }
    out.flush()
}
