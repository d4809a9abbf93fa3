//! The counts are exact.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::spawn;

use jissoku_load::{ErrorCounts, Idle, Pace, Request, Reuse};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan, target};

fn polite() -> Server {
    Server::new(|_| Act::Say(HELLO.to_owned()))
}

#[test]
fn the_requested_number_of_requests_is_sent() {
    for (requests, connections, threads) in [(1, 1, 1), (3, 7, 2), (1000, 7, 1), (1000, 7, 3)] {
        let server = polite();
        let mut plan = plan(&[server.url()], requests);
        (plan.connections, plan.threads) = (connections, threads);
        let outcome = measure(&plan);
        let target = &outcome.targets[0];
        assert_eq!(target.counters.requests, requests);
        assert_eq!(target.counters.latency.count(), requests);
        assert_eq!(target.counters.per_second.iter().sum::<u64>(), requests);
        assert_eq!((target.counters.errors, target.unanswered), (ErrorCounts::default(), 0));
        assert_eq!(
            (target.opened, server.connections()),
            (7.min(connections as u64), target.opened)
        );
        assert_eq!(server.requests(), requests);
        assert_eq!(target.counters.bytes_received, requests * HELLO.len() as u64);
        assert_eq!(outcome.threads.len(), threads);
    }
}

#[test]
fn one_connection_for_each_request_means_just_that() {
    for says_so in [true, false] {
        let close = if says_so { "Connection: close\r\n" } else { "" };
        let answer = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 5\r\n\r\nHello");
        let server = Server::new(move |_| {
            let act = if says_so { Act::SayAndClose } else { Act::Say };
            act(answer.clone())
        });
        let mut plan = plan(&[server.url()], 50);
        plan.reuse = Reuse::Close;
        let outcome = measure(&plan);
        assert_eq!(outcome.targets[0].counters.requests, 50);
        assert_eq!(outcome.targets[0].counters.errors, ErrorCounts::default());
        assert_eq!(outcome.targets[0].opened, 50);
        assert_eq!((server.connections(), server.requests()), (50, 50));
    }
}

#[test]
fn every_answer_of_a_pipeline_is_counted() {
    for pace in [Pace::Closed, Pace::constant(1_000_000)] {
        let server = polite();
        let mut plan = plan(&[server.url()], 1003);
        (plan.pipeline, plan.pace) = (8, pace);
        let outcome = measure(&plan);
        assert_eq!(outcome.targets[0].counters.requests, 1003);
        assert_eq!(outcome.targets[0].counters.errors, ErrorCounts::default());
        assert_eq!(server.requests(), 1003);
    }
}

#[test]
fn answers_that_come_byte_by_byte_are_answers() {
    let server = Server::new(|_| Act::Stammer(HELLO.to_owned()));
    let outcome = measure(&plan(&[server.url()], 40));
    assert_eq!(outcome.targets[0].counters.requests, 40);
    assert_eq!(outcome.targets[0].counters.errors, ErrorCounts::default());
}

#[test]
fn both_targets_of_a_paired_trial_are_counted() {
    for (pace, idle) in [
        (Pace::Closed, Idle::Block),
        (Pace::constant(20_000), Idle::Block),
        (Pace::constant(20_000), Idle::Spin),
    ] {
        let (one, other) = (polite(), polite());
        let mut plan = plan(&[one.url(), other.url()], 200);
        (plan.pace, plan.idle) = (pace, idle);
        let outcome = measure(&plan);
        for (target, server) in outcome.targets.iter().zip([&one, &other]) {
            assert_eq!((target.counters.requests, server.requests()), (200, 200));
            let paced = if plan.pace == Pace::Closed { 0 } else { 200 };
            assert_eq!(target.counters.lag.count(), paced);
        }
    }
}

