//! A reverse proxy: forwards requests to another server, through the handler interface of
//! `jissoku-server`.
//!
//! Each worker has its own connections to servers, driven by the worker's own driver. Its [`handler`]
//! receives every event, passes it to the owner of what it changes, and carries out what follows:
//!
//! | events | owner | what it owns |
//! |---|---|---|
//! | head and body of a request, a response is wanted | `ClientSide` ([`client`]) | how far the request was received, and its exchange |
//! | half-close, end of a client | `Exchange` ([`exchange`]) | one proxied request: its bytes, its server and tries, its response, how it ended |
//! | connected, data, end of a server, timers of phases | `UpstreamConnection` ([`upstream_connection`]) | its phase, and with it one timer, an entry in the pool, a place at a server |
//! | retry, second copy, queue, reload | [`handler`] | times and order; the decisions are those of [`failure`] and [`policy`], pure functions |
//!
//! What has to hold, and is checked with random orders of events: a response goes to the request that
//! caused it, the timer of an unused connection ends no request, and everything is freed.

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
mod target;
mod transfer;
mod upstream_connection;
mod use_report;
mod worker_upstream;

use jissoku_os::slab;

pub use config::{Forwarding, Gateway, RouteEdit, Timeouts};
pub use gather::GatherRoute;
pub use routed::{Content, NoApp, RouteContent, RouteEntry, RouteLimits, Routed, TextWithFields};
pub use server_set::{ServerEntry, UpstreamGroup, UpstreamOptions};
pub use target::{Lookup, Resolution, Target, resolve};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind;

pub(crate) type Key = slab::Key<Kind>;
pub(crate) type Slab<T> = slab::Slab<T, Kind>;
