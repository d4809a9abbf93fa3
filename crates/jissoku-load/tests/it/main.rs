//! The whole stopwatch against servers whose every act is known: it must recover what was planted.

mod closed_loop;
mod counts;
mod faults;
mod honesty;
mod open_loop;
mod plans;
mod rotation;
mod scripted;
mod windows;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use jissoku_load::{
    Arrival, Control, Expected, Failure, Idle, LanePlan, OnBusy, Outcome, Pace, Plan, Request,
    Reuse, Shape, Think, Until, Verify, run,
};

/// A plan for `requests` requests on each of `urls`, over 4 connections and one thread.
fn plan(urls: &[String], requests: u64) -> Plan {
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
        idle: Idle::Block,
        seed: 1,
        cores: Vec::new(),
    }
}

fn lane(url: &str, request: &Request) -> LanePlan {
    let address = url.parse().expect("it is a URL");
    let shape = Shape {
        name: request.method.clone(),
        wire: request.render(&address, Reuse::KeepAlive).expect("it can be sent"),
        head_only: request.is_head(),
        expected: hello(),
    };
    LanePlan { shapes: vec![shape], watch: None, address }
}

fn hello() -> Expected {
    Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec()))
}

fn measure(plan: &Plan) -> Outcome {
    try_to_measure(plan).expect("it can be measured")
}

fn try_to_measure(plan: &Plan) -> Result<Outcome, Failure> {
    plan.check().expect("the plan makes sense");
    let (interrupt, _never) = UnixStream::pair().expect("a pair can be had");
    run(plan, Control { interrupt: interrupt.as_fd(), on_edge: &|_| {}, on_second: None })
}
