//! The plan of a run; `plan_check.rs` validates it.

pub(crate) mod address;
pub(crate) mod connect_to;
pub(crate) mod expect;
pub(crate) mod invalid;
pub(crate) mod options;
pub(crate) mod pace;
pub(crate) mod plan_check;
pub(crate) mod request_spec;
pub(crate) mod tls;
pub(crate) mod trace;

use std::net::IpAddr;

use jissoku_os::socket::SocketOptions;

use crate::plan::address::Address;
use crate::plan::options::{ClockSource, Driver, Idle, Order, Reuse, StopCondition, Think};
use crate::plan::pace::{Arrival, OnBusy, Pace};
use crate::plan::request_spec::RequestSpec;
use crate::plan::tls::Tls;
use crate::plan::trace::Trace;
use crate::protocol::opening_handshake::OpeningHandshake;

/// One target and the requests sent to it.
#[derive(Debug)]
pub struct TargetPlan {
    /// Its URL.
    pub address: Address,
    /// TLS settings; `None` for plain text.
    pub tls: Option<Tls>,
    /// The handshake that turns each connection into a WebSocket; `None` for HTTP.
    pub handshake: Option<OpeningHandshake>,
    /// The requests, sent in this order on each connection.
    pub specs: Vec<RequestSpec>,
    /// Root of the process tree whose CPU time is measured.
    pub watch_pid: Option<i32>,
}

impl TargetPlan {
    /// Requests in plain text, of a server that is not watched.
    pub fn new(address: Address, specs: Vec<RequestSpec>) -> Self {
        Self { address, tls: None, handshake: None, specs, watch_pid: None }
    }
}

/// The plan of a run.
#[derive(Debug)]
pub struct Plan {
    /// The targets. They are loaded concurrently by the same workers (a paired trial if there are
    /// two), unless `slice_ns` is set.
    pub targets: Vec<TargetPlan>,
    /// Connections to each target, over all workers.
    pub connections: usize,
    /// Number of worker threads.
    pub threads: usize,
    /// Requests in flight on one connection.
    pub pipeline: u16,
    /// When requests are sent.
    pub pace: Pace,
    /// The arrival process of the open loop.
    pub arrival: Arrival,
    /// What happens to a due request while all connections are busy.
    pub on_busy: OnBusy,
    /// Open loop: a request that has waited longer for a connection is shed.
    pub deadline_ns: Option<u64>,
    /// In which order the requests of each target are sent.
    pub order: Order,
    /// How long connections are kept.
    pub reuse: Reuse,
    /// Think time of the closed loop.
    pub think: Think,
    /// Closed loop: the first requests of all connections are spread over this time.
    pub ramp_up_ns: u64,
    /// Local addresses of connections, used in turn; empty lets the kernel choose.
    pub local: Vec<IpAddr>,
    /// Load before the window, not counted.
    pub warmup_ns: u64,
    /// Length of a time slice, if targets are loaded one at a time; `None` loads all at once.
    pub slice_ns: Option<u64>,
    /// With time slices: one begins each time this has passed since the start, so that those of
    /// several load generators are at the same times; `None`: as soon as the one before it has ended.
    pub slot_ns: Option<u64>,
    /// With time slices: this many requests at the start of each are sent and not counted.
    pub settling_requests: u64,
    /// With time slices: the window opens when each target has been sent this many requests.
    pub warmup_requests: u64,
    /// Before the first request the watched servers are measured without load for this time.
    pub idle_watch_ns: u64,
    /// When the run ends.
    pub stop: StopCondition,
    /// Timeout of a request.
    pub timeout_ns: u64,
    /// The kernel interface of the event loop.
    pub driver: Driver,
    /// The clock.
    pub clock: ClockSource,
    /// Socket options of connections.
    pub buffering: SocketOptions,
    /// Whether a record of every request is kept.
    pub keeps_records: bool,
    /// What a worker does when there is nothing to do.
    pub idle: Idle,
    /// Seed of all random choices, such as the order of targets in each round.
    pub seed: u64,
    /// Worker i runs on core i of these, cyclically; empty lets the kernel choose.
    pub cores: Vec<usize>,
}

impl Plan {
    /// A closed loop over one connection for each target, without a limit, which a plan needs.
    pub fn new(targets: Vec<TargetPlan>) -> Self {
        Self {
            targets,
            connections: 1,
            threads: 1,
            pipeline: 1,
            pace: Pace::Closed,
            arrival: Arrival::Constant,
            on_busy: OnBusy::Queue,
            deadline_ns: None,
            order: Order::PerConnection,
            reuse: Reuse::KeepAlive,
            think: Think::Never,
            ramp_up_ns: 0,
            local: Vec::new(),
            warmup_ns: 0,
            slice_ns: None,
            slot_ns: None,
            settling_requests: 0,
            warmup_requests: 0,
            idle_watch_ns: 0,
            stop: StopCondition::default(),
            timeout_ns: 10_000_000_000,
            driver: Driver::Epoll,
            clock: ClockSource::Best,
            buffering: SocketOptions::default(),
            keeps_records: false,
            idle: Idle::Block,
            seed: 1,
            cores: Vec::new(),
        }
    }

    /// The number of requests on each target that ends the run, given or from the trace.
    pub(crate) fn requests(&self) -> Option<u64> {
        let traced = self.pace.trace().map(Trace::requests);
        [self.stop.requests, traced].into_iter().flatten().min()
    }
}
