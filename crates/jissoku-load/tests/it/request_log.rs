//! The request log agrees with counters and histograms.

use jissoku_load::report::write_records;
use jissoku_load::{Outcome, Pace, RequestOutcome, StopCondition};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan};

fn latencies(outcome: &Outcome) -> Vec<u64> {
    let right = outcome.records.iter().filter(|record| record.kind == RequestOutcome::Ok);
    let mut latencies: Vec<u64> = right.map(|record| record.done_ns - record.intended_ns).collect();
    latencies.sort_unstable();
    latencies
}

#[test]
fn histograms_are_those_of_the_entries() {
    for pace in [Pace::Closed, Pace::constant(20_000)] {
        let server = Server::new(|_| Act::Say(HELLO.to_owned()));
        let mut plan = plan(&[server.url()], 2_000);
        (plan.pace, plan.keeps_records, plan.threads) = (pace, true, 2);
        let outcome = measure(&plan);
        let (latencies, counted) = (latencies(&outcome), &outcome.targets[0].counters.latency);
        assert_eq!(latencies.len(), 2_000);
        assert_eq!((counted.count(), counted.max_ns()), (2_000, latencies[1_999]));
        assert_eq!(counted.sum_ns(), latencies.iter().sum::<u64>());
        for per_mille in [1, 500, 900, 990, 999] {
            let truth = latencies[per_mille * 2 - 1];
            let reported = counted.quantile(per_mille as u64);
            assert!(
                reported >= truth && reported - truth <= truth / 1_000,
                "{reported} for {truth}"
            );
        }
    }
}

fn lines(outcome: &Outcome) -> Vec<String> {
    let mut page = Vec::new();
    write_records(outcome, &mut page).expect("memory takes everything");
    let page = String::from_utf8(page).expect("it is text");
    let mut lines = page.lines();
    assert_eq!(lines.next(), Some("target,intended_ns,sent_ns,done_ns,status,outcome"));
    let end = |line: &str| {
        let parts: Vec<&str> = line.split(',').collect();
        let time = |part: usize| parts[part].parse::<u64>().expect("it is a number");
        assert!(time(1) <= time(2) && time(2) <= time(3), "{line}");
        format!("{} {} {}", parts[0], parts[4], parts[5])
    };
    let mut ends: Vec<String> = lines.map(end).collect();
    ends.sort_unstable();
    ends
}

#[test]
fn each_end_has_its_kind_and_status() {
    let server = Server::new(|place| match place.overall {
        0..3 => Act::Say(HELLO.to_owned()),
        3..5 => Act::Say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()),
        _ => Act::SayAndClose(String::new()),
    });
    let mut plan = plan(&[server.url()], 6);
    (plan.connections, plan.keeps_records) = (2, true);
    let ends = lines(&measure(&plan));
    let wanted = ["0 0 closed", "0 200 ok", "0 200 ok", "0 200 ok", "0 404 status", "0 404 status"];
    assert_eq!(ends, wanted);
}

#[test]
fn unanswered_requests_are_in_the_log() {
    let server = Server::new(|_| Act::Ignore);
    let mut plan = plan(&[server.url()], 9);
    plan.stop = StopCondition { duration_ns: Some(400_000_000), requests: None };
    (plan.connections, plan.keeps_records) = (2, true);
    assert_eq!(lines(&measure(&plan)), ["0 0 unanswered", "0 0 unanswered"]);
}

#[test]
fn no_request_log_is_kept_by_default() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    assert!(measure(&plan(&[server.url()], 20)).records.is_empty());
}
