//! Requests that one system call submits have the time of that call, not those at which they were queued.

use std::collections::HashSet;

use jissoku_load::{Driver, Outcome, Pace, Plan, Trace};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan};

/// Connections, and requests: the first one of each connection leaves with the first call.
const COUNT: usize = 16;

fn first_requests(server: &Server, change: impl FnOnce(&mut Plan)) -> Option<Outcome> {
    let mut plan = plan(&[server.url()], COUNT as u64);
    (plan.connections, plan.keeps_records) = (COUNT, true);
    change(&mut plan);
    // Without io_uring on this kernel the plan falls back to epoll, which sends each request at once.
    (plan.driver == Driver::Uring).then(|| measure(&plan))
}

#[test]
fn a_closed_loop_stamps_requests_when_they_are_submitted() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let Some(outcome) = first_requests(&server, |_| {}) else { return };
    let sent: HashSet<u64> = outcome.records.iter().map(|record| record.sent_ns).collect();
    assert_eq!((outcome.records.len(), sent.len()), (COUNT, 1));
    assert!(outcome.records.iter().all(|record| record.intended_ns == record.sent_ns));
}

#[test]
fn an_open_loop_counts_the_time_in_the_queue_as_its_own_lateness() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let times = "0\n".repeat(COUNT);
    let trace = Trace::read("at once", times.as_bytes()).expect("the trace is valid");
    let outcome = first_requests(&server, |plan| plan.pace = Pace::Trace(trace));
    let Some(outcome) = outcome else { return };
    let sent: HashSet<u64> = outcome.records.iter().map(|record| record.sent_ns).collect();
    assert_eq!((outcome.records.len(), sent.len()), (COUNT, 1));
    let late = |record: &jissoku_load::RequestRecord| record.sent_ns - record.intended_ns;
    let counters = &outcome.targets[0].counters;
    assert_eq!(counters.lag.sum_ns(), outcome.records.iter().map(late).sum::<u64>());
    assert_eq!((counters.lag.count(), counters.lateness.count()), (COUNT as u64, COUNT as u64));
}
