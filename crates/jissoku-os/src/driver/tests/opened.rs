//! Connections that the handler opens.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::*;
use super::stage::{LARGE, TURNS_MAX};
use crate::clock;
use crate::socket::{self, Endpoint, Sharing};

/// What has happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Connected,
    /// Bytes of the server.
    Reply(Vec<u8>),
    Eof,
    Error(ErrorKind),
    /// Bytes of a client.
    Request,
    Closed,
}

/// Opens connections, sends `request` on each, and records what happens.
#[derive(Default)]
struct Opener {
    openings: Vec<Opening>,
    request: Vec<u8>,
    seen: Vec<Seen>,
}

impl EventHandler for Opener {
    type Connection = ();

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    fn on_data(&mut self, (): &mut (), _: &[u8], _: &mut SendBuffer) -> Action {
        self.seen.push(Seen::Request);
        Action::Receive
    }

    fn on_eof(&mut self, (): &mut (), _: &mut SendBuffer) -> Action {
        self.seen.push(Seen::Eof);
        Action::Close
    }

    fn resume(&mut self, (): &mut (), _: usize, _: &mut SendBuffer) -> Action {
        Action::Receive
    }

    fn on_connecting(&mut self, token: u64, _: ConnectionId) -> Option<()> {
        assert_eq!(token, 7);
        Some(())
    }

    fn on_connected(&mut self, (): &mut (), output: &mut SendBuffer) -> Action {
        self.seen.push(Seen::Connected);
        output.append(&self.request);
        Action::Receive
    }

    fn on_opened_data(
        &mut self,
        (): &mut (),
        bytes: &[u8],
        _: usize,
        _: &mut SendBuffer,
    ) -> Action {
        self.seen.push(Seen::Reply(bytes.to_vec()));
        Action::Receive
    }

    fn on_connect_error(&mut self, token: u64, error: io::Error) {
        assert_eq!(token, 7);
        self.seen.extend([Seen::Error(error.kind()), Seen::Closed]);
    }

    fn on_error(&mut self, (): &mut (), error: &io::Error) {
        self.seen.push(Seen::Error(error.kind()));
    }

    fn on_close(&mut self, (): ()) {
        self.seen.push(Seen::Closed);
    }

    fn on_tick(&mut self, _: u64) {}

    /// Never far away, so that a turn in which nothing happens ends.
    fn deadline_ns(&mut self) -> Option<u64> {
        Some(clock::monotonic_ns() + 1_000_000)
    }

    fn next_ready(&mut self) -> Option<Wakeup> {
        self.openings.pop().map(Wakeup::Open)
    }
}

/// A driver, and a server that does nothing of itself.
struct Scene {
    driver: Driver<Opener>,
    opener: Opener,
    server: OwnedFd,
    endpoint: Arc<Endpoint>,
}

impl Scene {
    fn run_until(&mut self, what: &str, mut is_done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..TURNS_MAX {
            if is_done(self) {
                return;
            }
            self.driver.run_once(&mut self.opener).expect("a turn succeeds");
        }
        panic!("it never came to pass that {what}: {:?}", self.opener.seen);
    }

    fn open(&mut self, socket: Option<OwnedFd>) {
        let endpoint = Arc::clone(&self.endpoint);
        self.opener.openings.push(Opening { endpoint, token: 7, socket });
    }

    /// Opens a connection and returns the server's side of it. A Unix stream stands for any.
    fn open_and_accept(&mut self) -> UnixStream {
        self.open(None);
        self.accept()
    }

    fn accept(&mut self) -> UnixStream {
        let mut accepted = None;
        self.run_until("the server accepts", |scene| {
            accepted = socket::accept(&scene.server).expect("it can accept");
            accepted.is_some()
        });
        self.run_until("it is established", |scene| scene.opener.seen.contains(&Seen::Connected));
        // A ring sends with the next wait.
        self.driver.run_once(&mut self.opener).expect("a turn succeeds");
        let stream = UnixStream::from(accepted.expect("a connection"));
        stream.set_nonblocking(false).expect("a socket has modes");
        stream
    }
}

/// Plays `scene` with every driver, over TCP and over a Unix socket.
fn play(scene: impl Fn(&mut Scene)) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let usable = |backend: &Backend| *backend == Backend::Epoll || crate::uring::is_available();
    for backend in [Backend::Epoll, Backend::Uring].into_iter().filter(usable) {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("jissoku-opened-{}-{number}", std::process::id());
        let unix = Endpoint::Unix(std::env::temp_dir().join(name));
        for endpoint in ["127.0.0.1:0".parse().expect("an address"), unix] {
            let server = socket::bind_and_listen(&endpoint, Sharing::Alone).expect("a port");
            let endpoint = socket::local_endpoint(&server).expect("it has an address");
            let settings = Settings { backend, ..Settings::default() };
            let waker = Waker::new().expect("a waker");
            let driver = Driver::new(Vec::new(), waker, settings).expect("a driver");
            let opener = Opener::default();
            scene(&mut Scene { driver, opener, server, endpoint: Arc::new(endpoint.clone()) });
            if let Endpoint::Unix(path) = endpoint {
                std::fs::remove_file(path).expect("the socket is ours");
            }
        }
    }
}

