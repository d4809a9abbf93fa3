use proptest::prelude::*;

use super::*;
use crate::plan::expect::Verify;
use crate::protocol::test_wires::{damaged, split};

/// The result of reading a connection's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Responses(Vec<ResponseInfo>, Rest),
    Broken(Vec<ResponseInfo>),
}

/// The result of the connection's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    ResponseInfo(ResponseInfo),
    RequestError(RequestError),
}

fn read(parts: &[&[u8]], expected: &Expected, head_only: bool) -> Seen {
    let context = RequestContext { head_only, expected };
    let (mut reader, mut responses) = (Reader::default(), Vec::new());
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            match reader.feed(rest, context) {
                Progress::Incomplete => break,
                Progress::Invalid | Progress::Control(..) => return Seen::Broken(responses),
                Progress::Complete(response, used) => {
                    responses.push(response);
                    rest = &rest[used..];
                }
            }
        }
    }
    let rest = if reader.is_fresh() {
        Rest::Nothing
    } else {
        reader.end(context).map_or_else(Rest::RequestError, Rest::ResponseInfo)
    };
    Seen::Responses(responses, rest)
}

fn hello() -> Expected {
    Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec()))
}

const GOOD: ResponseInfo = ResponseInfo { status: 200, error: None, keeps_alive: true };
const LAST: ResponseInfo = ResponseInfo { status: 200, error: None, keeps_alive: false };

fn bad(error: RequestError) -> ResponseInfo {
    let status = if error == RequestError::Status { 404 } else { 200 };
    ResponseInfo { status, error: Some(error), keeps_alive: true }
}

fn check(wire: &str, responses: &[ResponseInfo], rest: Rest) {
    let seen = read(&[wire.as_bytes()], &hello(), false);
    assert_eq!(seen, Seen::Responses(responses.to_vec(), rest), "{wire:?}");
}

fn check_broken(wire: &str) {
    let seen = read(&[wire.as_bytes()], &hello(), false);
    assert_eq!(seen, Seen::Broken(Vec::new()), "{wire:?}");
}

#[test]
fn a_length_frames_a_body() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello", &[GOOD], Rest::Nothing);
    check("HTTP/1.1 200 OK\r\ncontent-length:5 \r\n\r\nHello", &[GOOD], Rest::Nothing);
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nHello";
    check(twice, &[GOOD], Rest::Nothing);
}

#[test]
fn chunks_frame_a_body() {
    let wire =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nHe\r\n3\r\nllo\r\n0\r\n\r\n";
    check(wire, &[GOOD], Rest::Nothing);
    check(&wire.repeat(3), &[GOOD; 3], Rest::Nothing);
}

#[test]
fn the_end_of_the_connection_frames_what_nothing_else_frames() {
    check("HTTP/1.1 200 OK\r\n\r\nHello", &[], Rest::ResponseInfo(LAST));
    check("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nHello", &[], Rest::ResponseInfo(LAST));
}

#[test]
fn an_end_within_a_response_is_an_error() {
    let short = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHell";
    check(short, &[], Rest::RequestError(RequestError::Length));
    let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n0\r\n";
    check(chunk, &[], Rest::RequestError(RequestError::Length));
    check("HTTP/1.1 200 OK\r\nContent-Le", &[], Rest::RequestError(RequestError::Closed));
}

#[test]
fn a_connection_lives_on_or_not() {
    let with =
        |version, field| format!("HTTP/{version} 200 OK\r\n{field}Content-Length: 5\r\n\r\nHello");
    check(&with("1.1", ""), &[GOOD], Rest::Nothing);
    check(&with("1.1", "Connection: keep-alive\r\n"), &[GOOD], Rest::Nothing);
    check(&with("1.1", "Connection: close\r\n"), &[LAST], Rest::Nothing);
    check(&with("1.1", "Connection: x, CLOSE\r\n"), &[LAST], Rest::Nothing);
    check(&with("1.0", ""), &[LAST], Rest::Nothing);
    check(&with("1.0", "Connection: Keep-Alive\r\n"), &[GOOD], Rest::Nothing);
    check(&with("1.0", "Connection: keep-alive, close\r\n"), &[LAST], Rest::Nothing);
}

