//! The entries of every request say the same as the counts and histograms.

use jissoku_load::report::raw;
use jissoku_load::{Kind, Outcome, Pace, Until};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan};

fn latencies(outcome: &Outcome) -> Vec<u64> {
    let right = outcome.entries.iter().filter(|entry| entry.kind == Kind::Ok);
    let mut latencies: Vec<u64> = right.map(|entry| entry.done_ns - entry.intended_ns).collect();
    latencies.sort_unstable();
    latencies
}

#[test]
fn histograms_are_those_of_the_entries() {
    for pace in [Pace::Closed, Pace::Constant { rate_rps: 20_000 }] {
        let server = Server::new(|_| Act::Say(HELLO.to_owned()));
        let mut plan = plan(&[server.url()], 2_000);
        (plan.pace, plan.keeps_entries, plan.threads) = (pace, true, 2);
        let outcome = measure(&plan);
        let (latencies, counted) = (latencies(&outcome), &outcome.lanes[0].tally.latency);
        assert_eq!(latencies.len(), 2_000);
        assert_eq!((counted.count(), counted.max_ns()), (2_000, latencies[1_999]));
        assert_eq!(counted.sum_ns(), latencies.iter().sum::<u64>());
        for per_mille in [1, 500, 900, 990, 999] {
            let truth = latencies[per_mille * 2 - 1];
            let told = counted.quantile(per_mille as u64);
            assert!(told >= truth && told - truth <= truth / 1_000, "{told} for {truth}");
        }
    }
}

fn lines(outcome: &Outcome) -> Vec<String> {
    let mut page = Vec::new();
    raw::write(outcome, &mut page).expect("memory takes everything");
    let page = String::from_utf8(page).expect("it is text");
    let mut lines = page.lines();
    assert_eq!(lines.next(), Some("lane,intended_ns,sent_ns,done_ns,status,kind"));
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
    (plan.connections, plan.keeps_entries) = (2, true);
    let ends = lines(&measure(&plan));
    let wanted = ["0 0 closed", "0 200 ok", "0 200 ok", "0 200 ok", "0 404 status", "0 404 status"];
    assert_eq!(ends, wanted);
}

#[test]
fn what_has_no_answer_at_the_end_is_among_the_entries() {
    let server = Server::new(|_| Act::Ignore);
    let mut plan = plan(&[server.url()], 9);
    plan.until = Until { duration_ns: Some(400_000_000), requests: None };
    (plan.connections, plan.keeps_entries) = (2, true);
    assert_eq!(lines(&measure(&plan)), ["0 0 unanswered", "0 0 unanswered"]);
}

#[test]
fn nobody_keeps_what_nobody_wants() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    assert!(measure(&plan(&[server.url()], 20)).entries.is_empty());
}
