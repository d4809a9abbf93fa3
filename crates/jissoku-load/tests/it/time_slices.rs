//! Time slices: targets are loaded one at a time, equally often, and the window consists of
//! complete cycles.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use jissoku_load::{Idle, Outcome, Pace, Plan, StopCondition};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan};

const MILLISECOND_NS: u64 = 1_000_000;

/// Time slices of 10 requests at 1,000 per second, for at least one cycle.
fn in_turns(servers: &[&Server], change: impl Fn(&mut Plan)) -> Outcome {
    let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
    let mut plan = plan(&urls, 0);
    (plan.pace, plan.idle) = (Pace::constant(1_000), Idle::Spin);
    plan.slice_ns = Some(10 * MILLISECOND_NS);
    plan.stop = StopCondition { duration_ns: Some(MILLISECOND_NS), requests: None };
    change(&mut plan);
    measure(&plan)
}

fn polite() -> Server {
    Server::new(|_| Act::Say(HELLO.to_owned()))
}

#[test]
fn all_targets_get_equally_many_requests() {
    let (one, other) = (polite(), polite());
    let outcome = in_turns(&[&one, &other], |_| {});
    for (target, server) in outcome.targets.iter().zip([&one, &other]) {
        // A slice of ten requests before the window, and a cycle of two in it.
        assert_eq!((target.counters.requests, server.requests()), (20, 30));
        let slices = target.slices.as_ref().expect("there were turns");
        assert_eq!(slices.slices.len(), 2);
        assert!(slices.duration_ns >= 20 * MILLISECOND_NS);
    }
}

#[test]
fn each_slice_has_its_requests_and_its_waiting_and_rotations_add_up_to_the_window() {
    let (one, other) = (polite(), polite());
    let us = i32::try_from(std::process::id()).ok();
    let outcome = in_turns(&[&one, &other], |plan| plan.targets[0].watch_pid = us);
    let [watched, not_watched] = outcome.targets.as_slice() else { panic!("two targets") };
    let slices = &watched.slices.as_ref().expect("there were turns").slices;
    for slice in slices {
        assert_eq!(slice.requests, 10);
        assert!(slice.rotation_ns > slice.duration_ns);
        assert!(slice.wait_ns.is_some() && slice.generator_wait_ns.is_some());
        // The threads of the server woke up for these requests.
        assert!(slice.runs > Some(0));
        assert!(slice.rotation_cpu_ns.expect("it is watched") >= slice.cpu_ns);
    }
    let rotations_ns = slices.iter().map(|slice| slice.rotation_ns).sum::<u64>();
    assert!(rotations_ns <= watched.duration_ns);
    let cpu_ns = slices.iter().filter_map(|slice| slice.rotation_cpu_ns).sum::<u64>();
    assert!(Some(cpu_ns) <= watched.cpu_usage.and_then(|usage| usage.cpu_ns));
    for slice in &not_watched.slices.as_ref().expect("there were turns").slices {
        assert_eq!((slice.wait_ns, slice.runs, slice.rotation_cpu_ns), (None, None, None));
        assert!(slice.rotation_ns > slice.duration_ns);
    }
}

#[test]
fn without_a_watched_server_the_load_generators_own_waiting_is_known() {
    let (one, other) = (polite(), polite());
    let outcome = in_turns(&[&one, &other], |_| {});
    for target in &outcome.targets {
        for slice in &target.slices.as_ref().expect("there were turns").slices {
            assert!(slice.generator_wait_ns.is_some());
            assert_eq!((slice.wait_ns, slice.rotation_foreign_ns), (None, None));
        }
    }
}

#[test]
fn slices_are_in_palindromic_order() {
    let (note, order) = channel();
    let named = |name: char| {
        let note = note.clone();
        Server::new(move |_| {
            note.send(name).expect("a peer listens");
            Act::Say(HELLO.to_owned())
        })
    };
    let (one, other, third) = (named('a'), named('b'), named('c'));
    in_turns(&[&one, &other, &third], |_| {});
    let order: Vec<char> = order.try_iter().collect();
    let slices: Vec<char> = order.chunks(10).map(|slice| slice[0]).collect();
    assert_eq!(slices.iter().collect::<String>(), "abccbaabc");
    order.chunks(10).for_each(|slice| assert!(slice.iter().all(|name| *name == slice[0])));
}

#[test]
fn settling_requests_are_sent_and_not_counted_and_their_failures_are() {
    let (one, other) = (polite(), polite());
    let outcome = in_turns(&[&one, &other], |plan| plan.settling_requests = 4);
    for (target, server) in outcome.targets.iter().zip([&one, &other]) {
        let slices = target.slices.as_ref().expect("there were turns");
        assert_eq!(
            (target.counters.requests, slices.settling_requests, server.requests()),
            (12, 8, 30)
        );
        assert_eq!(target.counters.latency.count(), 12);
    }
    let asked = AtomicU64::new(0);
    let rude = Server::new(move |_| {
        let number = asked.fetch_add(1, Ordering::SeqCst);
        // The first request of each slice is a settling one.
        let wrong = "HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\nHello";
        Act::Say(if number.is_multiple_of(10) { wrong } else { HELLO }.to_owned())
    });
    let outcome = in_turns(&[&rude], |plan| plan.settling_requests = 4);
    assert_eq!(outcome.targets[0].counters.requests, 12);
    assert_eq!(outcome.targets[0].counters.errors.total(), 2);
}