#[test]
fn a_rate_beyond_the_servers_means_counts_the_waiting_too() {
    let server = polite();
    let mut plan = plan(&[server.url()], 500);
    // All requests are due at once on one connection: each waits for all before it.
    (plan.pace, plan.connections) = (Pace::constant(1_000_000_000), 1);
    let counters = &measure(&plan).targets[0].counters;
    let percentiles =
        |histogram: &jissoku_load::Histogram| histogram.quantiles().expect("500 came");
    let (latency, service) = (percentiles(&counters.latency), percentiles(&counters.service));
    let lag = percentiles(&counters.lag);
    assert!(latency.p50 > service.p50 && latency.mean >= lag.mean);
    assert!(latency.max >= service.mean * 499, "the last one waited for all others");
}

#[test]
fn a_unix_socket_is_a_server_like_any_other() {
    let path = std::env::temp_dir().join(format!("jissoku-load-{}.sock", std::process::id()));
    let server = Server::on_path(&path, |_| Act::Say(HELLO.to_owned()));
    let outcome = measure(&plan(&[server.url()], 100));
    drop(server);
    std::fs::remove_file(&path).expect("it was there");
    assert_eq!(outcome.targets[0].counters.requests, 100);
}

#[test]
fn a_body_larger_than_any_socket_buffer_arrives_whole() {
    let server = polite();
    let mut plan = plan(&[server.url()], 6);
    let body = vec![b'x'; 8 << 20];
    let request = Request { method: "POST".to_owned(), body, ..Request::default() };
    plan.targets = vec![target(&server.url(), &request)];
    let outcome = measure(&plan);
    assert_eq!(outcome.targets[0].counters.requests, 6);
    assert_eq!(server.body_bytes(), 6 * (8 << 20));
    assert_eq!(
        outcome.targets[0].counters.bytes_sent,
        6 * plan.targets[0].specs[0].template.bytes().len() as u64
    );
}

#[test]
fn an_answer_larger_than_the_buffer_is_looked_at_to_the_end() {
    let body = "0123456789abcdef".repeat(64 * 1024);
    let wrong = body.replace("f01", "F01").replacen("F01", "f01", 65_534);
    assert_ne!(body, wrong);
    let say =
        |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (right, wrong) = (say(&body), say(&wrong));
    let server = Server::new(move |place| {
        Act::Say(if place.overall == 5 { wrong.clone() } else { right.clone() })
    });
    let mut plan = plan(&[server.url()], 12);
    plan.targets[0].specs[0].expected =
        jissoku_load::Expected::new(jissoku_load::Verify::All, Vec::new(), None);
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, counters.errors.body, counters.errors.total()), (11, 1, 1));
}

#[test]
fn an_answer_before_the_request_has_left_does_not_cut_the_request_short() {
    const BODY_SIZE: usize = 8 << 20;
    for pace in [Pace::Closed, Pace::constant(1_000_000)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        let server = spawn(move || {
            let (stream, _) = listener.accept().expect("the load generator connects");
            (0..5).for_each(|_| answer_before_reading(&stream, BODY_SIZE));
        });
        let body = vec![b'x'; BODY_SIZE];
        let request = Request { method: "POST".to_owned(), body, ..Request::default() };
        let mut plan = plan(std::slice::from_ref(&url), 5);
        plan.targets = vec![target(&url, &request)];
        (plan.connections, plan.pace) = (1, pace);
        let counters = &measure(&plan).targets[0].counters;
        assert_eq!((counters.requests, counters.errors), (5, ErrorCounts::default()));
        server.join().expect("nothing else came");
    }
}

/// Reads a head, responds, and reads the body after that.
fn answer_before_reading(mut stream: &TcpStream, body_size: usize) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head comes");
        head.extend(byte);
    }
    assert!(head.starts_with(b"POST / HTTP/1.1\r\n"));
    stream.write_all(HELLO.as_bytes()).expect("it is taken");
    let mut body = vec![0; body_size];
    // The run ends with the last response, maybe before its body is sent.
    let _whole_or_cut_short = stream.read_exact(&mut body);
}
