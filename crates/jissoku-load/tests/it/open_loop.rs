//! The open loop: what is due is sent, waits, gets a connection of its own, or is given up.

use jissoku_load::report::Report;
use jissoku_load::{Arrival, Faults, Idle, OnBusy, Outcome, Pace, Plan, Trace, Until};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan};

const MILLISECOND_NS: u64 = 1_000_000;

/// Of 100 requests at a rate beyond all means, on one connection.
fn flood(server: &Server, change: impl Fn(&mut Plan)) -> Outcome {
    let mut plan = plan(&[server.url()], 100);
    (plan.connections, plan.pace) = (1, Pace::Constant { rate_rps: 1_000_000_000 });
    change(&mut plan);
    measure(&plan)
}

#[test]
fn what_finds_no_connection_is_dropped_if_so_asked() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let outcome = flood(&server, |plan| plan.on_busy = OnBusy::Drop);
    let tally = &outcome.lanes[0].tally;
    assert_eq!(tally.requests + tally.shed, 100);
    assert!(tally.shed > 0 && tally.requests > 0, "{} were dropped", tally.shed);
    assert_eq!(server.requests(), tally.requests);
}

#[test]
fn who_sleeps_and_then_spins_sends_everything_that_is_due() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let mut plan = plan(&[server.url()], 100);
    (plan.pace, plan.idle) = (Pace::Constant { rate_rps: 2_000 }, Idle::Hybrid);
    let tally = &measure(&plan).lanes[0].tally;
    assert_eq!((tally.requests, server.requests(), tally.lag.count()), (100, 100, 100));
}

#[test]
fn what_has_waited_too_long_is_given_up() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    // Nothing is sent within a nanosecond of its due time.
    let outcome = flood(&server, |plan| plan.deadline_ns = Some(1));
    let tally = &outcome.lanes[0].tally;
    assert_eq!((tally.requests + tally.shed, server.requests()), (100, tally.requests));
    assert!(tally.shed > 0);
    let outcome = flood(&server, |plan| plan.deadline_ns = Some(3_600_000 * MILLISECOND_NS));
    assert_eq!((outcome.lanes[0].tally.requests, outcome.lanes[0].tally.shed), (100, 0));
}

#[test]
fn connections_are_added_while_all_are_busy_and_never_too_many() {
    for connections_max in [1, 5] {
        // Nobody is answered: every connection keeps its request.
        let server = Server::new(|_| Act::Ignore);
        let mut plan = plan(&[server.url()], 1);
        (plan.connections, plan.pace) = (1, Pace::Constant { rate_rps: 1_000 });
        plan.on_busy = OnBusy::Open { connections_max };
        plan.until = Until { duration_ns: Some(500 * MILLISECOND_NS), requests: None };
        let outcome = measure(&plan);
        assert_eq!(outcome.lanes[0].opened, connections_max as u64);
        assert_eq!(outcome.lanes[0].in_flight, connections_max as u64);
    }
}

#[test]
fn added_connections_are_used_by_whoever_is_due() {
    let server = Server::new(|_| Act::Echo);
    let outcome = flood(&server, |plan| {
        plan.on_busy = OnBusy::Open { connections_max: 8 };
        plan.lanes[0].shapes[0].expected =
            jissoku_load::Expected::new(jissoku_load::Verify::All, Vec::new(), None);
    });
    let lane = &outcome.lanes[0];
    assert_eq!((lane.tally.requests, lane.tally.faults), (100, Faults::default()));
    assert!((2..=8).contains(&lane.opened), "{}", lane.opened);
}

#[test]
fn every_kind_of_schedule_sends_what_was_asked_for() {
    for (arrival, pace, threads) in [
        (Arrival::Poisson, Pace::Constant { rate_rps: 20_000 }, 1),
        (Arrival::Poisson, Pace::Constant { rate_rps: 20_000 }, 2),
        (Arrival::Constant, Pace::Ramp { from_rps: 1_000, to_rps: 50_000 }, 2),
        (Arrival::Poisson, Pace::Ramp { from_rps: 50_000, to_rps: 1_000 }, 1),
    ] {
        let server = Server::new(|_| Act::Say(HELLO.to_owned()));
        let mut plan = plan(&[server.url(), server.url()], 200);
        (plan.arrival, plan.pace, plan.threads) = (arrival, pace, threads);
        plan.until.duration_ns = Some(10_000 * MILLISECOND_NS);
        let outcome = measure(&plan);
        for lane in &outcome.lanes {
            assert_eq!((lane.tally.requests, lane.tally.faults), (200, Faults::default()));
            assert_eq!((lane.tally.lag.count(), lane.tally.lateness.count()), (200, 200));
        }
    }
}

fn traced(server: &Server, text: &str, change: impl Fn(&mut Plan)) -> (Plan, Outcome) {
    let trace = Trace::read("arrivals", text.as_bytes()).expect("it makes sense");
    let mut plan = plan(&[server.url()], 1);
    (plan.pace, plan.until) = (Pace::Trace(trace), Until::default());
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
        let tally = &outcome.lanes[0].tally;
        assert_eq!((tally.requests, server.requests(), tally.lag.count()), (131, 131, 131));
        assert!(outcome.duration_ns >= 90 * MILLISECOND_NS, "{}", outcome.duration_ns);
        let report = Report::new(&plan, &outcome);
        let json = serde_json::to_value(&report).expect("it can be written");
        assert_eq!((&json["arrival"], &json["trace"]["requests"]), (&"trace".into(), &131.into()));
        let lane = &report.lanes[0];
        let offered = lane.rate_rps_offered.expect("a trace offers a rate");
        assert!((offered - lane.rate_rps).abs() < 1e-6, "all that was offered was answered");
        assert!(report.to_string().contains("Trace: arrivals, 131 requests in 0.100 s"));
    }
}

#[test]
fn a_trace_may_be_cut_short() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let text = "0\n0.001\n0.002\n0.003\n3600\n";
    let (_, outcome) = traced(&server, text, |plan| plan.until.requests = Some(2));
    assert_eq!((outcome.lanes[0].tally.requests, server.requests()), (2, 2));
    let short = |plan: &mut Plan| plan.until.duration_ns = Some(200 * MILLISECOND_NS);
    let (_, outcome) = traced(&server, text, short);
    let lane = &outcome.lanes[0];
    // What was not due yet was neither offered nor left behind.
    assert_eq!((lane.tally.requests, lane.tally.sent, lane.unanswered), (4, 4, 0));
}

#[test]
fn what_of_a_trace_finds_no_connection_is_told_as_offered() {
    let server = Server::new(|_| Act::Ignore);
    let (plan, outcome) = traced(&server, &"0\n".repeat(100), |plan| {
        plan.connections = 1;
        plan.until.duration_ns = Some(200 * MILLISECOND_NS);
    });
    assert_eq!((outcome.lanes[0].in_flight, outcome.lanes[0].unanswered), (1, 100));
    let report = Report::new(&plan, &outcome);
    let offered = report.lanes[0].rate_rps_offered.expect("a trace offers a rate");
    assert!((offered * report.duration_s - 100.0).abs() < 1e-6, "{offered}");
    let achieved = report.checks.iter().find(|check| check.name == "achieved_over_offered");
    assert!(achieved.is_some_and(|check| (check.value - 0.01).abs() < 1e-9));
}
