//! What goes wrong is counted by its kind, exactly, and does not stop the measurement.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::spawn;

use jissoku_load::{Failure, Faults};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan, try_to_measure};

/// Every fifth request of 100 goes wrong, in one and the same way.
fn one_in_five(act: impl Fn() -> Act + Send + Sync + 'static) -> (u64, Faults) {
    let server = Server::new(move |place| match place.overall % 5 {
        4 => act(),
        _ => Act::Say(HELLO.to_owned()),
    });
    let outcome = measure(&plan(&[server.url()], 100));
    assert_eq!(server.requests(), 100);
    (outcome.lanes[0].tally.requests, outcome.lanes[0].tally.faults)
}

#[test]
fn wrong_bytes_are_found() {
    let wrong = || Act::Say(HELLO.replace("Hello", "HellO"));
    assert_eq!(one_in_five(wrong), (80, Faults { body: 20, ..Faults::default() }));
}

#[test]
fn a_wrong_status_is_found() {
    let wrong = || Act::Say(HELLO.replace("200", "503"));
    assert_eq!(one_in_five(wrong), (80, Faults { status: 20, ..Faults::default() }));
}

#[test]
fn a_wrong_length_is_found() {
    let wrong = || Act::Say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nHell".to_owned());
    assert_eq!(one_in_five(wrong), (80, Faults { length: 20, ..Faults::default() }));
}

#[test]
fn a_body_that_ends_early_is_found() {
    let wrong = || Act::SayAndClose(HELLO.replace("Hello", "Hell"));
    assert_eq!(one_in_five(wrong), (80, Faults { length: 20, ..Faults::default() }));
}

#[test]
fn a_connection_closed_in_place_of_an_answer_is_found() {
    let wrong = || Act::SayAndClose(String::new());
    assert_eq!(one_in_five(wrong), (80, Faults { closed: 20, ..Faults::default() }));
}

#[test]
fn garbage_is_found() {
    let wrong = || Act::Say("Hello\r\n\r\n".to_owned());
    assert_eq!(one_in_five(wrong), (80, Faults { malformed: 20, ..Faults::default() }));
}

#[test]
fn an_announced_close_loses_nothing() {
    let last = HELLO.replace("Content", "Connection: close\r\nContent");
    let server = Server::new(move |place| match place.on_connection {
        9 => Act::SayAndClose(last.clone()),
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 100);
    plan.connections = 1;
    let outcome = measure(&plan);
    let lane = &outcome.lanes[0];
    assert_eq!((lane.tally.requests, lane.tally.faults), (100, Faults::default()));
    assert_eq!((lane.opened, server.requests()), (10, 100));
}

#[test]
fn the_rest_of_a_pipeline_is_lost_with_its_connection() {
    let server = Server::new(|place| match place.on_connection {
        5 => Act::SayAndClose(HELLO.replace("Hello", "Hell")),
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 80);
    (plan.pipeline, plan.connections) = (8, 1);
    let tally = &measure(&plan).lanes[0].tally;
    // The kernel may tell of the lost ones by a reset, since they lay unread at the server.
    let lost = tally.faults.closed + tally.faults.read;
    assert_eq!((tally.requests, tally.faults.length + lost), (50, 30));
}

#[test]
fn an_answer_that_never_comes_is_a_time_out() {
    let server = Server::new(|place| match place.overall {
        0..4 => Act::Ignore,
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 10);
    plan.timeout_ns = 1_000_000_000;
    let outcome = measure(&plan);
    let lane = &outcome.lanes[0];
    assert_eq!(lane.tally.faults, Faults { timeout: 4, ..Faults::default() });
    // The last requests may be answered before all four connections stand again.
    assert_eq!(lane.tally.requests, 6);
    assert!((5..=8).contains(&lane.opened), "{}", lane.opened);
}

#[test]
fn an_answer_that_nobody_asked_for_is_no_answer() {
    let server = Server::new(|place| match place.overall {
        0 => Act::Say(HELLO.repeat(2)),
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 10);
    plan.connections = 1;
    let tally = &measure(&plan).lanes[0].tally;
    assert_eq!((tally.requests, tally.faults.malformed), (10, 1));
}

#[test]
fn nobody_there_is_a_failure_that_names_whom() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    drop(listener);
    for url in [url, "unix:/nobody/here.sock:/".to_owned()] {
        let failure =
            try_to_measure(&plan(std::slice::from_ref(&url), 1)).expect_err("nobody is there");
        assert!(failure.to_string().contains(&url), "{failure}");
        assert!(matches!(failure, Failure::Unreachable { .. }));
    }
}

#[test]
fn a_server_that_goes_away_ends_a_count_all_the_same() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let server = spawn(move || {
        let (mut stream, _) = listener.accept().expect("the stopwatch comes");
        drop(listener);
        let mut request = [0; 4096];
        let _size = stream.read(&mut request).expect("it asks");
        stream.write_all(HELLO.as_bytes()).expect("it listens");
    });
    let mut plan = plan(&[url], 6);
    plan.connections = 1;
    let tally = &measure(&plan).lanes[0].tally;
    server.join().expect("the server does not panic");
    // The second request may still have left when the connection ended, or not.
    assert!(tally.faults.connect >= 4, "{:?}", tally.faults);
    assert_eq!((tally.requests, tally.faults.total()), (1, 5));
}
