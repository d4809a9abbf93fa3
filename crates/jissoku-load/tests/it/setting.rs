//! A default plan for tests, and how it is run.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use jissoku_load::report::Report;
use jissoku_load::{
    Control, Driver, Expected, Outcome, Plan, Request, RequestSpec, ResponseFraming, Reuse,
    RunError, StopCondition, TargetPlan, Verify, run, run_checks,
};

/// A plan for `requests` requests on each of `urls`, over 4 connections and one thread.
pub(crate) fn plan(urls: &[String], requests: u64) -> Plan {
    Plan {
        connections: 4,
        stop: StopCondition { duration_ns: None, requests: Some(requests) },
        driver: driver(),
        ..Plan::new(urls.iter().map(|url| target(url, &Request::default())).collect())
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
    TargetPlan::new(address, vec![spec])
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
    run(
        plan,
        Control {
            interrupt: interrupt.as_fd(),
            on_window_event: &|_| {},
            observer: None,
            starter: None,
        },
    )
}
