//! Allocations of a GET through the gateway in steady state: a bound that is lowered, never raised.
//!
//! A separate binary, because an allocator belongs to a whole process. It counts allocations of all
//! threads except those of the client and the server.

#[expect(dead_code, reason = "the server's test also asks how much is held")]
#[path = "../../../jissoku-server/tests/hot/counting.rs"]
mod counting;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use jissoku_os::driver::Backend;
use jissoku_proxy::policy::fields::{FieldRules, Side};
use jissoku_proxy::policy::routes::{PathPattern, Rule};
use jissoku_proxy::{
    Content, Forwarding, Gateway, RouteContent, RouteEdit, ServerEntry, Target, Timeouts,
    UpstreamGroup, UpstreamOptions,
};
use jissoku_server::{DynService, Server, Settings};

/// A limit that no test reaches; it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_mins(1);

/// Rounds until all buffers have their size, and rounds that are counted.
const ROUNDS_BEFORE: usize = 200;
const ROUNDS: usize = 300;

/// Allocations of one request: two buffers of its head, and three of the response.
const ALLOCATIONS_MAX: u64 = 5;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: b\r\nAccept: */*\r\n\r\n";
const OK: &[u8] =
    b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n\r\nok";

/// Answers all requests of one connection.
fn serve(listener: &TcpListener) {
    counting::exclude_this_thread();
    let (mut stream, _) = listener.accept().expect("the proxy connects");
    stream.set_nodelay(true).expect("a socket has options");
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).expect("it ends in order") > 0 {
        stream.write_all(OK).expect("room to send");
    }
}

/// Allocations of all rounds.
fn count(backend: Backend, service: impl FnOnce(Target) -> DynService) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let server = std::thread::spawn(move || serve(&listener));
    let mut settings = Settings::new("127.0.0.1:0".parse().expect("an address"));
    settings.driver.backend = backend;
    settings.limits.pace_grace_ns = u64::MAX;
    let proxy = Server::listen(settings).expect("the address is free");
    let place = proxy.endpoints()[0].to_string();
    let target = format!("http://{address}").parse().expect("an address");
    let mut running = proxy.start(service(target)).expect("the worker starts");
    let mut client = TcpStream::connect(place).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket has options");
    client.set_nodelay(true).expect("a socket has options");
    let mut buffer = [0; 4096];
    let mut ask = || {
        client.write_all(GET).expect("it can be sent");
        let mut size = 0;
        while size < 4 || buffer[size - 2..size] != *b"ok" {
            match client.read(&mut buffer[size..]) {
                // A read with a timeout is not restarted by the kernel (`signal(7)`).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => size += read.expect("a response"),
            }
        }
    };
    (0..ROUNDS_BEFORE).for_each(|_| ask());
    let before = counting::allocations();
    (0..ROUNDS).for_each(|_| ask());
    let count = counting::allocations() - before;
    running.abandon().expect("the worker is woken");
    running.join().expect("the worker exits without an error");
    server.join().expect("it ends with its connection");
    count
}

/// The routes of a file: all requests are forwarded.
fn routed(target: Target) -> DynService {
    forwarding(target, RouteEdit::default())
}

/// The same with rules for fields.
fn edited(target: Target) -> DynService {
    let rules = |texts: &[&str], side| {
        let mut rules = FieldRules::default();
        texts.iter().try_for_each(|text| rules.add(text, side, &[])).expect("rules");
        rules
    };
    let request = ["X-Client: {client}", "X-Asked: {scheme}://{host}{target}", "-User-Agent"];
    let edit = RouteEdit {
        request: rules(&request, Side::Request),
        response: rules(&["-Server", "X-Path: {path}"], Side::Response),
        ..RouteEdit::default()
    };
    forwarding(target, edit)
}

fn forwarding(target: Target, edit: RouteEdit) -> DynService {
    let entry = ServerEntry { target, weight: 1, in_flight_max: 1024 };
    let options = UpstreamOptions::new(Timeouts::DEFAULT.idle_ns);
    let upstream = UpstreamGroup::new(("app", "h"), vec![entry], options, None);
    let rule = Rule::new(PathPattern::parse("/**").expect("a path"));
    let mut gateway = Gateway::of(vec![upstream], Timeouts::DEFAULT);
    let edit = gateway.add_edit(edit);
    let content = Content::Forward(Forwarding { edit, ..Forwarding::new(0, 60_000_000_000) });
    let content = RouteContent::single(rule, content, gateway, 0);
    Arc::new(content).without_app().into()
}

fn unrouted(target: Target) -> DynService {
    Gateway::new(target, Timeouts::DEFAULT).into()
}

/// One test, because several would count each other's.
#[test]
fn a_forwarded_request_allocates_what_it_did() {
    counting::exclude_this_thread();
    for backend in [Backend::Epoll, Backend::Uring] {
        if backend == Backend::Uring && !jissoku_os::uring::is_available() {
            continue;
        }
        for (what, service, more) in [
            ("routes", routed as fn(_) -> _, 0),
            ("--to", unrouted, 0),
            // The fields that are added to the response, together.
            ("rules for fields", edited, 1),
        ] {
            let count = count(backend, service);
            let count_max = (ALLOCATIONS_MAX + more) * ROUNDS as u64;
            assert!(count <= count_max, "{count} in {ROUNDS} rounds, {what}, {backend:?}");
        }
    }
}
