//! The server: workers, connections, deadlines, and what is served.
//!
//! A request goes one way: driver, `worker`, `connection` (which asks `jissoku-http` what the bytes
//! mean), `handler` (which says what to answer), and back to the driver as bytes. Between two requests
//! there is no state but the connection's.

mod causes;
mod census;
mod connection;
mod handler;
mod limits;
mod link;
mod log;
mod metrics;
mod observer;
mod openings;
mod parting;
mod server;
mod spin;
mod timers;
mod tls;
mod worker;

pub use causes::{BadCause, Cause};
pub use handler::{
    Contract, Echo, Files, FilesError, Fixed, FortyTwo, Options as FilesOptions, Rule, Site,
};
pub use limits::Limits;
pub use log::{AccessLog, BadFormat, Format, LogEnd, LogError, LogSink, Losses as LogLosses, Say};
pub use metrics::Metrics;
pub use observer::Observation;
pub use server::{Event, ListenError, ReloadError, Running, Server, Settings, Sockets, Words};
pub use tls::{Tls, TlsError};
