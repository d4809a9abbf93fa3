//! Rejected requests, and that their error responses arrive.

use crate::client::{Target, contract};

fn check(request: &str, status: u16) {
    let target = Target::serve(contract());
    let mut client = target.connect();
    client.send(request);
    let answer = client.answer();
    assert_eq!(answer.status, status, "{request:?}");
    assert_eq!(answer.field("Connection"), Some("close"));
    client.expect_end();
}

#[test]
fn an_invalid_request_is_rejected_and_the_connection_closed() {
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
fn an_error_response_arrives_although_the_client_keeps_sending() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n";
    client.send(&format!("{head}{}", ".".repeat(100_000)));
    client.send_bytes(&vec![b'.'; 50_000]);
    assert_eq!(client.answer().status, 413);
    client.expect_end();
}

#[test]
fn requests_before_an_invalid_one_are_answered() {
    let target = Target::serve(contract());
    let mut client = target.connect();
    client.send("GET /42 HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.answer().text(), "42");
    assert_eq!(client.answer().status, 400);
    client.expect_end();
}
