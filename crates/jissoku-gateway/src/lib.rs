//! A reverse proxy: forwards requests to another server, through the handler interface of
//! `jissoku-server`.
//!
//! Each worker has its own connections to the upstream server, driven by the worker's own driver.
//! A request and its response are an [`exchange`]; what happens when something fails is decided by
//! [`failure`], a pure function.

mod client;
mod config;
mod diagnostics;
mod error_response;
mod exchange;
mod failure;
mod gather;
mod handler;
mod hash_key;
mod lost;
mod part_head;
mod phases;
mod place;
mod pool;
mod prober;
mod ready;
mod request;
mod resolution;
mod resolver;
mod routed;
mod server_set;
mod servers;
mod slab;
mod target;
mod transfer;
mod upload;
mod upstream;
mod upstream_table;

pub use config::{Forwarding, Gateway, Timeouts};
pub use gather::GatherRoute;
pub use resolution::{Lookup, Resolution, resolve};
pub use routed::{Content, NoApp, RouteContent, RouteLimits, Routed};
pub use server_set::{ServerEntry, Upstream, UpstreamOptions};
pub use target::{Target, TargetError};
