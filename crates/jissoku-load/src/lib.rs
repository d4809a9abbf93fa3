//! The load generator: sends requests, verifies every response, and measures times.
//!
//! It shares no protocol code with the server, reads no configuration, and prints nothing: a
//! [`Plan`] goes in, an [`Outcome`] comes out, and [`report`] renders it.

mod address;
mod chunked;
mod connect;
mod connect_to;
mod connection;
mod counters;
mod cpu_monitor;
mod date;
mod error;
mod exchange;
mod expect;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod histogram;
mod interval;
mod kaplan_meier;
mod open_loop;
mod outcome;
mod pace;
mod percentiles;
mod plan;
mod random;
mod reader;
pub mod report;
mod request;
mod request_cycle;
mod request_log;
mod request_spec;
mod request_template;
mod response_matcher;
mod run;
mod schedule;
mod self_check;
mod slo;
mod target;
mod think_time;
mod time_slices;
mod timeouts;
mod timers;
mod tls;
mod tls_session;
mod trace;
mod uring_loop;
mod window;
mod worker;
mod worker_set;

pub use address::{Address, AddressError};
pub use connect_to::ConnectTo;
pub use counters::Counters;
pub use cpu_monitor::CpuUsage;
pub use error::{ErrorCounts, RequestError};
pub use expect::{Expected, Verify};
pub use histogram::{Histogram, Quantiles};
pub use interval::Interval;
pub use outcome::{Outcome, TargetOutcome, WorkerOutcome};
pub use percentiles::{Percentile, Support};
pub use plan::{
    Arrival, ClockSource, Driver, Idle, OnBusy, Pace, Plan, PlanError, Reuse, StopCondition,
    TargetPlan, Think,
};
pub use request::{Request, RequestSpecError, Version};
pub use request_log::{RequestOutcome, RequestRecord};
pub use request_spec::RequestSpec;
pub use request_template::RequestTemplate;
pub use run::{Control, IntervalObserver, RunError, run};
pub use self_check::SelfCheck;
pub use slo::{Slo, SloError, SloResult};
pub use time_slices::SliceTotals;
pub use tls::{SessionReuse, Tls, TlsError, Trust};
pub use trace::{Trace, TraceError};
pub use window::WindowEvent;
