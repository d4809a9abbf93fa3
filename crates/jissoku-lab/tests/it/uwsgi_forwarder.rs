//! The minimal forwarder in the uwsgi protocol.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jissoku_lab::floor::Bound;
use jissoku_os::socket::Endpoint;

use crate::{connect, with_floor};

const REQUEST: &[u8] = b"GET /any HTTP/1.1\r\nHost: a\r\n\r\n";
const SENT: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Of one attempt, of many.
const TURN: Duration = Duration::from_millis(100);

fn socket_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("jissoku-uwsgi-forwarder-{name}-{}", std::process::id()))
}

/// Runs `test` with a client's connection to a forwarder in front of a server at `path`.
fn through(path: &Path, test: impl FnOnce(TcpStream)) {
    through_to(Endpoint::Unix(path.to_path_buf()), test);
}

fn through_to(upstream: Endpoint, test: impl FnOnce(TcpStream)) {
    let forward = move |bound: Bound, halt: BorrowedFd<'_>| bound.forward_uwsgi(&upstream, halt);
    with_floor("127.0.0.1:0", 1, forward, |place| test(connect(place)));
}

/// Accepts a connection, and reads the packet of its request.
fn accept(listener: &UnixListener) -> (UnixStream, Vec<(String, String)>) {
    let (mut server, _) = listener.accept().expect("the forwarder connects");
    let variables = read_packet(&mut server);
    (server, variables)
}

fn read_packet(server: &mut impl Read) -> Vec<(String, String)> {
    let mut head = [0; 4];
    server.read_exact(&mut head).expect("a packet comes");
    assert_eq!((head[0], head[3]), (0, 0));
    let mut packet = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
    server.read_exact(&mut packet).expect("all of it comes");
    let mut texts = Vec::new();
    let mut rest = packet.as_slice();
    while let [low, high, after @ ..] = rest {
        let (text, next) = after.split_at(usize::from(u16::from_le_bytes([*low, *high])));
        texts.push(String::from_utf8(text.to_vec()).expect("it is ASCII"));
        rest = next;
    }
    assert!(rest.is_empty());
    let pairs = texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    pairs.collect()
}

fn read_response(client: &mut TcpStream) {
    let mut response = [0; RESPONSE.len()];
    client.read_exact(&mut response).expect("a response comes");
    assert_eq!(response, RESPONSE);
}

#[test]
fn every_request_has_a_connection_with_the_same_packet() {
    let path = socket_path("same");
    let listener = UnixListener::bind(&path).expect("the path is free");
    through(&path, |mut client| {
        for _ in 0..3 {
            client.write_all(REQUEST).expect("it is taken");
            let (mut server, variables) = accept(&listener);
            for (name, value) in [("REQUEST_METHOD", "GET"), ("PATH_INFO", "/")] {
                assert!(variables.contains(&(name.to_owned(), value.to_owned())), "{variables:?}");
            }
            // In two parts, of which neither is taken for the end.
            server.write_all(&SENT[..50]).expect("it is taken");
            server.write_all(&SENT[50..]).expect("it is taken");
            drop(server);
            read_response(&mut client);
        }
    });
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn a_server_on_a_port_gets_the_packet_too() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    through_to(address.parse().expect("it is an endpoint"), |mut client| {
        for _ in 0..3 {
            client.write_all(REQUEST).expect("it is taken");
            let (mut server, _) = listener.accept().expect("the forwarder connects");
            assert!(!read_packet(&mut server).is_empty());
            server.write_all(SENT).expect("it is taken");
            drop(server);
            read_response(&mut client);
        }
    });
}

#[test]
fn a_response_of_known_size_ends_its_connection() {
    let path = socket_path("size");
    let listener = UnixListener::bind(&path).expect("the path is free");
    through(&path, |mut client| {
        client.write_all(REQUEST).expect("it is taken");
        let (mut server, _) = accept(&listener);
        server.write_all(SENT).expect("it is taken");
        drop(server);
        read_response(&mut client);
        // The end of the first connection may come after the next request, which replaces it: then
        // the size is that of the next.
        let mut is_known = false;
        for _ in 0..1_000 {
            client.write_all(REQUEST).expect("it is taken");
            let (mut server, _) = accept(&listener);
            server.write_all(SENT).expect("it is taken");
            read_response(&mut client);
            server.set_read_timeout(Some(TURN)).expect("a time");
            is_known = server.read(&mut [0]).is_ok_and(|count| count == 0);
            if is_known {
                break;
            }
        }
        assert!(is_known, "the forwarder waits for the end of the server's side");
    });
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn a_client_is_closed_if_no_server_listens() {
    through(&socket_path("absent"), |mut client| {
        client.write_all(REQUEST).expect("it is taken");
        assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
    });
}
