//! Errors are counted by kind, exactly, and do not stop the measurement.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::spawn;

use jissoku_load::{ErrorCounts, RunError};

use crate::scripted::{Act, HELLO, Server};
use crate::{measure, plan, summarise, try_to_measure};

#[test]
fn every_wrong_response_is_found_and_has_its_kind() {
    let none = ErrorCounts::default();
    let cases: [(fn() -> Act, ErrorCounts); 6] = [
        (|| Act::Say(HELLO.replace("Hello", "HellO")), ErrorCounts { body: 20, ..none }),
        (|| Act::Say(HELLO.replace("200", "503")), ErrorCounts { status: 20, ..none }),
        (
            || Act::Say(HELLO.replace("5\r\n\r\nHello", "4\r\n\r\nHell")),
            ErrorCounts { length: 20, ..none },
        ),
        // A body that ends early.
        (|| Act::SayAndClose(HELLO.replace("Hello", "Hell")), ErrorCounts { length: 20, ..none }),
        (|| Act::SayAndClose(String::new()), ErrorCounts { closed: 20, ..none }),
        (|| Act::Say("Hello\r\n\r\n".to_owned()), ErrorCounts { malformed: 20, ..none }),
    ];
    for (act, errors) in cases {
        // Every fifth request of 100.
        let server = Server::new(move |place| match place.overall % 5 {
            4 => act(),
            _ => Act::Say(HELLO.to_owned()),
        });
        let counters = &measure(&plan(&[server.url()], 100)).targets[0].counters;
        assert_eq!((server.requests(), counters.requests, counters.errors), (100, 80, errors));
    }
}

#[test]
fn the_option_that_accepts_changing_bodies_is_named() {
    let server = Server::new(|place| match place.overall {
        0 => Act::Say(HELLO.to_owned()),
        _ => Act::Say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nHell".to_owned()),
    });
    let mut plan = plan(&[server.url()], 20);
    plan.connections = 1;
    let report = summarise(&plan, &measure(&plan)).to_string();
    assert!(report.contains("length 19; if lengths change, --verify none"), "{report}");
    let same_length = ErrorCounts { body: 1, status: 1, ..ErrorCounts::default() };
    assert!(same_length.remedy().contains("--verify length"));
    assert_eq!(ErrorCounts { timeout: 1, ..ErrorCounts::default() }.remedy(), "");
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
    let target = &outcome.targets[0];
    assert_eq!((target.counters.requests, target.counters.errors), (100, ErrorCounts::default()));
    assert_eq!((target.opened, server.requests()), (10, 100));
}

#[test]
fn the_rest_of_a_pipeline_is_lost_with_its_connection() {
    let server = Server::new(|place| match place.on_connection {
        5 => Act::SayAndClose(HELLO.replace("Hello", "Hell")),
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 80);
    (plan.pipeline, plan.connections) = (8, 1);
    let counters = &measure(&plan).targets[0].counters;
    // The kernel may send a reset, since the requests were unread at the server.
    let lost = counters.errors.closed + counters.errors.read;
    assert_eq!((counters.requests, counters.errors.length + lost), (50, 30));
}

#[test]
fn a_missing_response_is_a_timeout() {
    let server = Server::new(|place| match place.overall {
        0..4 => Act::Ignore,
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 10);
    plan.timeout_ns = 1_000_000_000;
    let outcome = measure(&plan);
    let target = &outcome.targets[0];
    assert_eq!(target.counters.errors, ErrorCounts { timeout: 4, ..ErrorCounts::default() });
    // The last responses may come before all four connections are established again.
    assert_eq!(target.counters.requests, 6);
    assert!((5..=8).contains(&target.opened), "{}", target.opened);
}

#[test]
fn an_unsolicited_response_is_an_error() {
    let server = Server::new(|place| match place.overall {
        0 => Act::Say(HELLO.repeat(2)),
        _ => Act::Say(HELLO.to_owned()),
    });
    let mut plan = plan(&[server.url()], 10);
    plan.connections = 1;
    let counters = &measure(&plan).targets[0].counters;
    assert_eq!((counters.requests, counters.errors.malformed), (10, 1));
}

#[test]
fn a_refused_connection_is_an_error_that_names_the_url() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    drop(listener);
    for url in [url, "unix:/nowhere/at.sock:/".to_owned()] {
        let failure =
            try_to_measure(&plan(std::slice::from_ref(&url), 1)).expect_err("no server listens");
        assert!(failure.to_string().contains(&url), "{failure}");
        assert!(matches!(failure, RunError::Unreachable { .. }));
    }
}

#[test]
fn a_run_of_n_requests_ends_if_the_server_dies() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let server = spawn(move || {
        let (mut stream, _) = listener.accept().expect("the load generator connects");
        drop(listener);
        let mut request = [0; 4096];
        let _size = stream.read(&mut request).expect("it asks");
        stream.write_all(HELLO.as_bytes()).expect("it listens");
    });
    let mut plan = plan(&[url], 6);
    plan.connections = 1;
    let counters = &measure(&plan).targets[0].counters;
    server.join().expect("the server does not panic");
    // The second request may have been sent before the connection ended, or not.
    assert!(counters.errors.connect >= 4, "{:?}", counters.errors);
    assert_eq!((counters.requests, counters.errors.total()), (1, 5));
}