#[test]
fn requests_go_to_a_server_and_responses_come() {
    play(|scene| {
        scene.opener.request = b"request".to_vec();
        let mut server = scene.open_and_accept();
        let mut bytes = [0; 7];
        server.read_exact(&mut bytes).expect("the request comes");
        assert_eq!(&bytes, b"request");
        assert_eq!(scene.driver.connections(), 0, "opened connections do not count as clients");
        server.write_all(b"reply").expect("room to send");
        let reply = Seen::Reply(b"reply".to_vec());
        scene.run_until("the reply comes", |scene| scene.opener.seen.contains(&reply));
        drop(server);
        scene.run_until("it ends", |scene| scene.opener.seen.contains(&Seen::Closed));
        assert_eq!(scene.opener.seen, [Seen::Connected, reply, Seen::Eof, Seen::Closed]);
    });
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    play(|scene| {
        // A socket that is closed keeps its path, or its port for a while.
        let nothing = UnixStream::pair().expect("two sockets").0;
        scene.server = nothing.into();
        scene.open(None);
        scene.run_until("it ends", |scene| scene.opener.seen.contains(&Seen::Closed));
        assert_eq!(scene.opener.seen, [Seen::Error(ErrorKind::ConnectionRefused), Seen::Closed]);
    });
}

#[test]
fn a_connection_that_was_opened_before_is_used() {
    play(|scene| {
        scene.opener.request = b"request".to_vec();
        let socket = socket::connect(&scene.endpoint).expect("it listens");
        scene.open(Some(socket));
        let mut server = scene.accept();
        let mut bytes = [0; 7];
        server.read_exact(&mut bytes).expect("the request comes");
        assert_eq!(&bytes, b"request");
        let other = socket::accept(&scene.server).expect("it can accept");
        assert!(other.is_none(), "no other connection is opened");
    });
}

#[test]
fn a_response_to_a_request_that_cannot_be_sent_comes_before_the_error() {
    play(|scene| {
        scene.opener.request = vec![b'x'; LARGE];
        let mut server = scene.open_and_accept();
        server.write_all(b"no").expect("room to send");
        // With unread bytes, this resets the connection.
        drop(server);
        scene.run_until("it ends", |scene| scene.opener.seen.contains(&Seen::Closed));
        let seen = &scene.opener.seen;
        assert_eq!(seen[..2], [Seen::Connected, Seen::Reply(b"no".to_vec())]);
        assert!(matches!(&seen[2..], [Seen::Error(_), Seen::Closed]), "{seen:?}");
    });
}

#[test]
fn a_response_comes_while_the_request_is_still_being_sent() {
    play(|scene| {
        scene.opener.request = vec![b'x'; LARGE];
        let mut server = scene.open_and_accept();
        server.write_all(b"early").expect("room to send");
        let reply = Seen::Reply(b"early".to_vec());
        scene.run_until("the reply comes", |scene| scene.opener.seen.contains(&reply));
        let size = std::thread::spawn(move || {
            let mut bytes = vec![0; LARGE];
            server.read_exact(&mut bytes).map(|()| bytes.len())
        });
        scene.run_until("the request is sent", |_| size.is_finished());
        assert_eq!(size.join().expect("the thread ends").expect("all bytes come"), LARGE);
    });
}

#[test]
fn the_end_of_a_server_is_processed_before_the_requests_of_clients() {
    play(|scene| {
        let here: Endpoint = "127.0.0.1:0".parse().expect("an address");
        let listener = socket::bind_and_listen(&here, Sharing::Alone).expect("a port");
        let address = socket::local_endpoint(&listener).expect("it has an address").to_string();
        let backend = match scene.driver {
            Driver::Epoll(_) => Backend::Epoll,
            Driver::Uring(_) => Backend::Uring,
        };
        let settings = Settings { backend, ..Settings::default() };
        let waker = Waker::new().expect("a waker");
        scene.driver =
            Driver::new(vec![Listener::PerWorker(listener)], waker, settings).expect("a driver");
        let mut client = std::net::TcpStream::connect(address).expect("it listens");
        scene.run_until("it is accepted", |scene| scene.driver.connections() == 1);
        let server = scene.open_and_accept();
        scene.opener.seen.clear();
        client.write_all(b"x").expect("room to send");
        drop(server);
        scene.run_until("both are seen", |scene| scene.opener.seen.len() >= 3);
        assert_eq!(scene.opener.seen, [Seen::Eof, Seen::Closed, Seen::Request]);
    });
}
