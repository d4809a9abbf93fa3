//! Every parser answers the same requests alike, however their bytes are split.

use super::*;
use crate::parser::{HttpParser, Httparse, Jissoku, Llhttp, Pico, Replayed};

type Run = fn(&[&[u8]]) -> (String, bool);

const EVERYBODY: [(&str, Run); 6] = [
    ("jissoku-http", run::<Jissoku>),
    ("httparse", run::<Httparse>),
    ("picohttpparser", run::<Pico>),
    ("llhttp", run::<Llhttp>),
    ("http-parser", run::<HttpParser>),
    ("http-parser-replayed", run::<Replayed>),
];

/// What is answered to some pieces, until the connection ends, and whether it does.
fn run<P: Parser>(pieces: &[&[u8]]) -> (String, bool) {
    let mut reader = Reader::<P>::new();
    let mut out = Vec::new();
    for piece in pieces {
        if !reader.is_last {
            reader.feed(piece, &mut out);
        }
    }
    (String::from_utf8(out).expect("answers are text"), reader.is_last)
}

/// All parsers, whole, in two pieces at every place, and byte by byte.
fn check(request: &str, expected: &str, is_last: bool) {
    let bytes = request.as_bytes();
    let expected = (String::from(expected), is_last);
    for (name, run) in EVERYBODY {
        assert_eq!(run(&[bytes]), expected, "{name}: {request:?}");
        for at in 1..bytes.len() {
            let (front, back) = bytes.split_at(at);
            assert_eq!(run(&[front, back]), expected, "{name}: {request:?} in two at {at}");
        }
        let singles: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(run(&singles), expected, "{name}: {request:?} byte by byte");
    }
}

fn parsed(text: &str, connection: &str) -> String {
    let size = text.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n\
         Connection: {connection}\r\n\r\n{text}"
    )
}

fn refused(status: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    )
}

#[test]
fn every_shape_is_parsed_alike() {
    for (name, shape) in crate::bench::SHAPES {
        let request = shape.replace("{PATH}", "/parsed").replace("{HOST}", "a:1");
        let (line, rest) = request.split_once("\r\n").expect("there is a request line");
        let target = line.split(' ').nth(1).expect("there is a target");
        let lines = rest.trim_end().lines().map(|line| line.replacen(": ", "=", 1) + "\n");
        let text = format!("GET {target}\n{}", lines.collect::<String>());
        assert!(text.contains("Host=a:1\n"), "{name} names its host");
        check(&request, &parsed(&text, "keep-alive"), false);
    }
}

#[test]
fn requests_in_a_row_are_answered_in_order() {
    let row = "GET /parsed HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /parsed HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\nxyz\
        GET /parsed?2 HTTP/1.1\r\nHost:c\r\nX:  two words \t\r\nEmpty:\r\n\r\n";
    let expected = [
        parsed("GET /parsed\nHost=a\n", "keep-alive"),
        parsed("POST /parsed\nHost=b\nContent-Length=3\n", "keep-alive"),
        parsed("GET /parsed?2\nHost=c\nX=two words\nEmpty=\n", "keep-alive"),
    ];
    check(row, &expected.concat(), false);
}

#[test]
fn a_client_that_closes_is_answered_once() {
    let closing = "GET /parsed HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let expected = parsed("GET /parsed\nHost=a\nConnection=close\n", "close");
    check(closing, &expected, true);
    let more = format!("{closing}GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    check(&more, &expected, true);
    let old = "GET /parsed HTTP/1.0\r\n\r\n";
    check(old, &parsed("GET /parsed\n", "close"), true);
}

#[test]
fn an_upgrade_is_not_heeded() {
    let request = "GET /parsed HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n";
    let text = "GET /parsed\nHost=a\nConnection=upgrade\nUpgrade=h2c\n";
    check(&request.repeat(2), &parsed(text, "keep-alive").repeat(2), false);
}

#[test]
fn what_is_malformed_is_refused_by_everybody() {
    for request in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nna me: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nx\x01y: x\r\n\r\n",
        "GET / HTTQ/1.1\r\nHost: a\r\n\r\n",
    ] {
        check(request, &refused("400 Bad Request"), true);
    }
}

#[test]
fn chunks_and_what_is_too_much_have_a_status_of_their_own() {
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(chunked, &refused("501 Not Implemented"), true);
    let large = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n";
    check(large, &refused("413 Content Too Large"), true);
}
