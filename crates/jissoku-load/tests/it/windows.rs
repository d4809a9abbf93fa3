//! The window: its edges, CPU time of servers, intervals, interruption.

use std::cell::RefCell;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use jissoku_load::{Control, Interval, IntervalObserver, Pace, StopCondition, WindowEvent, run};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan, summarise};

const MILLISECOND_NS: u64 = 1_000_000;

fn polite() -> Server {
    Server::new(|_| Act::Say(HELLO.to_owned()))
}

#[test]
fn the_warm_up_counts_for_nothing_and_the_window_is_as_long_as_asked() {
    let server = polite();
    let mut plan = plan(&[server.url()], 1);
    plan.warmup_ns = 20 * MILLISECOND_NS;
    plan.stop = StopCondition { duration_ns: Some(400 * MILLISECOND_NS), requests: None };
    let (opened, closed, warm_up) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let asked = server.meter();
    let on_window_event = |edge| match edge {
        WindowEvent::Open => {
            opened.fetch_add(1, Ordering::SeqCst);
            warm_up.store(asked(), Ordering::SeqCst);
        }
        WindowEvent::Close => {
            closed.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (interrupt, _never) = UnixStream::pair().expect("a pair can be had");
    let control = Control {
        interrupt: interrupt.as_fd(),
        on_window_event: &on_window_event,
        observer: None,
        starter: None,
    };
    let outcome = run(&plan, control).expect("it can be measured");
    assert_eq!((opened.into_inner(), closed.into_inner()), (1, 1));
    assert!(outcome.duration_ns >= 400 * MILLISECOND_NS);
    let target = &outcome.targets[0];
    // Requests in flight when the window opened are answered in it.
    let in_window = server.requests() - warm_up.into_inner() + 4;
    assert!((1..=in_window).contains(&target.counters.requests));
    assert_eq!(target.counters.per_second.iter().sum::<u64>(), target.counters.requests);
    assert_eq!(target.open, 4);
}

#[test]
fn a_watched_process_has_cpu_time() {
    let server = polite();
    let mut plan = plan(&[server.url(), server.url()], 500);
    let me = i32::try_from(std::process::id()).expect("a pid is positive");
    plan.targets[1].watch_pid = Some(me);
    let outcome = measure(&plan);
    assert_eq!(outcome.targets[0].cpu_usage, None);
    let usage = outcome.targets[1].cpu_usage.expect("it is watched");
    assert!(usage.cpu_ns.expect("we did not end") >= outcome.threads[0].cpu_ns);
}

#[test]
fn an_interrupt_keeps_what_was_counted() {
    let (interrupt, bell) = UnixStream::pair().expect("a pair can be had");
    let server = Server::new(move |place| {
        if place.overall == 500 {
            (&bell).write_all(b"!").expect("a peer listens");
        }
        Act::Say(HELLO.to_owned())
    });
    for pace in [Pace::Closed, Pace::constant(50_000)] {
        let mut plan = plan(&[server.url()], 1);
        plan.pace = pace.clone();
        plan.stop = StopCondition { duration_ns: Some(3_600_000 * MILLISECOND_NS), requests: None };
        let control = Control {
            interrupt: interrupt.as_fd(),
            on_window_event: &|_| {},
            observer: None,
            starter: None,
        };
        let outcome = run(&plan, control).expect("it can be measured");
        assert!(outcome.interrupted);
        assert_eq!(outcome.targets[0].counters.errors.total(), 0);
        // The interrupt stays readable, so the second run may end before its first response.
        assert!(pace != Pace::Closed || outcome.targets[0].counters.requests >= 496);
    }
}

#[test]
fn the_report_holds_what_was_counted() {
    let server = polite();
    let plan = plan(&[server.url(), server.url()], 50);
    let report = summarise(&plan, &measure(&plan));
    let json = serde_json::to_value(&report).expect("it can be written");
    assert_eq!(json["schema"], "jissoku.load/2");
    assert_eq!(json["requests"], 100);
    assert_eq!(json["errors"].as_object().expect("an object").len(), 9);
    assert_eq!(json["targets"][1]["requests"], 50);
    assert_eq!(json["targets"][1]["rate_rps_offered"], serde_json::Value::Null);
    assert_eq!(json["targets"][0]["lag_ns_p99"], serde_json::Value::Null);
    assert!(
        json["targets"][0]["latency_ns"]["p999"].as_u64()
            >= json["targets"][0]["latency_ns"]["p50"].as_u64()
    );
    let page = report.to_string();
    assert!(page.contains("50 requests") && page.contains("Closed loop"), "{page}");
    assert_eq!(report.nothing_measured(), None);
}

#[test]
fn intervals_are_observed_and_add_up() {
    let server = polite();
    let mut plan = plan(&[server.url(), server.url()], 1);
    plan.threads = 2;
    plan.stop = StopCondition { duration_ns: Some(2_000 * MILLISECOND_NS), requests: None };
    let seen = RefCell::new(Vec::new());
    let listen = |interval: &Interval| seen.borrow_mut().push(interval.clone());
    let (interrupt, _never) = UnixStream::pair().expect("a pair can be had");
    let lengths_ns = &[1_000 * MILLISECOND_NS, 40 * MILLISECOND_NS];
    let observer = Some(IntervalObserver { lengths_ns, on_interval: &listen });
    let control =
        Control { interrupt: interrupt.as_fd(), on_window_event: &|_| {}, observer, starter: None };
    let outcome = run(&plan, control).expect("it can be measured");
    let seen = seen.into_inner();
    for (number, target) in outcome.targets.iter().enumerate() {
        let of = |length_ns: u64| {
            let ours = seen.iter().filter(move |seen| seen.target == number);
            ours.filter(move |seen| seen.length_ns == length_ns).collect::<Vec<_>>()
        };
        let (seconds, shorter) = (of(lengths_ns[0]), of(lengths_ns[1]));
        assert!(shorter.iter().map(|interval| interval.number).eq(0..50));
        let sum = |all: &[&Interval]| all.iter().map(|interval| interval.requests).sum::<u64>();
        assert_eq!(sum(&shorter), sum(&seconds));
        assert_eq!(seconds.iter().map(|second| second.number).collect::<Vec<_>>(), [0, 1]);
        for (second, &counted) in seconds.iter().zip(&target.counters.per_second) {
            assert_eq!((second.requests, second.latency.count()), (counted, counted));
            assert_eq!(second.errors, 0);
        }
    }
}
