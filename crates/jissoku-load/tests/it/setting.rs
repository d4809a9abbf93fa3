//! What all tests begin with: a plan that makes sense, and how it is carried out.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use jissoku_load::{
    Arrival, Control, Driver, Expected, Failure, Idle, LanePlan, OnBusy, Outcome, Pace, Plan,
    Request, Reuse, Shape, Think, Timepiece, Until, Verify, run,
};
use jissoku_os::socket::Buffering;

/// A plan for `requests` requests on each of `urls`, over 4 connections and one thread.
pub(crate) fn plan(urls: &[String], requests: u64) -> Plan {
    Plan {
        lanes: urls.iter().map(|url| lane(url, &Request::default())).collect(),
        connections: 4,
        threads: 1,
        pipeline: 1,
        pace: Pace::Closed,
        arrival: Arrival::Constant,
        on_busy: OnBusy::Queue,
        deadline_ns: None,
        reuse: Reuse::KeepAlive,
        think: Think::Never,
        ramp_up_ns: 0,
        local: Vec::new(),
        warmup_ns: 0,
        until: Until { duration_ns: None, requests: Some(requests) },
        timeout_ns: 10_000_000_000,
        driver: driver(),
        clock: Timepiece::Best,
        buffering: Buffering::default(),
        keeps_entries: false,
        idle: Idle::Block,
        seed: 1,
        cores: Vec::new(),
    }
}

pub(crate) fn lane(url: &str, request: &Request) -> LanePlan {
    let address = url.parse().expect("it is a URL");
    let shape = Shape {
        name: request.method.clone(),
        wire: request.render(&address, Reuse::KeepAlive).expect("it can be sent"),
        head_only: request.is_head(),
        expected: hello(),
    };
    LanePlan { tls: None, shapes: vec![shape], watch: None, address }
}

/// The driver under test, if this kernel has it.
fn driver() -> Driver {
    if crate::DRIVER == Driver::Uring && !jissoku_os::uring::is_available() {
        let skipped = "skipped: this kernel gives us no io_uring; epoll is tested again";
        let _told = writeln!(std::io::stderr(), "{skipped}");
        return Driver::Epoll;
    }
    crate::DRIVER
}

pub(crate) fn hello() -> Expected {
    Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec()))
}

pub(crate) fn measure(plan: &Plan) -> Outcome {
    try_to_measure(plan).expect("it can be measured")
}

pub(crate) fn try_to_measure(plan: &Plan) -> Result<Outcome, Failure> {
    plan.check().expect("the plan makes sense");
    let (interrupt, _never) = UnixStream::pair().expect("a pair can be had");
    run(plan, Control { interrupt: interrupt.as_fd(), on_edge: &|_| {}, listener: None })
}
