//! A reverse proxy: forwards requests to another server, through the handler interface of
//! `jissoku-server`.
//!
//! Each worker has its own connections to the upstream server, driven by the worker's own driver.
//! A request and its response are an [`exchange`]; what happens when something fails is decided by
//! [`failure`], a pure function.

mod client;
mod config;
mod diagnostics;
mod exchange;
mod failure;
mod gather;
mod handler;
pub mod policy;
mod pool;
mod prober;
mod resolver;
mod routed;
mod server_set;
mod servers;
mod slab;
mod target;
mod transfer;
mod upstream_connection;

pub use config::{Forwarding, Gateway, Timeouts};
pub use gather::GatherRoute;
pub use routed::{Content, NoApp, RouteContent, RouteLimits, Routed};
pub use server_set::{ServerEntry, Upstream, UpstreamOptions};
pub use target::{Lookup, Resolution, Target, TargetError, resolve};
