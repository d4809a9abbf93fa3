//! Injected faults as a client sees them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use jissoku_lab::fixtures::{Contract, Faulty, Fixture, InjectedFault, adjust};
use jissoku_os::socket::Endpoint;
use jissoku_server::{Fixed, RunningServer, Server, Settings};

/// Longer than anything here takes; it turns a hang into a failure.
const TIMEOUT: Duration = Duration::from_secs(30);

struct Target {
    running: RunningServer,
    client: BufReader<TcpStream>,
}

impl Target {
    fn start(service: impl Into<Fixture>, faults: &[InjectedFault]) -> Self {
        let settings = Settings { workers: 2, ..Settings::new(free_port()) };
        let server = Server::listen(adjust(settings, faults)).expect("a free port");
        let Some(Endpoint::Tcp(address)) = server.endpoints().pop() else {
            unreachable!("it listens on TCP");
        };
        let running = server.start(Faulty::new(service.into(), faults, 2)).expect("workers start");
        let client = TcpStream::connect(address).expect("the server listens");
        client.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        Self { running, client: BufReader::new(client) }
    }

    /// Sends one request; returns the head of the response and its body.
    fn ask(&mut self, path: &str) -> (String, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        self.client.get_mut().write_all(request.as_bytes()).expect("the server receives");
        let (mut head, mut size) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            assert!(self.client.read_line(&mut line).expect("a response") > 0, "{head}");
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                size = value.trim().parse().expect("a number");
            }
            head += &line;
        }
        let mut body = vec![0; size];
        self.client.read_exact(&mut body).expect("a body");
        (head, String::from_utf8(body).expect("text"))
    }

    fn end(mut self) {
        self.running.abandon().expect("the workers are running");
        self.running.join().expect("the workers end without an error");
    }
}

fn free_port() -> Endpoint {
    "127.0.0.1:0".parse().expect("an address")
}

#[test]
fn responses_are_complete_with_each_fault() {
    for fault in [
        InjectedFault::PeerName(2),
        InjectedFault::Open(1),
        InjectedFault::Split,
        InjectedFault::SplitDelayed,
        InjectedFault::SingleWorker,
        InjectedFault::Herd,
        InjectedFault::Log,
    ] {
        let mut target = Target::start(Fixed::new("ok"), &[fault]);
        for _ in 0..4 {
            let (head, body) = target.ask("/");
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{fault:?}: {head}");
            assert_eq!(body, "ok", "{fault:?}");
        }
        target.end();
    }
}

#[test]
fn a_connection_is_closed_after_its_last_request() {
    let faults = [InjectedFault::CloseAfter(2), InjectedFault::Split];
    let mut target = Target::start(Fixed::new("ok"), &faults);
    assert!(!target.ask("/").0.contains("Connection: close\r\n"));
    assert!(target.ask("/").0.contains("Connection: close\r\n"));
    assert_eq!(target.client.read(&mut [0]).expect("the end"), 0);
    target.end();
}

#[test]
fn delays_are_kept_in_a_list_and_met() {
    let contract = Contract::new(None, Duration::ZERO, 0);
    let mut target = Target::start(contract, &[InjectedFault::LinearTimers]);
    let start_ns = jissoku_os::clock::monotonic_ns();
    // Longer than a second: the worker visits every connection once a second, too.
    assert_eq!(target.ask("/delay?ms=1200").1, "Hello, World!");
    assert!(jissoku_os::clock::monotonic_ns() - start_ns >= 1_200_000_000);
    assert_eq!(target.ask("/delay?ms=1").1, "Hello, World!");
    target.end();
}

#[test]
fn a_worker_panics_at_its_request() {
    let mut target = Target::start(Fixed::new("ok"), &[InjectedFault::Crash(3)]);
    for _ in 0..2 {
        assert_eq!(target.ask("/").1, "ok");
    }
    target.client.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is sent");
    assert!(target.client.read(&mut [0]).map_or(true, |size| size == 0));
    let _failed = target.running.abandon();
    assert!(target.running.join().is_err(), "the panic is reported");
}
