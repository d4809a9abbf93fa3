//! The run of a plan: workers with their connections, timers and clocks, and what they record.
//!
//! `worker.rs` is the event loop, over `epoll_transport.rs` or `uring_transport.rs`; `exchange.rs`
//! handles requests, `connect.rs` connections, and `worker_set.rs` starts and joins the workers.

pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod control;
pub(crate) mod counters;
pub(crate) mod cpu_monitor;
pub(crate) mod dispatcher;
pub(crate) mod epoll_transport;
pub(crate) mod error;
pub(crate) mod exchange;
pub(crate) mod histogram;
pub(crate) mod interval;
pub(crate) mod outcome;
pub(crate) mod random;
pub(crate) mod recorder;
pub(crate) mod request_log;
pub(crate) mod schedule;
pub(crate) mod slice_log;
pub(crate) mod start;
pub(crate) mod target;
pub(crate) mod time_slices;
pub(crate) mod timers;
pub(crate) mod transport;
pub(crate) mod uring_transport;
pub(crate) mod window;
pub(crate) mod worker;
pub(crate) mod worker_result;
pub(crate) mod worker_set;
