//! Whatever a server does, each request that was due is counted once, and has its time.

use jissoku_load::{OnBusy, Pace, RunError, StopCondition};
use proptest::prelude::*;

use crate::scripted::{Act, HELLO, Server};
use crate::{plan, summarise, try_to_measure};

const MILLISECOND_NS: u64 = 1_000_000;

/// A server's reaction to a request, by its number.
fn act(kind: u8) -> Act {
    match kind {
        0 => Act::SayAndClose(String::new()),
        1 => Act::SayAndClose(HELLO.replace("Hello", "Hell")),
        2 => Act::Say(HELLO.replace("200", "503")),
        3 => Act::Say("Hello\r\n\r\n".to_owned()),
        4 => Act::Ignore,
        5 => Act::SayAndClose(HELLO.to_owned() + "HTTP/1.1 408 Request Timeout\r\n\r\n"),
        6 => Act::Say(HELLO.replace("Content", "Connection: close\r\nContent")),
        7 => Act::Stammer(HELLO.to_owned()),
        8 => Act::SayAndClose(HELLO.to_owned()),
        9 => Act::Say(HELLO.repeat(2)),
        _ => Act::Say(HELLO.to_owned()),
    }
}

fn pace() -> impl Strategy<Value = Pace> {
    prop_oneof![Just(Pace::Closed), (500..20_000_u64).prop_map(Pace::constant)]
}

proptest! {
    // Servers and connections are real: fewer cases than of a pure function.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]

    #[test]
    fn each_request_that_was_due_has_one_outcome_and_one_time(
        script in prop::collection::vec(0..40_u8, 1..30),
        (pace, connections, pipeline) in (pace(), 1..9_usize, 1..4_u16),
        (targets, by_count, drops) in (1..3_usize, any::<bool>(), any::<bool>()),
    ) {
        let servers: Vec<Server> = (0..targets)
            .map(|_| {
                let script = script.clone();
                Server::new(move |place| {
                    let place = usize::try_from(place.overall).expect("they are few");
                    act(script[place % script.len()])
                })
            })
            .collect();
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let mut plan = plan(&urls, 60);
        (plan.pace, plan.connections, plan.pipeline) = (pace, connections, pipeline);
        plan.timeout_ns = 40 * MILLISECOND_NS;
        if drops && !matches!(plan.pace, Pace::Closed) {
            plan.on_busy = OnBusy::Drop;
        }
        if !by_count {
            let duration_ns = Some(60 * MILLISECOND_NS);
            plan.stop = StopCondition { duration_ns, requests: None };
        }
        let outcome = try_to_measure(&plan);
        // The short timeout is that of connecting, too: on a busy machine nothing may be measured.
        prop_assume!(!matches!(outcome, Err(RunError::Unreachable { .. })));
        let outcome = outcome.expect("it can be measured");
        let report = summarise(&plan, &outcome);
        for (target, report) in outcome.targets.iter().zip(&report.targets) {
            let account = report.accounting;
            let answered = account.ok + account.http_errors + account.io_errors + account.timeouts;
            prop_assert_eq!(account.carried + account.sent, answered + account.unanswered);
            let counters = &target.counters;
            let due = account.sent + account.never_sent + account.shed;
            prop_assert_eq!(counters.latency.count() + counters.waited.count(), due);
            prop_assert_eq!(counters.latency.count(), account.ok);
            // Every request that ended has one status (0: none), each error an example.
            let errors = counters.errors;
            prop_assert_eq!(counters.statuses.iter().sum::<u64>(), answered);
            let (ok, failed) = (&counters.per_spec, &counters.errors_per_spec);
            prop_assert_eq!((ok[0], failed[0]), (account.ok, answered - account.ok));
            let responses = report.statuses.values().sum::<u64>();
            prop_assert!(responses <= answered && responses >= account.ok + errors.status + errors.body);
            let kinds: Vec<&str> =
                counters.examples.iter().map(|example| example.error.name()).collect();
            for (kind, count) in errors.by_name() {
                let examples = kinds.iter().filter(|known| **known == kind).count();
                prop_assert_eq!(examples, usize::from(count > 0), "{}", kind);
            }
            prop_assert_eq!(counters.first_byte().count(), account.ok);
            prop_assert!(counters.first_byte().sum_ns() <= counters.service.sum_ns());
            if by_count {
                let outcomes: u64 = account.by_outcome().iter().map(|(_, count)| count).sum();
                prop_assert_eq!(outcomes, 60);
            }
        }
    }
}
