//! The open loop: a due request is sent, waits, gets a new connection, or is dropped.

use jissoku_load::{
    Arrival, ErrorCounts, Idle, OnBusy, Outcome, Pace, Plan, Rate, StopCondition, Trace,
};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan, summarise};

const MILLISECOND_NS: u64 = 1_000_000;

/// 100 requests at a rate that cannot be reached, on one connection.
fn flood(server: &Server, change: impl Fn(&mut Plan)) -> Outcome {
    let mut plan = plan(&[server.url()], 100);
    (plan.connections, plan.pace) = (1, Pace::constant(1_000_000_000));
    change(&mut plan);
    measure(&plan)
}

#[test]
fn requests_without_a_free_connection_are_dropped() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let outcome = flood(&server, |plan| plan.on_busy = OnBusy::Drop);
    let counters = &outcome.targets[0].counters;
    assert_eq!(counters.requests + counters.shed, 100);
    assert!(counters.shed > 0 && counters.requests > 0, "{} were dropped", counters.shed);
    assert_eq!(server.requests(), counters.requests);
}

#[test]
fn hybrid_idling_sends_everything_that_is_due() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let mut plan = plan(&[server.url()], 100);
    (plan.pace, plan.idle) = (Pace::constant(2_000), Idle::Hybrid);
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, server.requests(), counters.lag.count()), (100, 100, 100));
}

#[test]
fn requests_past_their_deadline_are_dropped() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    // Nothing is sent within a nanosecond of its due time.
    let outcome = flood(&server, |plan| plan.deadline_ns = Some(1));
    let counters = &outcome.targets[0].counters;
    assert_eq!((counters.requests + counters.shed, server.requests()), (100, counters.requests));
    assert!(counters.shed > 0);
    let outcome = flood(&server, |plan| plan.deadline_ns = Some(3_600_000 * MILLISECOND_NS));
    assert_eq!((outcome.targets[0].counters.requests, outcome.targets[0].counters.shed), (100, 0));
}

#[test]
fn connections_are_added_while_all_are_busy_and_never_too_many() {
    for connections_max in [1, 5] {
        // There are no responses: every connection keeps its request.
        let server = Server::new(|_| Act::Ignore);
        let mut plan = plan(&[server.url()], 1);
        (plan.connections, plan.pace) = (1, Pace::constant(1_000));
        plan.on_busy = OnBusy::Open { connections_max };
        plan.stop = StopCondition { duration_ns: Some(500 * MILLISECOND_NS), requests: None };
        let outcome = measure(&plan);
        assert_eq!(outcome.targets[0].opened, connections_max as u64);
        assert_eq!(outcome.targets[0].in_flight, connections_max as u64);
    }
}

#[test]
fn added_connections_are_used_for_due_requests() {
    let server = Server::new(|_| Act::Echo);
    let outcome = flood(&server, |plan| {
        plan.on_busy = OnBusy::Open { connections_max: 8 };
        plan.targets[0].specs[0].expected =
            jissoku_load::Expected::new(jissoku_load::Verify::All, Vec::new(), None);
    });
    let target = &outcome.targets[0];
    assert_eq!((target.counters.requests, target.counters.errors), (100, ErrorCounts::default()));
    assert!((2..=8).contains(&target.opened), "{}", target.opened);
}

#[test]
fn every_kind_of_schedule_sends_what_was_asked_for() {
    for (arrival, pace, threads) in [
        (Arrival::Poisson, Pace::constant(20_000), 1),
        (Arrival::Poisson, Pace::constant(20_000), 2),
        (
            Arrival::Constant,
            Pace::Ramp { from: Rate::per_second(1_000), to: Rate::per_second(50_000) },
            2,
        ),
        (
            Arrival::Poisson,
            Pace::Ramp { from: Rate::per_second(50_000), to: Rate::per_second(1_000) },
            1,
        ),
    ] {
        let server = Server::new(|_| Act::Say(HELLO.to_owned()));
        let mut plan = plan(&[server.url(), server.url()], 200);
        (plan.arrival, plan.pace, plan.threads) = (arrival, pace, threads);
        plan.stop.duration_ns = Some(10_000 * MILLISECOND_NS);
        let outcome = measure(&plan);
        for target in &outcome.targets {
            assert_eq!(
                (target.counters.requests, target.counters.errors),
                (200, ErrorCounts::default())
            );
            assert_eq!((target.counters.lag.count(), target.counters.lateness.count()), (200, 200));
        }
    }
}

fn traced(server: &Server, text: &str, change: impl Fn(&mut Plan)) -> (Plan, Outcome) {
    let trace = Trace::read("arrivals", text.as_bytes()).expect("it makes sense");
    let mut plan = plan(&[server.url()], 1);
    (plan.pace, plan.stop) = (Pace::Trace(trace), StopCondition::default());
    change(&mut plan);
    let outcome = measure(&plan);
    (plan, outcome)
}

#[test]
fn a_trace_is_sent_to_its_end_by_all_threads_together() {
    let burst = "0.010\n".repeat(50);
    let even = (20..101).map(|at| format!("0.{at:03}\n")).collect::<Vec<_>>().concat();
    for threads in [1, 3] {
        let server = Server::new(|_| Act::Say(HELLO.to_owned()));
        let (plan, outcome) =
            traced(&server, &(burst.clone() + &even), |plan| plan.threads = threads);
        let counters = &outcome.targets[0].counters;
        assert_eq!((counters.requests, server.requests(), counters.lag.count()), (131, 131, 131));
        let report = summarise(&plan, &outcome);
        let json = serde_json::to_value(&report).expect("it can be written");
        assert_eq!((&json["arrival"], &json["trace"]["requests"]), (&"trace".into(), &131.into()));
        let target = &report.targets[0];
        let offered = target.rate_rps_offered.expect("a trace offers a rate");
        assert!((offered - target.rate_rps).abs() < 1e-6, "all that was offered was answered");
        assert!(report.to_string().contains("Trace: arrivals, 131 requests in 0.100 s"));
    }
}

#[test]
fn a_trace_may_be_cut_short() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let text = "0\n0.001\n0.002\n0.003\n3600\n";
    let (_, outcome) = traced(&server, text, |plan| plan.stop.requests = Some(2));
    assert_eq!((outcome.targets[0].counters.requests, server.requests()), (2, 2));
    // Long enough for four requests on a machine that is busy with other tests.
    let short = |plan: &mut Plan| plan.stop.duration_ns = Some(1000 * MILLISECOND_NS);
    let (_, outcome) = traced(&server, text, short);
    let target = &outcome.targets[0];
    // Requests that were not due yet are neither offered nor unanswered.
    assert_eq!((target.counters.requests, target.counters.sent, target.unanswered), (4, 4, 0));
}

#[test]
fn dropped_requests_of_a_trace_are_part_of_the_offered_rate() {
    let server = Server::new(|_| Act::Ignore);
    let (plan, outcome) = traced(&server, &"0\n".repeat(100), |plan| {
        plan.connections = 1;
        plan.stop.duration_ns = Some(200 * MILLISECOND_NS);
    });
    assert_eq!((outcome.targets[0].in_flight, outcome.targets[0].unanswered), (1, 100));
    let report = summarise(&plan, &outcome);
    let offered = report.targets[0].rate_rps_offered.expect("a trace offers a rate");
    assert!((offered * report.duration_s - 100.0).abs() < 1e-6, "{offered}");
    let achieved = report.checks.iter().find(|check| check.name == "achieved_over_offered");
    assert!(achieved.is_some_and(|check| (check.value - 0.01).abs() < 1e-9));
}
