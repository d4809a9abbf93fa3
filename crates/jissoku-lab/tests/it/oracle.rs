//! The oracle: its behaviour and its log agree with the scenario.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jissoku_lab::oracle::{Delay, Entry, Framing, Freeze, InjectedFault, Scenario, Summary, bind};
use jissoku_os::socket::Endpoint;

const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const MS: u64 = 1_000_000;

/// Timeout of the tests.
const LIMIT: Duration = Duration::from_secs(30);

/// A running oracle, and the means to stop it.
struct Running {
    endpoint: Endpoint,
    bell: UnixStream,
    thread: JoinHandle<(Summary, Vec<Entry>)>,
}

impl Running {
    fn start(endpoint: &str, change: impl FnOnce(&mut Scenario)) -> Self {
        let mut scenario = Scenario { entries: 1000, ..Scenario::default() };
        change(&mut scenario);
        let bound = bind(&endpoint.parse().expect("it is an endpoint")).expect("it can be had");
        let endpoint = bound.endpoint().clone();
        let (halt, bell) = UnixStream::pair().expect("a pair can be had");
        let thread = thread::spawn(move || {
            let (summary, log) = bound.serve(&scenario, &[halt.as_fd()]).expect("it ends well");
            (summary, log.entries().to_vec())
        });
        Self { endpoint, bell, thread }
    }

    fn connect(&self) -> TcpStream {
        let Endpoint::Tcp(address) = &self.endpoint else { unreachable!("the test asked for TCP") };
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a time is set");
        stream
    }

    fn end(self) -> (Summary, Vec<Entry>) {
        drop(self.bell);
        self.thread.join().expect("it does not panic")
    }
}

/// Reads a response with a Content-Length, and returns its head and its body.
fn answer(stream: &mut impl Read) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the head goes on");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("a head is text");
    let (_, rest) = head.split_once("Content-Length: ").expect("a Content-Length");
    let size: usize = rest.lines().next().expect("a line").parse().expect("a number");
    let mut body = vec![0; size];
    stream.read_exact(&mut body).expect("the body comes");
    (head, body)
}

#[test]
fn an_answer_comes_when_it_is_due_and_not_before() {
    let oracle = Running::start("127.0.0.1:0", |scenario| {
        scenario.delay = Delay::Constant(20 * MS);
    });
    let mut stream = oracle.connect();
    for _ in 0..3 {
        stream.write_all(ASK).expect("it is taken");
        assert_eq!(answer(&mut stream).1.len(), 13);
    }
    let (summary, entries) = oracle.end();
    assert_eq!((summary.requests, summary.answered, summary.connections_opened), (3, 3, 1));
    for (number, entry) in entries.iter().enumerate() {
        assert_eq!(usize::try_from(entry.sequence), Ok(number));
        assert_eq!(entry.due_ns, entry.arrival_ns + 20 * MS);
        assert!(entry.written_ns >= entry.due_ns);
    }
}