#[test]
fn some_responses_have_no_body_whatever_they_announce() {
    let expected = Expected::new(Verify::Length, Vec::new(), None);
    let bodiless =
        [(204, "204 No Content\r\n"), (304, "304 Not Modified\r\nContent-Length: 5\r\n")];
    for (status, head) in bodiless {
        let wire = format!("HTTP/1.1 {head}\r\n");
        let seen = read(&[wire.as_bytes()], &expected, false);
        assert_eq!(
            seen,
            Seen::Responses(vec![ResponseInfo { status, ..GOOD }], Rest::Nothing),
            "{head:?}"
        );
    }
    let wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let seen = read(&[wire, wire], &expected, true);
    assert_eq!(seen, Seen::Responses(vec![GOOD, GOOD], Rest::Nothing));
}

#[test]
fn interim_responses_are_skipped() {
    let wire = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";
    check(wire, &[GOOD], Rest::Nothing);
}

#[test]
fn errors_are_distinguished() {
    let with = |status, length, body| {
        format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    check(&with(404, 5, "Hello"), &[bad(RequestError::Status)], Rest::Nothing);
    check(&with(200, 4, "Hell"), &[bad(RequestError::Length)], Rest::Nothing);
    check(&with(200, 6, "Hello!"), &[bad(RequestError::Length)], Rest::Nothing);
    check(&with(200, 5, "HellO"), &[bad(RequestError::Body)], Rest::Nothing);
}

#[test]
fn invalid_responses_are_rejected() {
    for head in [
        "Hello, World!\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 No\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 600 No\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nHello",
    ] {
        check_broken(head);
    }
    check_broken(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(FIELDS_MAX + 1)));
    check_broken(&format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(HEAD_SIZE_MAX)));
}

/// Responses that are correct, wrong in every way, or truncated.
fn wires() -> impl Strategy<Value = Vec<u8>> {
    let response = prop_oneof![
        Just("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello"),
        Just("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHellO"),
        Just("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nHell"),
        Just("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
        Just("HTTP/1.1 204 No\r\n\r\n"),
        Just("HTTP/1.1 100 Continue\r\n\r\n"),
        Just(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nH\r\n4;x\r\nello\r\n0\r\na: b\r\n\r\n"
        ),
        Just("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\n"),
        Just("HTTP/1.1 200 OK\r\n\r\nHello"),
        Just("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nHello"),
        Just("garbage"),
    ];
    damaged(response.prop_map(str::as_bytes), 1..5)
}

proptest! {
    #[test]
    fn how_the_bytes_were_split_makes_no_difference(
        wire in wires(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let parts = split(&wire, &cuts);
        let bytes: Vec<&[u8]> = wire.chunks(1).collect();
        let whole = read(&[&wire], &hello(), false);
        prop_assert_eq!(&read(&parts, &hello(), false), &whole);
        prop_assert_eq!(&read(&bytes, &hello(), false), &whole);
    }
}

#[test]
fn folded_lines_and_many_fields_are_read() {
    let cookies = "Set-Cookie: c=1\r\n".repeat(FIELDS_MAX - 1);
    for head in [
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc\r\nContent-Length: 5\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nConnection: x,\r\n keep-alive\r\nContent-Length: 5\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\n{cookies}Content-Length: 5\r\n\r\n"),
    ] {
        let expected = Expected::new(Verify::None, Vec::new(), None);
        let context = RequestContext { head_only: false, expected: &expected };
        let wire = format!("{head}Hello");
        let progress = Reader::default().feed(wire.as_bytes(), context);
        let Progress::Complete(response, size) = progress else {
            panic!("{head:.40}: {progress:?}")
        };
        assert_eq!((response.status, response.error, size), (200, None, wire.len()));
        assert!(response.keeps_alive);
    }
    let close = "HTTP/1.1 200 OK\r\nConnection:\r\n close\r\nContent-Length: 0\r\n\r\n";
    let expected = Expected::new(Verify::None, Vec::new(), None);
    let context = RequestContext { head_only: false, expected: &expected };
    let Progress::Complete(response, _) = Reader::default().feed(close.as_bytes(), context) else {
        panic!("it is complete");
    };
    assert!(!response.keeps_alive);
}
