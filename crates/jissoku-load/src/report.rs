//! The report of a run: one JSON object, or text in several formats.

pub(crate) mod kaplan_meier;
pub(crate) mod percentiles;
pub(crate) mod self_check;
pub(crate) mod slo;

mod accounting;
mod bars;
mod format;
pub mod hgrm;
pub mod hlog;
mod human;
mod openmetrics;
mod self_test;
mod summary;
pub mod timeseries;

use crate::engine::outcome::Outcome;
use crate::engine::request_log::{RequestOutcome, RequestRecord};
pub use accounting::{Accounting, rate_text};
pub use bars::histogram;
pub use format::{Format, annotations};
use std::io::{self, Write};
pub use summary::{
    ErrorExampleReport, Host, Report, RequestSpecReport, SelfTest, TargetReport, TraceReport,
    WorkerReport,
};

/// The header of a request log.
const RECORDS_HEAD: &str = "target,intended_ns,sent_ns,done_ns,status,outcome";

/// Writes the request log of an outcome as CSV.
///
/// # Errors
/// The errors of `out`.
pub fn write_records(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{RECORDS_HEAD}")?;
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