#[test]
fn requests_are_understood_however_they_arrive() {
    let oracle = Running::start("127.0.0.1:0", |_| {});
    let mut stream = oracle.connect();
    for byte in ASK {
        stream.write_all(&[*byte]).expect("it is taken");
    }
    answer(&mut stream);
    stream.write_all(&ASK.repeat(100)).expect("it is taken");
    (0..100).for_each(|_| drop(answer(&mut stream)));
    stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab").expect("it is taken");
    answer(&mut stream);
    stream.write_all(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").expect("it is taken");
    assert!(answer(&mut stream).0.contains("Connection: keep-alive"));
    stream.write_all(b"nonsense\r\n\r\n").expect("it is taken");
    assert_eq!(stream.read(&mut [0]).expect("it ends in good order"), 0);
    assert_eq!(oracle.end().0.answered, 103);
}

#[test]
fn pipelined_answers_can_be_spaced() {
    let oracle = Running::start("127.0.0.1:0", |scenario| {
        scenario.delay = Delay::Constant(5 * MS);
        scenario.is_serial = true;
    });
    let mut stream = oracle.connect();
    stream.write_all(&ASK.repeat(4)).expect("it is taken");
    (0..4).for_each(|_| drop(answer(&mut stream)));
    let (_, entries) = oracle.end();
    let gaps: Vec<u64> = entries.windows(2).map(|two| two[1].due_ns - two[0].due_ns).collect();
    assert_eq!(gaps, [5 * MS; 3]);
}

#[test]
fn what_is_due_together_leaves_together() {
    let oracle = Running::start("127.0.0.1:0", |scenario| {
        scenario.delay = Delay::Constant(5 * MS);
        scenario.apart_ns = 0;
    });
    let mut stream = oracle.connect();
    let last: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let burst = [ASK.repeat(15), last.to_vec()].concat();
    stream.write_all(&burst).expect("it is taken");
    (0..16).for_each(|_| drop(answer(&mut stream)));
    assert_eq!(stream.read(&mut [0]).expect("it ends well"), 0);
    let (summary, entries) = oracle.end();
    assert_eq!(summary.answered, 16);
    // Fifteen in one piece; the one that ends the connection is sent alone.
    let pieces = entries.chunk_by(|one, next| one.written_ns == next.written_ns);
    assert_eq!(pieces.map(<[Entry]>::len).collect::<Vec<_>>(), [15, 1]);
}

#[test]
fn who_is_frozen_out_is_counted() {
    let oracle = Running::start("127.0.0.1:0", |scenario| {
        scenario.freezes = vec![Freeze { start_ns: 0, duration_ns: None }];
    });
    let mut frozen = oracle.connect();
    frozen.write_all(ASK).expect("it is taken");
    frozen.set_nonblocking(true).expect("it can be");
    // The second connection is accepted after the first, so its end implies that both were handled.
    let mut other = oracle.connect();
    other.write_all(b"nonsense\r\n\r\n").expect("it is taken");
    assert_eq!(other.read(&mut [0]).expect("it ends in good order"), 0);
    let nothing = frozen.read(&mut [0]).expect_err("no answer comes");
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    let (summary, _) = oracle.end();
    assert_eq!((summary.requests, summary.frozen, summary.answered), (1, 1, 0));
    assert_eq!((summary.connections_opened, summary.connections_open_max), (2, 2));
}

#[test]
fn injected_faults_are_observed_and_counted() {
    for fault in [InjectedFault::Reset, InjectedFault::Truncated, InjectedFault::Dropped] {
        let oracle = Running::start("127.0.0.1:0", |scenario| scenario.faults = vec![(fault, 1.0)]);
        let mut stream = oracle.connect();
        stream.write_all(ASK).expect("it is taken");
        let mut seen = Vec::new();
        let end = stream.read_to_end(&mut seen);
        assert_eq!(end.is_err(), fault == InjectedFault::Reset, "{fault:?}: {end:?}");
        assert_eq!(seen.is_empty(), fault == InjectedFault::Dropped, "{fault:?}");
        let injected = oracle.end().0.faults;
        assert_eq!(injected.reset + injected.truncated + injected.dropped, 1);
    }
}

#[test]
fn the_share_of_faults_is_what_was_asked() {
    let oracle = Running::start("127.0.0.1:0", |scenario| {
        scenario.faults = vec![(InjectedFault::Status, 0.3), (InjectedFault::Flipped, 0.3)];
    });
    let mut stream = oracle.connect();
    let (mut wrong_status, mut wrong_body) = (0, 0);
    for _ in 0..500 {
        stream.write_all(ASK).expect("it is taken");
        let (head, body) = answer(&mut stream);
        wrong_status += u64::from(head.starts_with("HTTP/1.1 500"));
        wrong_body += u64::from(body != b" !\"#$%&'()*+,");
    }
    let injected = oracle.end().0.faults;
    assert_eq!((injected.status, injected.flipped), (wrong_status, wrong_body));
    assert!((100..200).contains(&wrong_status) && (100..200).contains(&wrong_body));
}

#[test]
fn a_body_can_drip_and_end_with_its_connection() {
    let oracle = Running::start("127.0.0.1:0", |scenario| {
        scenario.framing = Framing::Close;
        scenario.pieces = 13;
        scenario.piece_gap_ns = MS;
    });
    let mut stream = oracle.connect();
    stream.write_all(ASK).expect("it is taken");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it ends in good order");
    assert!(text.ends_with("\r\n\r\n !\"#$%&'()*+,"), "{text}");
    let (_, entries) = oracle.end();
    assert_eq!(entries[0].due_ns, entries[0].arrival_ns + 12 * MS);
    assert!(entries[0].written_ns >= entries[0].due_ns);
}

#[test]
fn unix_sockets_and_large_bodies_do_as_well() {
    let folder = std::env::temp_dir().join(format!("jissoku-oracle-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let path = folder.join("oracle.sock");
    let oracle = Running::start(&format!("unix:{}", path.display()), |scenario| {
        scenario.body_size = 4 << 20;
        scenario.backlog = Some(4);
    });
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a time is set");
    stream.write_all(ASK).expect("it is taken");
    assert_eq!(answer(&mut stream).1.len(), 4 << 20);
    assert_eq!(oracle.end().0.answered, 1);
    assert!(!path.exists());
    std::fs::remove_dir(&folder).expect("it is empty");
}
