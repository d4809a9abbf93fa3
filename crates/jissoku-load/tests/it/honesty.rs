//! Nothing that was sent or due is left out of the figures, and the stopwatch's own account holds.

use jissoku_load::report::{LaneReport, Report};
use jissoku_load::{Figure, Objective, Pace, Plan, Support, Until, Verdict};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan};

const MILLISECOND_NS: u64 = 1_000_000;

fn report(plan: &Plan) -> Report {
    Report::new(plan, &measure(plan))
}

fn check(report: &Report, name: &str) -> Option<bool> {
    let found = report.checks.iter().find(|check| check.name == name);
    found.expect("it was looked at").passed
}

fn figure(lane: &LaneReport, name: &str) -> Figure {
    *lane.figures.iter().find(|figure| figure.name == name).expect("it was told")
}

/// Answers 40 requests and no more.
fn stalls() -> Server {
    Server::new(|place| match place.overall {
        0..40 => Act::Say(HELLO.to_owned()),
        _ => Act::Ignore,
    })
}

#[test]
fn requests_without_an_answer_are_lower_bounds() {
    let server = stalls();
    let mut plan = plan(&[server.url()], 1);
    // The 40 answers take a fifth of the window, and on a busy machine not much more than half.
    plan.pace = Pace::Constant { rate_rps: 200 };
    plan.until = Until { duration_ns: Some(1_000 * MILLISECOND_NS), requests: None };
    let report = report(&plan);
    let (lane, account) = (&report.lanes[0], report.lanes[0].accounting);
    assert_eq!((account.ok, account.unanswered, account.sent), (40, 4, 44));
    // 200 requests are due in the window; the first at its very beginning.
    assert!(account.never_sent >= 156, "{account:?}");
    assert!(figure(lane, "p50").is_lower_bound);
    assert!(lane.waited_ns_max >= 200 * MILLISECOND_NS);
    assert_eq!(check(&report, "accounting"), Some(true));
    assert_eq!(check(&report, "achieved_over_offered"), Some(false));
    assert!(report.is_doubtful());
    let page = report.to_string();
    assert!(page.contains(">= ") && page.contains("lower bound"), "{page}");
    // Some 150 of 200 waited, from nothing to the whole window: nobody knows of the upper half.
    assert!(figure(lane, "p90").estimate_ns.is_none(), "{:?}", figure(lane, "p90"));
    assert!(page.contains("failed: achieved_over_offered"), "{page}");
}

#[test]
fn a_closed_loop_keeps_what_waits_at_the_end() {
    let server = stalls();
    let mut plan = plan(&[server.url()], 1);
    // Far longer than the 40 answers take, on a busy machine too.
    plan.until = Until { duration_ns: Some(1_000 * MILLISECOND_NS), requests: None };
    let report = report(&plan);
    let account = report.lanes[0].accounting;
    assert_eq!((account.carried, account.sent, account.ok, account.unanswered), (0, 44, 40, 4));
    assert_eq!(check(&report, "accounting"), Some(true));
    assert!(figure(&report.lanes[0], "p95").is_lower_bound);
    // Which of two sentences says so depends on how long the 40 answers took.
    assert!(report.to_string().contains("under-represented"));
}

#[test]
fn a_time_out_counts_with_the_time_it_was_waited_for() {
    let server = Server::new(|place| match place.overall {
        0..4 => Act::Ignore,
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 40);
    plan.timeout_ns = 1_000 * MILLISECOND_NS;
    let report = report(&plan);
    let lane = &report.lanes[0];
    assert_eq!((lane.accounting.ok, lane.accounting.timeouts), (36, 4));
    assert!(lane.waited_ns_max >= 1_000 * MILLISECOND_NS);
    assert!(figure(lane, "p99").is_lower_bound);
    assert_eq!(figure(lane, "p99").support, Support::None);
    assert_eq!(check(&report, "accounting"), Some(true));
}

#[test]
fn what_was_under_way_when_the_window_opened_is_accounted_for() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    for (pipeline, pace) in
        [(1, Pace::Closed), (5, Pace::Closed), (3, Pace::Constant { rate_rps: 20_000 })]
    {
        let mut plan = plan(&[server.url()], 1);
        (plan.pipeline, plan.pace) = (pipeline, pace);
        plan.warmup_ns = 20 * MILLISECOND_NS;
        plan.until = Until { duration_ns: Some(100 * MILLISECOND_NS), requests: None };
        let report = report(&plan);
        assert_eq!(check(&report, "accounting"), Some(true));
        // With few answers, or another loop than the closed one, the law says nothing.
        assert_ne!(check(&report, "littles_law"), Some(false));
    }
}

#[test]
fn every_fault_has_its_place_in_the_account() {
    let server = Server::new(|place| match place.overall % 6 {
        1 => Act::Say(HELLO.replace("200", "503")),
        2 => Act::SayAndClose(String::new()),
        3 => Act::Say(HELLO.repeat(2)),
        4 => Act::Say("Hello\r\n\r\n".to_owned()),
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 120);
    plan.connections = 1;
    let report = report(&plan);
    let account = report.lanes[0].accounting;
    assert_eq!((account.ok, account.http_errors, account.io_errors), (60, 40, 20));
    assert_eq!((account.unasked, account.sent), (20, 120));
    assert_eq!(check(&report, "accounting"), Some(true));
}

#[test]
fn objectives_are_met_broken_or_undecided() {
    let server = Server::new(|place| match place.overall % 10 {
        9 => Act::Say(HELLO.replace("200", "503")),
        _ => Act::Say(HELLO.to_owned()),
    });
    let lanes = report(&plan(&[server.url()], 400)).lanes;
    let judge = |text: &str| text.parse::<Objective>().expect("it is one").judge(&lanes);
    assert_eq!(judge("p50<1h".replace("1h", "60m").as_str()), Verdict::Met);
    assert_eq!(judge("errors<10.1%"), Verdict::Met);
    assert!(matches!(judge("errors<10%"), Verdict::Broken(_)));
    assert!(matches!(judge("p50<1ns,p99.9<1s"), Verdict::Broken(_)));
    assert!(matches!(judge("p50<60m,p99.9<1s"), Verdict::Undecided(_)));
}
