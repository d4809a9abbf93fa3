//! The load generator: sends requests or WebSocket messages, verifies every response, and measures times.
//!
//! It shares no protocol code with the server, reads no configuration, and prints nothing. [`run`]
//! measures: a [`Plan`] goes in, an [`Outcome`] comes out. [`run_checks`] and [`Slo`] judge it, and
//! [`report`] renders both.

mod engine;
mod plan;
mod protocol;
pub mod report;

pub use engine::control::{Control, IntervalObserver, RunError, Starter, WindowEvent};
pub use engine::counters::Counters;
pub use engine::cpu_monitor::CpuUsage;
pub use engine::error::{ErrorCounts, ErrorExample, RequestError};
pub use engine::histogram::{Histogram, Quantiles};
pub use engine::interval::Interval;
pub use engine::outcome::{Outcome, TargetOutcome, WorkerOutcome};
pub use engine::request_log::{RequestOutcome, RequestRecord};
pub use engine::slice_log::SliceUsage;
pub use engine::time_slices::SliceTotals;
pub use engine::worker_set::run;
pub use jissoku_tls::Trust;
pub use plan::address::Address;
pub use plan::connect_to::ConnectTo;
pub use plan::expect::{Expected, Verify};
pub use plan::invalid::Invalid;
pub use plan::options::{ClockSource, Driver, Idle, Order, Reuse, StopCondition, Think};
pub use plan::pace::{Arrival, OnBusy, Pace, Rate};
pub use plan::request_spec::RequestSpec;
pub use plan::tls::{SessionReuse, Tls};
pub use plan::trace::Trace;
pub use plan::{Plan, TargetPlan};
#[cfg(any(test, feature = "fuzzing"))]
pub use protocol::fuzzing;
pub use protocol::message::MessageType;
pub use protocol::opening_handshake::OpeningHandshake;
pub use protocol::request::{Request, Version};
pub use protocol::request_template::RequestTemplate;
pub use protocol::response_reader::ResponseFraming;
pub use report::percentiles::{Mean, Percentile, Support};
pub use report::self_check::{SelfCheck, run_checks};
pub use report::slo::{Slo, SloResult};
