//! What is refused, and that a refusal is an answer that arrives.

use jissoku_server::{Limits, Settings};

use crate::client::{Target, contract, free_port};

fn check(request: &str, status: u16) {
    let target = Target::serve(contract());
    let mut client = target.connect();
    client.send(request);
    let answer = client.answer();
    assert_eq!(answer.status, status, "{request:?}");
    assert_eq!(answer.field("Connection"), Some("close"));
    client.expect_end();
    target.end();
}

#[test]
fn what_is_out_of_order_is_refused_and_the_connection_ends() {
    check("GET / HTTP/1.1\r\n\r\n", 400);
    check("GET /\r\n", 400);
    check("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505);
    check(&format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9_000)), 414);
    check(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(9_000)), 431);
    check(&format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(101)), 431);
    check("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n", 413);
    check("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501);
    check("POST / HTTP/1.0\r\n\r\n", 411);
    check("GET / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", 417);
}

#[test]
fn a_refusal_arrives_though_the_client_goes_on_sending() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n";
    client.send(&format!("{head}{}", ".".repeat(100_000)));
    client.send_bytes(&vec![b'.'; 50_000]);
    assert_eq!(client.answer().status, 413);
    client.expect_end();
    target.end();
}

#[test]
fn requests_before_a_bad_one_are_answered() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    client.send("GET /42 HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.answer().text(), "42");
    assert_eq!(client.answer().status, 400);
    client.expect_end();
    target.end();
}

/// Limits that are over before the driver first looks.
fn impatient() -> Limits {
    Limits {
        head_ns_max: 1,
        idle_ns_max: 1,
        pace_grace_ns: 1,
        pace_min_bps: 1_000_000,
        linger_ns_max: 1,
        ..Limits::DEFAULT
    }
}

fn wait_out(request: &str) -> Option<u16> {
    let settings = Settings { limits: impatient(), ..Settings::new(free_port()) };
    let target = Target::start(settings, contract());
    let mut client = target.connect();
    client.send(request);
    let status = (!request.is_empty()).then(|| client.answer().status);
    client.expect_end();
    target.end();
    status
}

#[test]
fn who_says_nothing_is_closed_without_a_word() {
    assert_eq!(wait_out(""), None);
}

#[test]
fn half_a_head_times_out() {
    assert_eq!(wait_out("GET / HT"), Some(408));
}

#[test]
fn half_a_body_times_out() {
    assert_eq!(wait_out("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"), Some(408));
}

#[test]
fn half_a_chunk_times_out() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9;x";
    assert_eq!(wait_out(head), Some(408));
}

#[test]
fn who_does_not_read_is_cut_off() {
    let settings = Settings { limits: impatient(), ..Settings::new(free_port()) };
    let target = Target::start(settings, contract());
    let mut client = target.connect();
    // Nothing is read here, so the sending ends only when the server has had enough.
    let requests = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10_000);
    while client.try_send(requests.as_bytes()).is_ok() {}
    target.end();
}