#[test]
fn the_window_opens_when_all_targets_are_warmed_up() {
    let (one, other) = (polite(), polite());
    let outcome = in_turns(&[&one, &other], |plan| plan.warmup_requests = 41);
    for (target, server) in outcome.targets.iter().zip([&one, &other]) {
        // The fifth slice of ten requests completes the warm-up, the next two are the window.
        assert_eq!((target.counters.requests, server.requests()), (20, 70));
    }
}

#[test]
fn a_slice_waits_for_its_last_response() {
    let slow =
        Server::new(
            |place| {
                if place.overall % 10 == 9 { Act::Ignore } else { Act::Say(HELLO.to_owned()) }
            },
        );
    let other = polite();
    let outcome = in_turns(&[&slow, &other], |plan| plan.timeout_ns = 250 * MILLISECOND_NS);
    // The request without a response has timed out within its slice: otherwise it would be in
    // flight at the end of the window. On a busy machine other responses may be late too.
    for target in &outcome.targets {
        let counters = &target.counters;
        assert_eq!((counters.requests + counters.errors.total(), target.unanswered), (20, 0));
    }
    assert!(outcome.targets[0].counters.errors.timeout > 0);
}

#[test]
fn slots_begin_at_fixed_times_and_the_window_is_a_number_of_them() {
    let (one, other) = (polite(), polite());
    let slot_ns = 15 * MILLISECOND_NS;
    let outcome = in_turns(&[&one, &other], |plan| {
        (plan.slot_ns, plan.warmup_requests) = (Some(slot_ns), 11);
        plan.stop.duration_ns = Some(4 * slot_ns + 1);
    });
    // Two slots of each are the warm-up, and two cycles of four slots the window.
    let slots = [[4, 7, 8, 11], [5, 6, 9, 10]];
    for ((target, server), slots) in outcome.targets.iter().zip([&one, &other]).zip(slots) {
        let slices = &target.slices.as_ref().expect("there were turns").slices;
        assert!(slices.iter().map(|slice| slice.began_ns).eq(slots.map(|slot| slot * slot_ns)));
        assert!(slices.iter().all(|slice| slice.requests == 10));
        assert_eq!((target.counters.requests, server.requests()), (40, 60));
    }
}

#[test]
fn a_slice_that_runs_over_its_slot_makes_none_begin_at_another_time() {
    let slow =
        Server::new(
            |place| {
                if place.overall % 10 == 9 { Act::Ignore } else { Act::Say(HELLO.to_owned()) }
            },
        );
    let other = polite();
    let slot_ns = 12 * MILLISECOND_NS;
    let outcome = in_turns(&[&slow, &other], |plan| {
        (plan.slot_ns, plan.timeout_ns) = (Some(slot_ns), 50 * MILLISECOND_NS);
    });
    let slices: Vec<_> = outcome.targets.iter().filter_map(|one| one.slices.as_ref()).collect();
    assert!(slices.iter().flat_map(|one| &one.slices).all(|one| one.began_ns % slot_ns == 0));
    assert!(slices[0].slices.iter().all(|one| one.duration_ns > slot_ns));
    let counters = &outcome.targets[1].counters;
    // What was due while the other one was waited for was sent late, and counts from when it was
    // due.
    assert_eq!(counters.requests, 20);
    assert!(counters.latency.quantiles().expect("there were responses").max > slot_ns);
}

#[test]
fn slices_require_a_rate_one_thread_and_spinning() {
    let url = "http://127.0.0.1:1/".to_owned();
    let refusal = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan(std::slice::from_ref(&url), 0);
        (plan.pace, plan.idle) = (Pace::constant(1_000), Idle::Spin);
        plan.slice_ns = Some(10 * MILLISECOND_NS);
        plan.stop = StopCondition { duration_ns: Some(MILLISECOND_NS), requests: None };
        change(&mut plan);
        plan.check().err().map(|bad| bad.to_string())
    };
    assert_eq!(refusal(&|_| {}), None);
    for (change, word) in [
        (&(|plan: &mut Plan| plan.pace = Pace::Closed) as &dyn Fn(&mut Plan), "rate"),
        (&|plan| plan.threads = 2, "thread"),
        (&|plan| plan.idle = Idle::Block, "spin"),
        (&|plan| plan.slice_ns = Some(0), "zero"),
        (&|plan| (plan.slice_ns, plan.settling_requests) = (None, 1), "--settle"),
        (&|plan| (plan.slice_ns, plan.slot_ns) = (None, Some(1)), "--slot"),
        (&|plan| plan.slot_ns = Some(1), "at least --slice"),
        (
            &|plan| {
                plan.slot_ns = Some(20 * MILLISECOND_NS);
                plan.settling_requests = 1;
            },
            "--settle",
        ),
    ] {
        let refusal = refusal(change).expect("it is refused");
        assert!(refusal.contains(word), "{refusal}");
    }
}
