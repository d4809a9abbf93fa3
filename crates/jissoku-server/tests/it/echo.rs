//! The echo returns the parsed request, and the contract of 42 has exact responses.

use jissoku_lab::fixtures::{Echo, FortyTwo};
use jissoku_server::{Limits, Settings};

use crate::client::{Answer, Target, free_port};

fn echo() -> Target {
    Target::serve(Echo::new())
}

fn check(request: &str, content_type: &str, body: &str) {
    let target = echo();
    let mut client = target.connect();
    // Byte by byte, and two requests at once.
    for byte in request.bytes() {
        client.send_bytes(&[byte]);
    }
    client.send(&request.repeat(2));
    for _ in 0..3 {
        let answer = client.answer();
        assert_eq!((answer.status, answer.text()), (200, body), "{request:?}");
        assert_eq!(answer.field("Content-Type"), Some(content_type), "{request:?}");
    }
}

#[test]
fn a_get_is_answered_with_ok() {
    check("GET /any?x HTTP/1.1\r\nHost: a\r\n\r\n", "text/plain", "OK");
    check("DELETE /any HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy", "text/plain", "OK");
    check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "text/plain", "OK");
}

#[test]
fn a_post_is_answered_with_its_body() {
    let typed = "Host: a\r\nContent-Type: text/x\r\nContent-Length: 5\r\n\r\n";
    check(&format!("POST /any HTTP/1.1\r\n{typed}a\r\nbc"), "text/x", "a\r\nbc");
    let bare = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    check(bare, "application/octet-stream", "");
}

#[test]
fn chunks_are_joined_and_trailers_dropped() {
    let head = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n";
    let body = "3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nT: u\r\n\r\n";
    check(&format!("{head}{body}"), "application/octet-stream", "abcdefgh");
}

#[test]
fn header_fields_are_returned_unchanged_and_in_order() {
    let fields = "Host: a\r\nX-b:  c \r\nx-B:\r\nContent-Length: 1\r\n";
    let expected = "Host: a\nX-b: c\nx-B: \nContent-Length: 1\n";
    check(&format!("POST /echo?x HTTP/1.1\r\n{fields}\r\n."), "text/plain", expected);
}

#[test]
fn the_whole_request_is_returned_as_json() {
    // "POST", "/json?x", "HTTP/1.1", "Host", "a", "Content-Length", "2", "hi".
    let request = "POST /json?x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    let expected = "{\"method\":\"UE9TVA==\",\"uri\":\"L2pzb24/eA==\",\"version\":\"SFRUUC8xLjE=\",\
        \"headers\":[[\"SG9zdA==\",\"YQ==\"],[\"Q29udGVudC1MZW5ndGg=\",\"Mg==\"]],\
        \"body\":\"aGk=\"}\n";
    check(request, "application/json", expected);
}

#[test]
fn head_gets_the_content_length_of_get() {
    let target = echo();
    let ask = |method: &str| {
        let mut client = target.connect();
        client.send(&format!("{method} /json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        client
    };
    let mut client = ask("HEAD");
    let head = client.head();
    client.expect_end();
    // The methods "HEAD" and "GET" are equally long in base64 when padded: 8 and 4 bytes.
    let length = |answer: &Answer| answer.field("Content-Length").map(str::parse::<u32>);
    assert_eq!(length(&head), length(&ask("GET").answer()).map(|size| size.map(|size| size + 4)));
}

#[test]
fn a_body_over_the_limit_is_refused_and_one_of_the_limit_is_returned() {
    let mut limits = Limits::DEFAULT;
    limits.request.body_size_max = 200_000;
    let settings = Settings { limits, ..Settings::new(free_port()) };
    let target = Target::start(settings, Echo::new());
    let mut client = target.connect();
    let body: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    client.send_bytes(&body);
    assert!(client.answer().body == body, "every byte comes back");
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200001\r\n\r\n");
    assert_eq!(client.answer().status, 413);
    client.expect_end();
}

#[test]
fn the_contract_of_42_has_no_other_path() {
    let target = Target::serve(FortyTwo::new());
    let ask = |line: &str| target.ask(&format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let answer = ask("GET /");
    let fields: Vec<_> = answer.fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
    let expected = [
        "Server: bench",
        "Connection: keep-alive",
        "Content-Type: text/plain",
        "Content-Length: 2",
    ];
    assert_eq!(
        (answer.status, answer.text(), &fields[..]),
        (200, "42", &expected.map(str::to_owned)[..])
    );
    for line in ["GET /42", "GET /delay?ms=1", "POST /", "DELETE /", "OPTIONS *"] {
        assert_eq!(ask(line).status, 404, "{line}");
    }
}
