//! The open loop: what is due is sent, waits, gets a connection of its own, or is given up.

use jissoku_load::{Arrival, Faults, Idle, OnBusy, Outcome, Pace, Plan, Until};

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
