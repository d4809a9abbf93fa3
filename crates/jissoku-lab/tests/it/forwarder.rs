//! The minimal forwarder.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;

use jissoku_lab::floor::Bound;
use jissoku_os::socket::Endpoint;

use crate::{connect, with_floor};

/// More than the buffers of all sockets on the way.
const LARGE: usize = 24 * 1024 * 1024;

/// Runs `test` with a client's connection to a forwarder in front of `upstream`.
fn through(upstream: &Endpoint, test: impl FnOnce(TcpStream)) {
    let upstream = upstream.clone();
    let forward = move |bound: Bound, halt: BorrowedFd<'_>| bound.forward(&upstream, halt);
    with_floor("127.0.0.1:0", 1, forward, |place| test(connect(place)));
}

fn tcp() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let endpoint = Endpoint::Tcp(listener.local_addr().expect("it has a name"));
    (listener, endpoint)
}

fn socket_path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("jissoku-forwarder-{name}-{}.sock", std::process::id()))
}

fn large() -> Vec<u8> {
    (0..LARGE).map(|index| u8::try_from(index / 7 % 251).expect("it is below 251")).collect()
}

#[test]
fn both_directions_are_relayed_in_turn() {
    let (listener, endpoint) = tcp();
    through(&endpoint, |mut client| {
        let (mut server, _) = listener.accept().expect("the forwarder connects");
        for round in 0..100_u8 {
            client.write_all(&[b'q', round]).expect("it is taken");
            let mut request = [0; 2];
            server.read_exact(&mut request).expect("it arrives");
            assert_eq!(request, [b'q', round]);
            server.write_all(&[b'a', round, round]).expect("it is taken");
            let mut response = [0; 3];
            client.read_exact(&mut response).expect("it arrives");
            assert_eq!(response, [b'a', round, round]);
        }
    });
}

#[test]
fn bytes_that_the_kernel_refuses_wait_in_order() {
    let path = socket_path("large");
    let listener = UnixListener::bind(&path).expect("the path is free");
    through(&Endpoint::Unix(path.clone()), |mut client| {
        let (mut server, _) = listener.accept().expect("the forwarder connects");
        let uploading = thread::spawn(move || {
            client.write_all(&large()).expect("it is taken");
            client.shutdown(Shutdown::Write).expect("it is connected");
            client
        });
        let mut upload = Vec::new();
        server.read_to_end(&mut upload).expect("its end arrives");
        assert!(upload == large());
        // The other direction is still open after the client's end.
        let mut client = uploading.join().expect("it does not panic");
        let answering = thread::spawn(move || server.write_all(&upload));
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("its end arrives");
        assert!(answer == large());
        answering.join().expect("it does not panic").expect("it is taken");
    });
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn the_end_of_a_server_is_the_end_of_its_client() {
    let (listener, endpoint) = tcp();
    through(&endpoint, |mut client| {
        let (server, _) = listener.accept().expect("the forwarder connects");
        drop(server);
        assert_eq!(client.read(&mut [0]).expect("it is no error"), 0);
    });
}

#[test]
fn the_end_of_a_client_is_the_end_of_its_server() {
    let (listener, endpoint) = tcp();
    through(&endpoint, |client| {
        let (mut server, _) = listener.accept().expect("the forwarder connects");
        drop(client);
        assert_eq!(server.read(&mut [0]).expect("it is no error"), 0);
    });
}

#[test]
fn a_client_is_closed_if_no_server_listens() {
    let (listener, tcp) = tcp();
    drop(listener);
    for endpoint in [tcp, Endpoint::Unix(socket_path("absent"))] {
        through(&endpoint, |mut client| match client.read(&mut [0]) {
            Ok(count) => assert_eq!(count, 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        });
    }
}
