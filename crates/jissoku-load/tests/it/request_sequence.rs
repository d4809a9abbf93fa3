//! Request cycles: requests are sent in order, each with its own expected response.

use jissoku_load::{
    Address, ErrorCounts, Expected, Order, Pace, Plan, RequestSpec, TargetPlan, Verify,
};

use crate::scripted::{Act, Server};
use crate::{measure, plan, summarise};

/// A cycle of GET requests, one for each of `request_targets`, with responses learned.
fn request_sequence(url: &str, request_targets: &[&str]) -> TargetPlan {
    let address: Address = url.parse().expect("it is a URL");
    let spec = |request_target: &&str| {
        let text = format!("GET {request_target} HTTP/1.1\r\nHost: {{HOST}}\r\n\r\n");
        let expected = Expected::new(Verify::All, Vec::new(), None);
        RequestSpec::raw(request_target, text.as_bytes(), &address, expected)
            .expect("it is one request")
    };
    let specs = request_targets.iter().map(spec).collect();
    TargetPlan::new(address.clone(), specs)
}

fn rotating(server: &Server, request_targets: &[&str], requests: u64) -> Plan {
    let mut plan = plan(&[server.url()], requests);
    plan.targets = vec![request_sequence(&server.url(), request_targets)];
    plan
}

/// Whether the requests seen are in cyclic order.
fn follows(request_targets: &[&str], received: &[String]) -> bool {
    let place =
        |request_target: &String| request_targets.iter().position(|known| request_target == known);
    received.windows(2).all(|pair| match (place(&pair[0]), place(&pair[1])) {
        (Some(one), Some(next)) => next == (one + 1) % request_targets.len(),
        _ => false,
    })
}

#[test]
fn each_connection_sends_one_after_the_other() {
    const REQUEST_TARGETS: [&str; 3] = ["/a", "/bb", "/ccc"];
    for (pace, pipeline) in [
        (Pace::Closed, 1),
        (Pace::Closed, 2),
        (Pace::Closed, 7),
        (Pace::constant(1_000_000), 1),
        (Pace::constant(1_000_000), 8),
    ] {
        let server = Server::new(|_| Act::Echo);
        let mut plan = rotating(&server, &REQUEST_TARGETS, 602);
        (plan.pace, plan.pipeline) = (pace, pipeline);
        let counters = &measure(&plan).targets[0].counters;
        assert_eq!((counters.requests, counters.errors), (602, ErrorCounts::default()));
        assert_eq!(counters.per_spec.iter().sum::<u64>(), 602);
        let received = server.request_targets_seen();
        assert_eq!(received.len(), 4);
        assert!(
            received.iter().all(|received| follows(&REQUEST_TARGETS, received)),
            "{received:?}"
        );
        for (spec, request_target) in REQUEST_TARGETS.iter().enumerate() {
            let sent =
                received.iter().flatten().filter(|received| received == request_target).count();
            assert_eq!(counters.per_spec[spec], sent as u64);
        }
    }
}

#[test]
fn a_rotation_goes_on_where_a_lost_connection_left_it() {
    const REQUEST_TARGETS: [&str; 3] = ["/a", "/bb", "/ccc"];
    let server = Server::new(|place| match place.on_connection {
        4 => Act::SayAndClose(String::new()),
        _ => Act::Echo,
    });
    let mut plan = rotating(&server, &REQUEST_TARGETS, 50);
    plan.connections = 1;
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, counters.errors.closed), (40, 10));
    let received: Vec<String> = server.request_targets_seen().into_iter().flatten().collect();
    assert_eq!(received.len(), 50);
    assert!(follows(&REQUEST_TARGETS, &received), "{received:?}");
}

#[test]
fn a_response_to_another_request_is_an_error() {
    // The server swaps two responses once; both have the same length.
    let answer = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{body}");
    let server = Server::new(move |place| {
        let crossed = matches!(place.on_connection, 10 | 11);
        let even = place.on_connection % 2 == 0;
        Act::Say(answer(if even == crossed { "b" } else { "a" }))
    });
    let mut plan = rotating(&server, &["/a", "/b"], 40);
    plan.connections = 1;
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, counters.errors.body, counters.errors.total()), (38, 2, 2));
}

#[test]
fn both_targets_cycle_through_their_requests() {
    const REQUEST_TARGETS: [&str; 2] = ["/a", "/bb"];
    let (one, other) = (Server::new(|_| Act::Echo), Server::new(|_| Act::Echo));
    let mut plan = plan(&[one.url(), other.url()], 200);
    plan.targets = vec![
        request_sequence(&one.url(), &REQUEST_TARGETS),
        request_sequence(&other.url(), &REQUEST_TARGETS),
    ];
    plan.pace = Pace::constant(50_000);
    let outcome = measure(&plan);
    for (target, server) in outcome.targets.iter().zip([&one, &other]) {
        assert_eq!(
            (target.counters.requests, target.counters.errors),
            (200, ErrorCounts::default())
        );
        assert!(
            server
                .request_targets_seen()
                .iter()
                .all(|received| follows(&REQUEST_TARGETS, received))
        );
    }
}

