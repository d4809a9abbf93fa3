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
mod numbers;
mod openmetrics;
pub mod raw;
mod self_test;
mod summary;
pub mod timeseries;

pub use accounting::Accounting;
pub use bars::histogram;
pub use format::{Format, annotations};
pub use numbers::rate_text;
pub use summary::{
    ErrorExampleReport, Host, Report, RequestSpecReport, SelfTest, TargetReport, TraceReport,
    WorkerReport,
};
