//! The HTTP server: workers, connections, timeouts, and request handlers.
//!
//! A request flows in one direction: driver, `worker`, `connection` (which parses it with
//! `jissoku-http`), `handler` (which chooses the response), and back to the driver as bytes. The
//! only state between two requests is the connection's.

mod busy_loop;
mod connection;
mod connection_limiter;
mod fault_injector;
mod handler;
mod limits;
mod log;
mod metrics;
mod server;
mod shutdown;
mod status_lines;
mod telemetry;
mod timers;
mod tls;
mod transport;
mod worker;

pub use fault_injector::{InjectedFault, InjectedFaultError};
pub use handler::{
    Content, Contract, Echo, Files, FilesError, Fixed, FortyTwo, Options as FilesOptions, Rule,
};
pub use limits::Limits;
pub use log::{
    AccessLog, DroppedRecords as LogDroppedRecords, ErrorReporter, LogEnd, LogError, LogFormat,
    LogFormatError, LogSink,
};
pub use metrics::Metrics;
pub use server::{
    ListenError, ReloadError, RunningServer, Server, ServerEvent, Settings, SignalSet, Sockets,
};
pub use telemetry::TelemetryConfig;
pub use tls::{Tls, TlsError};
