//! A default plan for tests, and how it is run.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use jissoku_load::report::Report;
use jissoku_load::{
    Arrival, ClockSource, Control, Driver, Expected, Idle, OnBusy, Order, Outcome, Pace, Plan,
    Request, RequestSpec, ResponseFraming, Reuse, RunError, StopCondition, TargetPlan, Think,
    Verify, run, run_checks,
};
use jissoku_os::socket::SocketOptions;

/// A plan for `requests` requests on each of `urls`, over 4 connections and one thread.
pub(crate) fn plan(urls: &[String], requests: u64) -> Plan {
    Plan {
        targets: urls.iter().map(|url| target(url, &Request::default())).collect(),
        connections: 4,
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
        settling_requests: 0,
        warmup_requests: 0,
        idle_watch_ns: 0,
        stop: StopCondition { duration_ns: None, requests: Some(requests) },
        timeout_ns: 10_000_000_000,
        driver: driver(),
        clock: ClockSource::Best,
        buffering: SocketOptions::default(),
        keeps_records: false,
        idle: Idle::Block,
        seed: 1,
        cores: Vec::new(),
    }
}

pub(crate) fn target(url: &str, request: &Request) -> TargetPlan {
    let address = url.parse().expect("it is a URL");
    let spec = RequestSpec {
        name: request.method.clone(),
        template: request.render(&address, Reuse::KeepAlive).expect("it can be sent"),
        framing: ResponseFraming::of_method(&request.method),
        expected: hello(),
    };
    TargetPlan { tls: None, handshake: None, specs: vec![spec], watch_pid: None, address }
}

/// The driver under test, if this kernel supports it.
fn driver() -> Driver {
    if crate::DRIVER == Driver::Uring && !jissoku_os::uring::is_available() {
        let skipped = "skipped: this kernel has no io_uring; epoll is tested again";
        // The error is ignored: stderr may be closed.
        let _written = writeln!(std::io::stderr(), "{skipped}");
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

pub(crate) fn summarise(plan: &Plan, outcome: &Outcome) -> Report {
    Report::new(plan, outcome, run_checks(plan, outcome))
}

pub(crate) fn try_to_measure(plan: &Plan) -> Result<Outcome, RunError> {
    plan.check().expect("the plan makes sense");
    let (interrupt, _never) = UnixStream::pair().expect("a pair can be had");
    run(plan, Control { interrupt: interrupt.as_fd(), on_window_event: &|_| {}, observer: None })
}