#[test]
fn every_number_of_a_sequence_is_sent_once() {
    for (pipeline, pace) in [(1, Pace::Closed), (4, Pace::constant(1_000_000))] {
        let server = Server::new(|_| Act::Echo);
        let mut plan = rotating(&server, &["/{SEQ:6}", "/x/{SEQ:6}/{RAND:4}"], 500);
        (plan.threads, plan.pipeline, plan.pace) = (2, pipeline, pace);
        for spec in &mut plan.targets[0].specs {
            spec.expected = Expected::new(Verify::Length, Vec::new(), None);
        }
        let counters = &measure(&plan).targets[0].counters;
        assert_eq!((counters.requests, counters.errors), (500, ErrorCounts::default()));
        let number = |request_target: &String| {
            request_target.split('/').find(|part| part.len() == 6).map(String::from)
        };
        let mut received: Vec<_> =
            server.request_targets_seen().iter().flatten().map(number).collect();
        received.sort();
        assert_eq!(
            received,
            (0..500).map(|number| Some(format!("{number:06}"))).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_request_with_blanks_that_does_not_fit_the_socket_stays_itself() {
    const BODY_SIZE: usize = 4 << 20;
    let server = Server::new(|_| Act::Echo);
    let mut plan = rotating(&server, &["/"], 8);
    let body = "x".repeat(BODY_SIZE - 6) + "{SEQ:6}";
    let text = format!("POST /{{SEQ:6}} HTTP/1.1\r\nContent-Length: {BODY_SIZE}\r\n\r\n{body}");
    let expected = Expected::new(Verify::Length, Vec::new(), None);
    let target = &mut plan.targets[0];
    target.specs = vec![
        RequestSpec::raw("large", text.as_bytes(), &target.address, expected)
            .expect("it is one request"),
    ];
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, counters.errors), (8, ErrorCounts::default()));
    // All parts of a request have its number.
    for (request_target, body_end) in server.ends_received() {
        let first: u64 = request_target.trim_start_matches('/').parse().expect("a number");
        assert_eq!(body_end.parse::<u64>().expect("a number"), first);
    }
}

/// A cycle of 50 requests, each with another response.
fn fifty(server: &Server, order: Order, requests: u64) -> Plan {
    let names: Vec<String> = (0..50).map(|number| format!("/{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Plan { order, ..rotating(server, &names, requests) }
}

#[test]
fn a_shared_cycle_sends_each_request_equally_often() {
    for (threads, pace, connections) in
        [(1, Pace::Closed, 8), (3, Pace::Closed, 7), (2, Pace::constant(1_000_000), 60)]
    {
        let server = Server::new(|_| Act::Echo);
        let mut plan = fifty(&server, Order::Shared, 100);
        (plan.threads, plan.pace, plan.connections) = (threads, pace, connections);
        let counters = &measure(&plan).targets[0].counters;
        assert_eq!((counters.requests, counters.errors), (100, ErrorCounts::default()));
        assert_eq!(counters.per_spec, [2; 50]);
    }
}

#[test]
fn requests_drawn_at_random_follow_from_the_seed() {
    let received = |seed| {
        let server = Server::new(|_| Act::Echo);
        let mut plan = fifty(&server, Order::Random, 200);
        (plan.connections, plan.seed) = (1, seed);
        let counters = &measure(&plan).targets[0].counters;
        assert_eq!((counters.requests, counters.errors), (200, ErrorCounts::default()));
        assert!(counters.per_spec.iter().filter(|count| **count > 0).count() > 40);
        server.request_targets_seen()
    };
    let first = received(1);
    assert_eq!(first, received(1));
    assert_ne!(first, received(2));
}

#[test]
fn a_wrong_response_is_that_of_its_request() {
    // The second pass fails for one request.
    let server = Server::new(|place| match place.overall {
        57 => Act::Say("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned()),
        _ => Act::Echo,
    });
    let mut plan = fifty(&server, Order::Shared, 100);
    plan.connections = 1;
    let outcome = measure(&plan);
    let counters = &outcome.targets[0].counters;
    assert_eq!((counters.per_spec[7], counters.errors_per_spec[7]), (1, 1));
    assert_eq!((counters.requests, counters.examples[0].spec), (99, Some(7)));
    let page = summarise(&plan, &outcome).to_string();
    assert!(page.contains("By request: 50 requests, 1 to 2 correct responses each"), "{page}");
    assert!(page.contains("Failed requests: 1, most often /7 (1)"), "{page}");
}
