//! The load generator: sends requests or WebSocket messages, verifies every response, and measures times.
//!
//! It shares no protocol code with the server, reads no configuration, and prints nothing. [`run`]
//! measures: a [`Plan`] goes in, an [`Outcome`] comes out. [`run_checks`] and [`Slo`] judge it, and
//! [`report`] renders both.

mod address;
mod chunked;
mod connect;
mod connect_to;
mod connection;
mod connections;
mod control;
mod counters;
mod cpu_monitor;
mod date;
mod dispatcher;
mod epoll_transport;
mod error;
mod exchange;
mod expect;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod histogram;
mod interval;
mod kaplan_meier;
mod mask;
mod message;
mod message_reader;
mod opening_handshake;
mod options;
mod outcome;
mod pace;
mod percentiles;
mod plan;
mod plan_check;
mod progress;
mod random;
mod reader;
mod receive_clock;
mod recorder;
pub mod report;
mod request;
mod request_cycle;
mod request_log;
mod request_spec;
mod request_template;
mod response_matcher;
mod response_reader;
mod run;
mod schedule;
mod self_check;
mod slo;
mod target;
#[cfg(test)]
mod test_wires;
mod time_slices;
mod timers;
mod tls;
mod tls_session;
mod trace;
mod transport;
mod upgrade;
mod uring_transport;
mod websocket;
mod websocket_states;
mod window;
mod worker;
mod worker_result;
mod worker_set;

pub use address::{Address, AddressError};
pub use connect_to::ConnectTo;
pub use control::{Control, IntervalObserver, RunError, WindowEvent};
pub use counters::Counters;
pub use cpu_monitor::CpuUsage;
pub use error::{ErrorCounts, RequestError};
pub use expect::{Expected, Verify};
pub use histogram::{Histogram, Quantiles};
pub use interval::Interval;
pub use message::MessageType;
pub use opening_handshake::OpeningHandshake;
pub use options::{ClockSource, Driver, Idle, Reuse, StopCondition, Think};
pub use outcome::{Outcome, TargetOutcome, WorkerOutcome};
pub use pace::{Arrival, OnBusy, Pace};
pub use percentiles::{Mean, Percentile, Support};
pub use plan::{Plan, TargetPlan};
pub use plan_check::PlanError;
pub use request::{Request, Version};
pub use request_log::{RequestOutcome, RequestRecord};
pub use request_spec::RequestSpec;
pub use request_template::{RequestSpecError, RequestTemplate};
pub use response_reader::ResponseFraming;
pub use run::run;
pub use self_check::{SelfCheck, run_checks};
pub use slo::{Slo, SloError, SloResult};
pub use time_slices::SliceTotals;
pub use tls::{SessionReuse, Tls, TlsError, Trust};
pub use trace::{Trace, TraceError};
