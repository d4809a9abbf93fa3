//! In the steady state a request allocates no memory.
//!
//! This is a test binary of its own because the allocator is global. The server's threads are not
//! counted.

#[expect(dead_code, reason = "the server's test also asks how much is held")]
#[path = "../../../jissoku-server/tests/hot/counting.rs"]
mod counting;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::spawn;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jissoku_load::{
    Control, Driver, Expected, MessageType, OpeningHandshake, Pace, Plan, Request, RequestSpec,
    ResponseFraming, Reuse, StopCondition, TargetPlan, Trace, Verify, run,
};
use jissoku_os::uring;
use ring::digest;

/// Requests of a short and of a long measurement.
const FEW: u64 = 1_000;
const MANY: u64 = 6_000;

/// Tolerance: a queue may grow when threads happen to be slow.
const CHANCE: u64 = 10;

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";

/// A server that calls `answer` for each connection.
fn serve(answer: impl Fn(TcpStream) + Copy + Send + 'static) -> String {
    let observer = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = observer.local_addr().expect("it has a name");
    // It ends with the test's process.
    let _listening = spawn(move || {
        counting::exclude_this_thread();
        for client in observer.incoming().flatten() {
            let _answering = spawn(move || answer(client));
        }
    });
    format!("http://{address}/")
}

/// Responds to every request, also to pipelined ones.
fn answer(mut client: TcpStream) {
    counting::exclude_this_thread();
    client.set_nodelay(true).expect("it is a TCP socket");
    let mut buffer = [0; 16 * 1024];
    let mut ends = 0;
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        // A request ends with its only empty line, and may arrive in pieces.
        for byte in &buffer[..count] {
            ends = match (ends, byte) {
                (0 | 2, b'\r') | (1 | 3, b'\n') => ends + 1,
                _ => 0,
            };
            if ends == 4 {
                ends = 0;
                if client.write_all(HELLO).is_err() {
                    return;
                }
            }
        }
    }
}

/// Sends back every masked text of five bytes, over a WebSocket.
fn send_back(mut client: TcpStream) -> Option<()> {
    counting::exclude_this_thread();
    client.set_nodelay(true).expect("it is a TCP socket");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("all ASCII");
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let hashed = [key.expect("it is sent"), "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, hashed.as_bytes());
    let accept = STANDARD.encode(hash);
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    client.write_all(response.as_bytes()).ok()?;
    let mut frame = [0; 11];
    loop {
        client.read_exact(&mut frame).ok()?;
        client.write_all(b"\x81\x05Hello").ok()?;
    }
}

/// Sends messages in place of requests.
fn send_messages(plan: &mut Plan) {
    let target = &mut plan.targets[0];
    let handshake = OpeningHandshake::new(&target.address, &[]).expect("it is fine");
    let expected = Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec()));
    let spec = RequestSpec::message(MessageType::Text, b"Hello", expected).expect("it is UTF-8");
    (target.handshake, target.specs) = (Some(handshake), vec![spec]);
}

fn plan(url: &str, requests: u64, driver: Driver) -> Plan {
    let address = url.parse().expect("it is a URL");
    let request = Request::default();
    let spec = RequestSpec {
        name: request.method.clone(),
        template: request.render(&address, Reuse::KeepAlive).expect("it can be sent"),
        framing: ResponseFraming::Http,
        expected: Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec())),
    };
    Plan {
        connections: 4,
        stop: StopCondition { duration_ns: None, requests: Some(requests) },
        timeout_ns: 60_000_000_000,
        driver,
        ..Plan::new(vec![TargetPlan::new(address, vec![spec])])
    }
}

/// The number of allocations of a run of `requests` requests.
fn allocations(url: &str, requests: u64, driver: Driver, change: impl Fn(&mut Plan)) -> u64 {
    let mut plan = plan(url, requests, driver);
    change(&mut plan);
    plan.check().expect("the plan makes sense");
    let (interrupt, _never) = UnixStream::pair().expect("a pair can be had");
    let before = counting::allocations();
    let control = Control {
        interrupt: interrupt.as_fd(),
        on_window_event: &|_| {},
        observer: None,
        starter: None,
    };
    let outcome = run(&plan, control).expect("it can be measured");
    let count = counting::allocations() - before;
    assert_eq!(outcome.targets[0].counters.requests, requests);
    count
}

/// Longer than any run here.
fn trace() -> Trace {
    let text = (0..2 * MANY).map(|at| format!("0.{:06}\n", at * 50)).collect::<Vec<_>>().concat();
    Trace::read("arrivals", text.as_bytes()).expect("it makes sense")
}

type Change = fn(&mut Plan);

fn costs_nothing(driver: Driver) {
    let (requests, messages) = (
        serve(answer),
        serve(|client| {
            let _ended = send_back(client);
        }),
    );
    let changes: [(&str, &str, Change); 5] = [
        ("closed", &requests, |_| {}),
        ("pipelined", &requests, |plan| plan.pipeline = 16),
        ("open", &requests, |plan| plan.pace = Pace::constant(20_000)),
        ("traced", &requests, |plan| plan.pace = Pace::Trace(trace())),
        ("messages", &messages, send_messages),
    ];
    for (name, url, change) in changes {
        let few = allocations(url, FEW, driver, change);
        let many = allocations(url, MANY, driver, change);
        assert!(many <= few + CHANCE, "{name}: {few} for {FEW} requests, {many} for {MANY}");
    }
}

// A single test, since allocations of all threads count.
#[test]
fn a_request_asks_for_no_memory() {
    costs_nothing(Driver::Epoll);
    if uring::is_available() {
        costs_nothing(Driver::Uring);
    } else {
        // The error is ignored: stderr may be closed.
        let _written = writeln!(std::io::stderr(), "skipped: this kernel has no io_uring");
    }
}
