//! The closed loop's variations: short-lived connections, pauses, other addresses.

use std::net::IpAddr;

use jissoku_load::{ClockSource, ErrorCounts, Pace, Reuse, StopCondition, Think};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan};

const MILLISECOND_NS: u64 = 1_000_000;

fn polite() -> Server {
    Server::new(|_| Act::Say(HELLO.to_owned()))
}

#[test]
fn a_connection_is_replaced_after_its_share_of_requests() {
    for (pipeline, pace) in [
        (1, Pace::Closed),
        (3, Pace::Closed),
        (1, Pace::constant(1_000_000)),
        (3, Pace::constant(1_000_000)),
    ] {
        let server = polite();
        let mut plan = plan(&[server.url()], 100);
        (plan.reuse, plan.connections) = (Reuse::Requests(7), 1);
        (plan.pipeline, plan.pace) = (pipeline, pace);
        let outcome = measure(&plan);
        let target = &outcome.targets[0];
        assert_eq!(
            (target.counters.requests, target.counters.errors),
            (100, ErrorCounts::default())
        );
        assert_eq!((target.opened, server.connections()), (15, 15));
        assert_eq!(target.connect.count(), 15);
        assert_eq!(server.requests(), 100);
    }
}

#[test]
fn every_clock_counts_the_same_answers() {
    for (clock, name) in [(ClockSource::Kernel, "monotonic"), (ClockSource::Batch, "batch")] {
        let server = polite();
        let mut plan = plan(&[server.url()], 100);
        plan.clock = clock;
        let outcome = measure(&plan);
        let counters = &outcome.targets[0].counters;
        assert_eq!((outcome.clock, counters.requests, counters.latency.count()), (name, 100, 100));
        assert!(counters.latency.max_ns() > 0);
    }
}

#[test]
fn think_time_lowers_the_rate() {
    for think in [
        Think::Constant { think_ns: 20 * MILLISECOND_NS },
        Think::Exponential { mean_ns: 20 * MILLISECOND_NS },
    ] {
        let server = polite();
        let mut plan = plan(&[server.url()], 1);
        plan.think = think;
        plan.stop = StopCondition { duration_ns: Some(200 * MILLISECOND_NS), requests: None };
        let outcome = measure(&plan);
        let counters = &outcome.targets[0].counters;
        // Four connections with think times of 20 ms send at most 40 requests and their first ones;
        // random think times may be shorter, but hardly a fifth.
        let most = if matches!(think, Think::Constant { .. }) { 44 } else { 200 };
        assert!((1..=most).contains(&counters.requests), "{}", counters.requests);
        assert_eq!(counters.errors, ErrorCounts::default());
    }
}

#[test]
fn a_count_with_pauses_ends() {
    let server = polite();
    let mut plan = plan(&[server.url()], 20);
    plan.think = Think::Constant { think_ns: MILLISECOND_NS };
    (plan.ramp_up_ns, plan.threads) = (10 * MILLISECOND_NS, 2);
    assert_eq!(measure(&plan).targets[0].counters.requests, 20);
}

#[test]
fn a_ramp_up_spreads_the_first_requests() {
    // There are no responses, so each connection that has started has one request in flight.
    let server = Server::new(|_| Act::Ignore);
    let mut plan = plan(&[server.url()], 1);
    plan.ramp_up_ns = 3_600_000 * MILLISECOND_NS;
    plan.stop = StopCondition { duration_ns: Some(400 * MILLISECOND_NS), requests: None };
    assert_eq!(measure(&plan).targets[0].in_flight, 1);
}

#[test]
fn connections_come_from_the_addresses_they_were_given() {
    let server = polite();
    let mut plan = plan(&[server.url()], 40);
    plan.local = vec![IpAddr::from([127, 0, 0, 2]), IpAddr::from([127, 0, 0, 3])];
    let outcome = measure(&plan);
    assert_eq!(outcome.targets[0].counters.requests, 40);
    let mut peers = server.peers();
    peers.sort();
    assert_eq!(
        peers,
        [[127, 0, 0, 2], [127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 3]].map(IpAddr::from)
    );
}
