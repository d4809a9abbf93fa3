//! Stop: no new connections, and every received request is answered.

use std::io;

use jissoku_os::socket::Endpoint;
use jissoku_server::{Limits, Settings};

use crate::client::{Target, ask_all, contract, free_port, fresh_path};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// One worker that keeps idle connections longer than any test takes.
fn patient() -> Target {
    let limits =
        Limits { stop_idle_ns: u64::MAX / 4, stop_ns_max: u64::MAX / 4, ..Limits::DEFAULT };
    Target::start(Settings { limits, ..Settings::new(free_port()) }, contract())
}

/// Waits until the server has closed its listener, its first step when it stops.
fn wait_until_refused(target: &Target) {
    while target.try_connect().is_ok() {}
}

#[test]
fn a_delayed_request_is_answered_while_stopping() {
    let mut target = Target::serve(contract());
    let mut client = target.connect();
    client.send("GET /delay?ms=4000 HTTP/1.1\r\nHost: a\r\n\r\n");
    // Its bytes have arrived when a later connection has its response.
    assert_eq!(target.ask(GET).status, 200);
    target.stop();
    let answer = client.answer();
    assert_eq!((answer.text(), answer.field("Connection")), ("Hello, World!", Some("close")));
    client.expect_end();
    target.running.join();
}

#[test]
fn a_request_in_flight_is_answered() {
    let mut target = patient();
    let mut client = target.connect();
    client.send(GET);
    assert_eq!(client.answer().field("Connection"), None);
    target.stop();
    wait_until_refused(&target);
    client.send(GET);
    assert_eq!(client.answer().field("Connection"), Some("close"));
    client.expect_end();
    target.running.join();
}

#[test]
fn all_of_a_pipeline_is_answered_while_stopping() {
    let mut target = patient();
    let mut client = target.connect();
    client.send(GET);
    client.answer();
    target.stop();
    wait_until_refused(&target);
    client.send(&GET.repeat(5));
    let signals: Vec<_> =
        (0..5).map(|_| client.answer().field("Connection").map(str::to_owned)).collect();
    assert_eq!(signals, [None, None, None, None, Some("close".to_owned())]);
    client.expect_end();
    target.running.join();
}

#[test]
fn idle_connections_are_closed() {
    let mut target =
        Target::start(Settings { workers: 2, ..Settings::new(free_port()) }, contract());
    let mut clients: Vec<_> = (0..20).map(|_| target.connect()).collect();
    ask_all(&mut clients);
    target.stop();
    for client in &mut clients {
        client.expect_end();
    }
    target.running.join();
}

#[test]
fn the_stop_timeout_is_enforced() {
    let limits = Limits { stop_ns_max: 1, ..Limits::DEFAULT };
    let mut target = Target::start(Settings { limits, ..Settings::new(free_port()) }, contract());
    let mut client = target.connect();
    client.send("GET /delay?ms=60000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(target.ask(GET).status, 200);
    target.stop();
    client.expect_end();
    target.running.join();
}

#[test]
fn a_unix_socket_is_removed_by_stopping() {
    let path = fresh_path();
    let mut target = Target::start(Settings::new(Endpoint::Unix(path.clone())), contract());
    assert_eq!(target.ask(GET).status, 200);
    target.stop();
    wait_until_refused(&target);
    target.running.join();
    assert!(!path.exists());
}

#[test]
fn a_stale_unix_socket_is_replaced() {
    let path = fresh_path();
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let target = Target::start(Settings::new(Endpoint::Unix(path)), contract());
    assert_eq!(target.ask(GET).status, 200);
    let second = Settings::new(target.endpoint.clone());
    let refusal = jissoku_server::Server::listen(second).expect_err("it is taken");
    assert!(refusal.contains("already in use"), "{refusal}");
    assert_eq!(target.ask(GET).status, 200);
}

#[test]
fn a_stopped_server_refuses_connections() {
    let mut target = Target::serve(contract());
    target.stop();
    wait_until_refused(&target);
    let refusal = target.try_connect().err().map(|error| error.kind());
    assert_eq!(refusal, Some(io::ErrorKind::ConnectionRefused));
    target.running.join();
}
