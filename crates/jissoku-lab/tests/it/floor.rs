//! The minimal server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use jissoku_lab::floor::{Bound, bind};
use jissoku_os::socket::Endpoint;

use crate::{connect, with_floor};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: bare\r\nContent-Type: text/plain\r\n\
    Content-Length: 13\r\n\r\nHello, World!";

/// Runs `test` against a server.
fn with_server(endpoint: &str, workers: usize, test: impl FnOnce(&Endpoint)) {
    with_floor(endpoint, workers, Bound::serve, test);
}

fn expect_answers(stream: &mut impl Read, count: usize) {
    let mut bytes = vec![0; RESPONSE.len() * count];
    stream.read_exact(&mut bytes).expect("that many bytes come");
    assert!(bytes == RESPONSE.repeat(count));
}

#[test]
fn each_request_is_answered_however_it_arrives() {
    with_server("127.0.0.1:0", 1, |endpoint| {
        let mut stream = connect(endpoint);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is taken");
        expect_answers(&mut stream, 1);
        for byte in b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" {
            stream.write_all(&[*byte]).expect("it is taken");
        }
        expect_answers(&mut stream, 1);
        let many = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
        stream.write_all(&many).expect("it is taken");
        expect_answers(&mut stream, 1000);
    });
}

#[test]
fn connections_come_and_go() {
    with_server("127.0.0.1:0", 2, |endpoint| {
        let mut streams: Vec<TcpStream> = (0..50).map(|_| connect(endpoint)).collect();
        for _round in 0..3 {
            for stream in &mut streams {
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is taken");
                expect_answers(stream, 1);
                // Half a request: a later connection with this number must not get an early
                // response.
                stream.write_all(b"GET / HTTP/1.1\r\n").expect("it is taken");
                *stream = connect(endpoint);
            }
        }
        // Workers have listeners of their own, and all respond.
        drop(streams);
        let mut last = connect(endpoint);
        last.write_all(b"\r\n").expect("it is taken");
        last.write_all(b"\r\n").expect("it is taken");
        expect_answers(&mut last, 1);
    });
}

#[test]
fn a_server_that_ends_takes_its_path_with_it() {
    let path = std::env::temp_dir().join(format!("jissoku-floor-{}.sock", std::process::id()));
    with_server(&format!("unix:{}", path.display()), 2, |_| {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is taken");
        expect_answers(&mut stream, 1);
    });
    assert!(!path.exists());
}

#[test]
fn a_taken_port_is_refused_by_name() {
    let one = bind(&["127.0.0.1:0".parse().expect("an endpoint")], 1).expect("a port is free");
    let (endpoint, error) = bind(one.endpoints(), 1).expect_err("it is taken");
    assert_eq!(endpoint, one.endpoints()[0]);
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}
