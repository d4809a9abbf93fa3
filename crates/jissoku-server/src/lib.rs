//! The HTTP server: workers, connections, timeouts, and request handlers.
//!
//! A request flows in one direction: driver, `worker`, `connection` (which parses it with
//! `jissoku-http`), [`Handler`] (which writes the response), and back to the driver as bytes. The
//! only state between two requests is the connection's.

mod app_times;
mod client_identity;
mod connection;
mod connection_limiter;
mod context;
mod dyn_service;
mod early_output;
mod files;
mod fixed;
mod handler;
mod hang_watch;
mod head_check;
mod intermediary;
mod limits;
mod listener_options;
mod log;
mod metrics;
mod metrics_page;
mod request_id;
mod response;
#[cfg(test)]
mod schedules;
mod server;
mod settings;
mod shutdown;
mod status_lines;
mod telemetry;
mod tls;
mod tls_client;
mod tls_session;
mod transport;
mod trusted_proxies;
mod upstream_session;
mod worker;
mod worker_message;
mod worker_process;
mod worker_thread;

pub use app_times::{AppClock, AppTimes};
pub use client_identity::{ClientIdentity, OwnedIdentity};
pub use dyn_service::{DynService, RunThere};
pub use early_output::EarlyOutput;
pub use files::{FieldRule, FileResponse, Files, FilesHandler, Options as FilesOptions, Rule};
pub use fixed::Fixed;
pub use handler::{
    AbandonReason, Background, BodyFlow, EventLoop, ForeignLoop, Handler, Iteration, Outbound,
    Progress, RequestHead, RouteMatch, Service, UpstreamEvent, UpstreamEventKind, WorkerInfo,
};
pub use hang_watch::HangWatch;
pub use jissoku_http::forwarded::{ForwardedFields, XForwarded};
pub use jissoku_os::timers::{TimerOwner, Timers};
pub use jissoku_tls::Trust;
pub use limits::Limits;
pub use listener_options::{Encryption, ListenerOptions, Protocol, SecureListeners};
pub use log::{
    AccessLog, DroppedRecords as LogDroppedRecords, ErrorReporter, Forwarded, ForwardedAnomalies,
    ForwardedOutcome, HedgeResult, LogEnd, LogFormat, LogRecord, LogSink,
};
pub use metrics::{
    Metrics, RouteCounter, RouteCounters, StoreCounts, StoreSample, UpstreamCounter,
    UpstreamCounters, UpstreamServer, UpstreamState,
};
pub use metrics_page::MetricsPage;
pub use request_id::{RequestIdName, has_field_of, name_and_value};
pub use response::{BodyPart, DynamicResponse, PartFraming, Response};
pub use server::{RunningServer, Server, ServerEvent, SignalSet, Sockets};
pub use settings::{ListenerSharing, Settings};
pub use telemetry::TelemetryConfig;
pub use tls::{CertificateFiles, Tls};
pub use tls_client::{CertificateFault, TlsClient, TlsFailure, TlsName, TlsOpening};
pub use trusted_proxies::TrustedProxies;
pub use worker_message::ParentPipe;
pub use worker_process::{ProcessSettings, StartError, StoppedBeforeReady, WORKER_NAME};
