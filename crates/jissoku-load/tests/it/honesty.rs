//! Every request that was sent or due is in the metrics, and the self-checks pass.

use jissoku_load::report::{Format, Report, TargetReport};
use jissoku_load::{Pace, Percentile, Plan, Slo, SloResult, StopCondition, Support};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan, summarise};

const MILLISECOND_NS: u64 = 1_000_000;

fn report(plan: &Plan) -> Report {
    summarise(plan, &measure(plan))
}

fn check(report: &Report, name: &str) -> Option<bool> {
    let found = report.checks.iter().find(|check| check.name == name);
    found.expect("it was looked at").passed
}

fn percentile(target: &TargetReport, name: &str) -> Percentile {
    *target.percentiles.iter().find(|percentile| percentile.name == name).expect("it is reported")
}

/// Responds to 40 requests and no more.
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
    // The 40 responses take a fifth of the window, and on a busy machine not much more than half.
    plan.pace = Pace::constant(200);
    plan.stop = StopCondition { duration_ns: Some(1_000 * MILLISECOND_NS), requests: None };
    let report = report(&plan);
    let (target, account) = (&report.targets[0], report.targets[0].accounting);
    assert_eq!((account.ok, account.unanswered, account.sent), (40, 4, 44));
    // 200 requests are due in the window, the first one at its start.
    assert!(account.never_sent >= 156, "{account:?}");
    assert!(percentile(target, "p50").is_lower_bound);
    assert!(target.waited_ns_max >= 200 * MILLISECOND_NS);
    assert_eq!(check(&report, "accounting"), Some(true));
    assert_eq!(check(&report, "achieved_over_offered"), Some(false));
    assert!(report.has_failed_check());
    let page = report.to_string();
    assert!(page.contains(">= ") && page.contains("lower bound"), "{page}");
    // Some 150 of 200 are censored, after any time up to the window's length: the upper half has no
    // estimate.
    assert!(percentile(target, "p90").estimate_ns.is_none(), "{:?}", percentile(target, "p90"));
    assert!(page.contains("failed: achieved_over_offered"), "{page}");
}

#[test]
fn a_closed_loop_counts_censored_requests() {
    let server = stalls();
    let mut plan = plan(&[server.url()], 1);
    // Far longer than the 40 responses take, on a busy machine too.
    plan.stop = StopCondition { duration_ns: Some(1_000 * MILLISECOND_NS), requests: None };
    let report = report(&plan);
    let account = report.targets[0].accounting;
    assert_eq!((account.carried, account.sent, account.ok, account.unanswered), (0, 44, 40, 4));
    assert_eq!(check(&report, "accounting"), Some(true));
    assert!(percentile(&report.targets[0], "p95").is_lower_bound);
    // Which of two sentences is printed depends on how long the 40 responses took.
    assert!(report.to_string().contains("under-represented"));
    let bounds = "4 requests were in flight at the end, and count with the time they waited";
    let words = report.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(bounds), "{report}");
    assert!(!words.contains("no correct, timely response"), "{report}");
}

#[test]
fn a_timeout_counts_with_the_time_waited() {
    let server = Server::new(|place| match place.overall {
        0..4 => Act::Ignore,
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 40);
    plan.timeout_ns = 1_000 * MILLISECOND_NS;
    let report = report(&plan);
    let target = &report.targets[0];
    assert_eq!((target.accounting.ok, target.accounting.timeouts), (36, 4));
    assert!(target.waited_ns_max >= 1_000 * MILLISECOND_NS);
    assert!(percentile(target, "p99").is_lower_bound);
    assert_eq!(percentile(target, "p99").support, Support::None);
    assert_eq!(check(&report, "accounting"), Some(true));
    check_formats(&report);
}

/// A tenth of the requests have waited a second, so that the mean is a tenth of that at least.
fn check_formats(report: &Report) {
    let mean = report.targets[0].mean.expect("there are requests");
    assert!(mean.is_lower_bound && mean.value_ns >= 100 * MILLISECOND_NS, "{mean:?}");
    let text = |format| report.write_as(format).expect("it can be written");
    let ours = mean.value_ns;
    for (format, expected) in [
        (Format::Csv, format!(",mean_ns,{ours},true,")),
        (Format::Csv, ",max_ns,1".to_owned()),
        (Format::Benchstat, format!(" {ours} ns/op-or-more ")),
        (Format::Benchstat, " p99-ns-or-more".to_owned()),
        (Format::OpenMetrics, "jissoku_waited_seconds_count{".to_owned()),
        (Format::Json, format!("\"mean\":{{\"value_ns\":{ours},\"is_lower_bound\":true}}")),
        (Format::Human, "mean     >= ".to_owned()),
        (Format::Human, "4 requests had no correct, timely response, and count".to_owned()),
    ] {
        let page = text(format);
        assert!(page.contains(&expected), "{expected:?} in {page}");
    }
    let waited = text(Format::OpenMetrics);
    let count = waited.lines().find(|line| line.starts_with("jissoku_waited_seconds_count{"));
    assert!(count.is_some_and(|line| line.ends_with(" 4")), "{waited}");
}

#[test]
fn requests_in_flight_at_the_opening_are_accounted_for() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    for (pipeline, pace) in [(1, Pace::Closed), (5, Pace::Closed), (3, Pace::constant(20_000))] {
        let mut plan = plan(&[server.url()], 1);
        (plan.pipeline, plan.pace) = (pipeline, pace);
        plan.warmup_ns = 20 * MILLISECOND_NS;
        plan.stop = StopCondition { duration_ns: Some(100 * MILLISECOND_NS), requests: None };
        let report = report(&plan);
        assert_eq!(check(&report, "accounting"), Some(true));
        // With few responses, or in the open loop, the check does not apply.
        assert_ne!(check(&report, "littles_law"), Some(false));
    }
}

#[test]
fn every_error_is_accounted_for() {
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
    let account = report.targets[0].accounting;
    assert_eq!((account.ok, account.http_errors, account.io_errors), (60, 40, 20));
    assert_eq!((account.unsolicited, account.sent), (20, 120));
    assert_eq!(check(&report, "accounting"), Some(true));
}

#[test]
fn objectives_are_met_violated_or_undecided() {
    let server = Server::new(|place| match place.overall % 10 {
        9 => Act::Say(HELLO.replace("200", "503")),
        _ => Act::Say(HELLO.to_owned()),
    });
    let targets = report(&plan(&[server.url()], 400)).targets;
    let judge = |text: &str| text.parse::<Slo>().expect("it is one").evaluate(&targets);
    assert_eq!(judge("p50<1h".replace("1h", "60m").as_str()), SloResult::Met);
    assert_eq!(judge("errors<10.1%"), SloResult::Met);
    assert!(matches!(judge("errors<10%"), SloResult::Violated(_)));
    assert!(matches!(judge("p50<1ns,p99.9<1s"), SloResult::Violated(_)));
    // What did not get a correct response has no longest and no mean time.
    assert!(matches!(judge("max<60m"), SloResult::Undecided(_)));
    assert!(matches!(judge("mean<60m"), SloResult::Undecided(_)));
    assert!(matches!(judge("max<1ns"), SloResult::Violated(_)));
    assert!(matches!(judge("p50<60m,p99.9<1s"), SloResult::Undecided(_)));
}