#[test]
fn every_request_has_its_time_in_the_distribution() {
    for act in [
        || Act::SayAndClose(String::new()),
        || Act::SayAndClose(HELLO.replace("Hello", "Hell")),
        || Act::Say(HELLO.replace("200", "503")),
        || Act::Say("Hello\r\n\r\n".to_owned()),
        || Act::Ignore,
    ] {
        let server = Server::new(move |place| match place.overall % 25 {
            24 => act(),
            _ => Act::Say(HELLO.to_owned()),
        });
        let mut plan = plan(&[server.url()], 500);
        plan.timeout_ns = 200_000_000;
        let outcome = measure(&plan);
        let page = summarise(&plan, &outcome).to_string();
        assert!(page.contains("20 requests had no correct, timely response"), "{page}");
        let counters = &outcome.targets[0].counters;
        assert_eq!(counters.latency.count() + counters.waited.count(), 500);
        assert_eq!((counters.latency.count(), counters.errors.total()), (480, 20));
    }
}

#[test]
fn a_timeout_of_an_idle_connection_is_no_error() {
    let timeout = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for size in [timeout.len(), 12, 1] {
        let part = timeout[..size].to_owned();
        let server = Server::new(move |place| match place.on_connection {
            3 => Act::SayAndClose(HELLO.to_owned() + &part),
            _ => Act::Say(HELLO.to_owned()),
        });
        let mut plan = plan(&[server.url()], 40);
        plan.connections = 1;
        let counters = &measure(&plan).targets[0].counters;
        assert_eq!((counters.requests, counters.errors), (40, ErrorCounts::default()));
    }
}

#[test]
fn a_connection_is_closed_after_an_announced_close() {
    // The server waits for the client.
    let last = HELLO.replace("Content", "Connection: close\r\nContent");
    let server = Server::new(move |_| Act::Say(last.clone()));
    let mut plan = plan(&[server.url()], 5);
    (plan.connections, plan.timeout_ns) = (1, 30_000_000_000);
    let outcome = measure(&plan);
    let target = &outcome.targets[0];
    assert_eq!((target.counters.requests, target.counters.errors), (5, ErrorCounts::default()));
    assert_eq!(target.opened, 5);
    assert!(outcome.duration_ns < plan.timeout_ns);
}

#[test]
fn a_limit_of_requests_is_the_number_of_outcomes() {
    for (requests, connections) in [(100, 64), (20, 64), (300, 7)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        // Some connections are answered once; then nothing listens.
        let server = spawn(move || {
            let accepted: Vec<_> =
                (0..3).map(|_| listener.accept().expect("it connects")).collect();
            drop(listener);
            for (mut stream, _) in accepted {
                let mut request = [0; 4096];
                let _size = stream.read(&mut request);
                let _written = stream.write_all(HELLO.as_bytes());
            }
        });
        let mut plan = plan(&[url], requests);
        plan.connections = connections;
        let outcome = measure(&plan);
        server.join().expect("the server does not panic");
        let report = summarise(&plan, &outcome);
        let account = report.targets[0].accounting;
        let outcomes: u64 = account.by_outcome().iter().map(|(_, count)| count).sum();
        assert_eq!(outcomes, requests, "{account:?}");
        assert!(requests < 300 || account.not_connected > 0, "{account:?}");
    }
}

#[test]
fn each_of_two_targets_has_its_own_rate() {
    let slow = Server::new(|_| {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
        Act::Say(HELLO.to_owned())
    });
    let quick = Server::new(|_| Act::Say(HELLO.to_owned()));
    let mut plan = plan(&[quick.url(), slow.url()], 40);
    plan.connections = 1;
    let outcome = measure(&plan);
    let report = summarise(&plan, &outcome);
    let [quick, slow] = &report.targets[..] else { panic!("there are two") };
    assert!(quick.duration_ns < slow.duration_ns);
    assert!(quick.rate_rps > slow.rate_rps);
    assert_eq!(slow.duration_ns, outcome.duration_ns);
}
