//! Several requests in rotation: each is sent in its turn, and held to its own answer.

use jissoku_load::{Address, Expected, Faults, LanePlan, Pace, Plan, Shape, Verify};

use crate::scripted::{Act, Server};
use crate::{measure, plan};

/// A lane that sends a GET for each of `targets`, and learns what the right answers are.
fn rotation(url: &str, targets: &[&str]) -> LanePlan {
    let address: Address = url.parse().expect("it is a URL");
    let shape = |target: &&str| {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {{HOST}}\r\n\r\n");
        let expected = Expected::new(Verify::All, Vec::new(), None);
        Shape::raw(target, text.as_bytes(), &address, expected).expect("it is one request")
    };
    let shapes = targets.iter().map(shape).collect();
    LanePlan { tls: None, shapes, watch: None, address: address.clone() }
}

fn rotating(server: &Server, targets: &[&str], requests: u64) -> Plan {
    let mut plan = plan(&[server.url()], requests);
    plan.lanes = vec![rotation(&server.url(), targets)];
    plan
}

/// Where each request's target begins anew, the one after the last is the first.
fn follows(targets: &[&str], heard: &[String]) -> bool {
    let place = |target: &String| targets.iter().position(|known| target == known);
    heard.windows(2).all(|pair| match (place(&pair[0]), place(&pair[1])) {
        (Some(one), Some(next)) => next == (one + 1) % targets.len(),
        _ => false,
    })
}

#[test]
fn each_connection_sends_one_after_the_other() {
    const TARGETS: [&str; 3] = ["/a", "/bb", "/ccc"];
    for (pace, pipeline) in [
        (Pace::Closed, 1),
        (Pace::Closed, 2),
        (Pace::Closed, 7),
        (Pace::Constant { rate_rps: 1_000_000 }, 1),
        (Pace::Constant { rate_rps: 1_000_000 }, 8),
    ] {
        let server = Server::new(|_| Act::Echo);
        let mut plan = rotating(&server, &TARGETS, 602);
        (plan.pace, plan.pipeline) = (pace, pipeline);
        let tally = &measure(&plan).lanes[0].tally;
        assert_eq!((tally.requests, tally.faults), (602, Faults::default()));
        assert_eq!(tally.per_shape.iter().sum::<u64>(), 602);
        let heard = server.targets_heard();
        assert_eq!(heard.len(), 4);
        assert!(heard.iter().all(|heard| follows(&TARGETS, heard)), "{heard:?}");
        for (shape, target) in TARGETS.iter().enumerate() {
            let sent = heard.iter().flatten().filter(|heard| heard == target).count();
            assert_eq!(tally.per_shape[shape], sent as u64);
        }
    }
}

#[test]
fn a_rotation_goes_on_where_a_lost_connection_left_it() {
    const TARGETS: [&str; 3] = ["/a", "/bb", "/ccc"];
    let server = Server::new(|place| match place.on_connection {
        4 => Act::SayAndClose(String::new()),
        _ => Act::Echo,
    });
    let mut plan = rotating(&server, &TARGETS, 50);
    plan.connections = 1;
    let tally = &measure(&plan).lanes[0].tally;
    assert_eq!((tally.requests, tally.faults.closed), (40, 10));
    let heard: Vec<String> = server.targets_heard().into_iter().flatten().collect();
    assert_eq!(heard.len(), 50);
    assert!(follows(&TARGETS, &heard), "{heard:?}");
}

#[test]
fn an_answer_to_another_shape_is_a_wrong_one() {
    // The server takes two answers for each other once in the run; both have the same length.
    let answer = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{body}");
    let server = Server::new(move |place| {
        let crossed = matches!(place.on_connection, 10 | 11);
        let even = place.on_connection % 2 == 0;
        Act::Say(answer(if even == crossed { "b" } else { "a" }))
    });
    let mut plan = rotating(&server, &["/a", "/b"], 40);
    plan.connections = 1;
    let tally = &measure(&plan).lanes[0].tally;
    assert_eq!((tally.requests, tally.faults.body, tally.faults.total()), (38, 2, 2));
}

#[test]
fn both_lanes_of_a_duet_rotate() {
    const TARGETS: [&str; 2] = ["/a", "/bb"];
    let (one, other) = (Server::new(|_| Act::Echo), Server::new(|_| Act::Echo));
    let mut plan = plan(&[one.url(), other.url()], 200);
    plan.lanes = vec![rotation(&one.url(), &TARGETS), rotation(&other.url(), &TARGETS)];
    plan.pace = Pace::Constant { rate_rps: 50_000 };
    let outcome = measure(&plan);
    for (lane, server) in outcome.lanes.iter().zip([&one, &other]) {
        assert_eq!((lane.tally.requests, lane.tally.faults), (200, Faults::default()));
        assert!(server.targets_heard().iter().all(|heard| follows(&TARGETS, heard)));
    }
}

#[test]
fn every_number_of_a_sequence_is_sent_once() {
    for (pipeline, pace) in [(1, Pace::Closed), (4, Pace::Constant { rate_rps: 1_000_000 })] {
        let server = Server::new(|_| Act::Echo);
        let mut plan = rotating(&server, &["/{SEQ:6}", "/x/{SEQ:6}/{RAND:4}"], 500);
        (plan.threads, plan.pipeline, plan.pace) = (2, pipeline, pace);
        for shape in &mut plan.lanes[0].shapes {
            shape.expected = Expected::new(Verify::Length, Vec::new(), None);
        }
        let tally = &measure(&plan).lanes[0].tally;
        assert_eq!((tally.requests, tally.faults), (500, Faults::default()));
        let number =
            |target: &String| target.split('/').find(|part| part.len() == 6).map(String::from);
        let mut heard: Vec<_> = server.targets_heard().iter().flatten().map(number).collect();
        heard.sort();
        assert_eq!(heard, (0..500).map(|number| Some(format!("{number:06}"))).collect::<Vec<_>>());
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
    let lane = &mut plan.lanes[0];
    lane.shapes = vec![
        Shape::raw("large", text.as_bytes(), &lane.address, expected).expect("it is one request"),
    ];
    let tally = &measure(&plan).lanes[0].tally;
    assert_eq!((tally.requests, tally.faults), (8, Faults::default()));
    // The body's number was written together with the target's, so it is one more.
    for (target, body_end) in server.ends_heard() {
        let first: u64 = target.trim_start_matches('/').parse().expect("a number");
        assert_eq!(body_end.parse::<u64>().expect("a number"), first + 1);
    }
}
