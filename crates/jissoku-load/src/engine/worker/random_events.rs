//! Random orders of events, without a server: the test is the clock and the server, and calls the
//! worker as the transport over epoll does. Requests are sent to a socket that is read now and then.
//!
//! What has to hold after each event:
//! * a request is in flight on one connection, or has had one outcome;
//! * each correct response that came in time is counted as one, and nothing else is;
//! * nothing is given up before its time;
//! * a connection has a timer if it waits for something, and is in the queue of free ones at most once.
//!
//! A limited number of requests ends, whatever happened before.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};

use jissoku_os::epoll::Epoll;
use jissoku_os::socket::Endpoint;

use super::*;
use crate::engine::error::{ErrorCounts, RequestError};
use crate::engine::random::Random;
use crate::engine::target::Target;
use crate::plan::TargetPlan;
use crate::plan::expect::{Expected, Verify};
use crate::plan::options::{Reuse, StopCondition, Think};
use crate::plan::pace::{Arrival, OnBusy, Pace};
use crate::plan::request_spec::RequestSpec;
use crate::protocol::request::Request;
use crate::protocol::request_sequence::{RequestSequence, WorkerIndex};
use crate::protocol::response_reader::ResponseFraming;

const MS: u64 = 1_000_000;
const TIMEOUT_NS: u64 = 1_000 * MS;

/// Events of one order.
const EVENTS: usize = 1_000;

/// All of them, unless `RANDOM_EVENTS` says otherwise: a second.
const EVENTS_DEFAULT: usize = 100_000;

static NOW_NS: AtomicU64 = AtomicU64::new(0);

fn now_ns() -> u64 {
    NOW_NS.load(Ordering::Relaxed)
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";

/// Responses, and whether they are correct.
const RESPONSES: [(&str, bool); 5] = [
    (HELLO, true),
    (HELLO, true),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n0\r\n\r\n", true),
    ("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno", false),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHellO", false),
];

/// Sends at once; the test is its events.
struct Wire(Epoll);

impl Transport for Wire {
    const IS_QUEUED: bool = false;

    fn new() -> io::Result<Self> {
        Epoll::new().map(Self)
    }

    fn epoll(&self) -> &Epoll {
        &self.0
    }

    fn on_connected(&mut self, _: &Connection, _: usize, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn queue_send(&mut self, _: &Connections, _: &RequestSequence<'_>, _: usize, _: u64) {}

    fn queued(&self, _: &Connections) -> impl Iterator<Item = usize> {
        std::iter::empty()
    }

    fn await_writable(&mut self, _: &Connection, _: usize, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn cancel(&mut self, _: &Connection, _: usize) {}
}

/// What a server has sent on a connection, and the worker has not received.
#[derive(Default)]
struct Reply {
    id: u64,
    bytes: Vec<u8>,
    /// Where responses end, and whether they are correct.
    ends: VecDeque<(usize, bool)>,
    /// Whether the last one ends the connection.
    closes: bool,
}

type Checked = Result<(), String>;

struct World<'a> {
    plan: &'a Plan,
    worker: Worker<'a, Wire>,
    timing: Timing,
    random: Random,
    listener: &'a UnixListener,
    peers: Vec<UnixStream>,
    replies: Vec<Reply>,
    /// Correct responses in time, and other outcomes of requests, since the window opened.
    right: u64,
    failed: u64,
}

fn ensure(what: &str, found: u64, expected: u64) -> Checked {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found} instead of {expected}")) }
}

/// A plan, by chance.
fn plan(url: &str, random: &mut Random) -> Plan {
    let reuse = [Reuse::KeepAlive, Reuse::Close, Reuse::Requests(3)][random.below(3)];
    let target = |is_large: bool| {
        let address = url.parse().expect("it is a URL");
        let body = vec![b'x'; if is_large { 200_000 } else { 0 }];
        let request = Request { method: "POST".to_owned(), body, ..Request::default() };
        let spec = |name: &str| RequestSpec {
            name: name.to_owned(),
            template: request.render(&address, reuse).expect("it can be sent"),
            framing: ResponseFraming::Http,
            expected: Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec())),
        };
        let specs = vec![spec("one"), spec("other")];
        TargetPlan::new(address, specs)
    };
    let is_large = random.below(8) == 0;
    let targets = (0..=random.below(2)).map(|_| target(is_large)).collect();
    let mut plan = Plan {
        connections: 1 + random.below(4),
        pipeline: if reuse == Reuse::Close { 1 } else { [1, 2, 3][random.below(3)] },
        reuse,
        timeout_ns: TIMEOUT_NS,
        stop: StopCondition { duration_ns: None, requests: Some(200) },
        seed: random.next(),
        ..Plan::new(targets)
    };
    if random.below(2) == 0 {
        plan.stop = StopCondition { duration_ns: Some(u64::MAX / 4), requests: None };
        plan.warmup_ns = [0, 100 * MS][random.below(2)];
    }
    if random.below(2) == 0 {
        let [constant, exponential] =
            [Think::Constant { think_ns: 5 * MS }, Think::Exponential { mean_ns: 5 * MS }];
        plan.think = [Think::Never, constant, exponential][random.below(3)];
        plan.ramp_up_ns = [0, 100 * MS][random.below(2)];
    } else {
        plan.pace = Pace::constant([20, 200][random.below(2)]);
        plan.arrival = [Arrival::Constant, Arrival::Poisson][random.below(2)];
        let open = OnBusy::Open { connections_max: plan.connections + 3 };
        plan.on_busy = [OnBusy::Queue, OnBusy::Drop, open][random.below(3)];
        plan.deadline_ns = [None, Some(200 * MS)][random.below(2)];
        plan.idle = [Idle::Block, Idle::Spin][random.below(2)];
    }
    plan.check().expect("the plan makes sense");
    plan
}

impl<'a> World<'a> {
    fn new(
        plan: &'a Plan,
        endpoint: &'a Endpoint,
        listener: &'a UnixListener,
        halt: &UnixStream,
        random: Random,
    ) -> Self {
        let worker_index = WorkerIndex { thread: 0, threads: 1, seed: plan.seed };
        let target = |number| {
            let mut target = Target::new(plan, number, endpoint, worker_index);
            if let Some(requests) = plan.stop.requests {
                (target.budget, target.is_limited) = (requests, true);
            }
            target
        };
        let targets = (0..plan.targets.len()).map(target).collect();
        let dispatcher = Dispatcher::new(plan, targets);
        let recorder = Recorder::new(plan, None, Vec::new());
        let clock = ReceiveClock::manual(&NOW_NS);
        let worker = Worker::new(plan, clock, dispatcher, recorder, halt.as_fd());
        let mut worker = worker.expect("descriptors are free");
        let connections_max = match plan.on_busy {
            OnBusy::Open { connections_max } => connections_max,
            OnBusy::Queue | OnBusy::Drop => plan.connections,
        };
        let opened = worker.open_connections(plan.connections, connections_max);
        opened.expect("the listener takes connections");
        let start_ns = now_ns();
        let (open_ns, duration_ns) = (start_ns + plan.warmup_ns, u64::MAX / 4);
        let timing = Timing { start_ns, open_ns, duration_ns };
        worker.start(timing, (0, 1));
        let replies = (0..worker.connections.len()).map(|_| Reply::default()).collect();
        let (peers, right, failed) = (Vec::new(), 0, 0);
        Self { plan, worker, timing, random, listener, peers, replies, right, failed }
    }

    /// A connection that fits, by chance.
    fn pick(&mut self, fits: impl Fn(&Connection) -> bool) -> Option<usize> {
        let fitting = self.worker.connections.iter().filter(|it| fits(it)).count();
        let place = self.random.below(fitting.max(1));
        let all = self.worker.connections.iter().enumerate();
        all.filter(|(_, it)| fits(it)).nth(place).map(|(index, _)| index)
    }

    /// When the requests in flight on a connection were sent.
    fn sent_ns(&self, index: usize) -> Vec<u64> {
        let before = self.worker.connections.iter().take(index);
        let before: usize = before.map(|it| usize::from(it.outstanding)).sum();
        let count = usize::from(self.worker.connections[index].outstanding);
        let all = self.worker.connections.in_flight().skip(before).take(count);
        all.map(|(_, times)| times.sent_ns).collect()
    }

    fn step(&mut self) -> Result<bool, String> {
        match self.random.below(16) {
            0 | 1 => {
                if let Some(index) = self.pick(|it| it.state == ConnectionState::Connecting) {
                    if self.random.below(6) == 0 {
                        let error = io::ErrorKind::ConnectionRefused.into();
                        self.worker.fail_to_connect(index, error);
                    } else {
                        self.worker.on_connect_event(index);
                    }
                }
            }
            2..10 => {
                if let Some(index) = self.pick(|it| it.readable().is_some()) {
                    self.reply(index);
                }
            }
            10 => {
                if let Some(index) = self.pick(|it| it.readable().is_some()) {
                    self.failed += u64::from(self.worker.connections[index].outstanding);
                    if self.random.below(2) == 0 {
                        self.worker.on_eof(index);
                    } else {
                        let error = io::ErrorKind::ConnectionReset.into();
                        self.worker.fail_io(index, RequestError::Read, &error);
                    }
                }
            }
            11 => self.read(),
            12 => return self.tick(2 * TIMEOUT_NS),
            _ => return self.tick(20 * MS),
        }
        Ok(false)
    }

    /// The worker receives something of a connection.
    fn reply(&mut self, index: usize) {
        let connection = &self.worker.connections[index];
        let (id, waiting) = (connection.id(index), usize::from(connection.outstanding));
        let is_over = self.replies[index].id != id || self.replies[index].bytes.is_empty();
        if waiting == 0 {
            // Bytes without a request are rare.
            if self.random.below(8) == 0 {
                let text = [HELLO, "HTTP/1.1 408 Request Timeout\r\n\r\n"][self.random.below(2)];
                self.receive(index, text.as_bytes());
            }
            return;
        }
        if is_over && self.random.below(16) == 0 {
            self.failed += waiting as u64;
            return self.receive(index, b"nonsense\r\n\r\n");
        }
        if is_over {
            let (count, closes) = (1 + self.random.below(waiting), self.random.below(8) == 0);
            let mut reply = Reply { id, closes, ..Reply::default() };
            for number in 1..=count {
                let (text, is_right) = RESPONSES[self.random.below(RESPONSES.len())];
                let close = if closes && number == count { "\r\nConnection: close" } else { "" };
                let text = text.replacen("\r\n", &format!("{close}\r\n"), 1);
                reply.bytes.extend_from_slice(text.as_bytes());
                reply.ends.push_back((reply.bytes.len(), is_right));
            }
            self.replies[index] = reply;
        }
        let whole = self.replies[index].bytes.len();
        let size = if self.random.below(2) == 0 { whole } else { 1 + self.random.below(whole) };
        self.receive_reply(index, size);
    }

    /// The worker receives so much of a reply.
    fn receive_reply(&mut self, index: usize, size: usize) {
        let sent_ns = self.sent_ns(index);
        let reply = &mut self.replies[index];
        let bytes: Vec<u8> = reply.bytes.drain(..size).collect();
        let ended = reply.ends.iter().take_while(|(end, _)| *end <= size).count();
        for ((_, is_right), sent_ns) in reply.ends.drain(..ended).zip(&sent_ns) {
            let is_in_time = now_ns() - sent_ns <= TIMEOUT_NS;
            *(if is_right && is_in_time { &mut self.right } else { &mut self.failed }) += 1;
        }
        reply.ends.iter_mut().for_each(|(end, _)| *end -= size);
        if reply.closes && reply.ends.is_empty() {
            self.failed += (sent_ns.len() - ended) as u64;
        }
        self.receive(index, &bytes);
    }

    fn receive(&mut self, index: usize, bytes: &[u8]) {
        self.worker.on_bytes(index, bytes, now_ns());
        self.worker.send_next(index, now_ns());
    }

    /// The server reads all that was sent, so that more can be.
    fn read(&mut self) {
        while let Ok((peer, _)) = self.listener.accept() {
            peer.set_nonblocking(true).expect("a socket has modes");
            self.peers.push(peer);
        }
        let mut buffer = vec![0; 64 * 1024];
        self.peers.retain_mut(|peer| {
            loop {
                match peer.read(&mut buffer) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
                }
            }
        });
        for index in 0..self.worker.connections.len() {
            let connection = &self.worker.connections[index];
            if connection.readable().is_some() && connection.unsent > 0 {
                self.worker.flush(index);
            }
        }
    }

    /// Time passes, at most so much, and the worker iterates; returns whether it is done.
    fn tick(&mut self, most_ns: u64) -> Result<bool, String> {
        let passed_ns = most_ns * self.random.below(64) as u64 / 64;
        let now_ns = NOW_NS.fetch_add(passed_ns, Ordering::Relaxed) + passed_ns;
        let connections = self.worker.connections.iter().enumerate();
        let before: Vec<_> = connections
            .map(|(index, it)| (it.id(index), it.state, it.since_ns, self.sent_ns(index)))
            .collect();
        let was_open = self.worker.recorder.window.opened_ns.is_some();
        self.worker.recorder.window.record_iteration(now_ns);
        if now_ns >= self.worker.timers.next_ns() {
            self.worker.run_timers(now_ns, self.timing);
        }
        if !was_open && self.worker.recorder.window.opened_ns.is_some() {
            (self.right, self.failed) = (0, 0);
        }
        for (index, (id, state, since_ns, sent_ns)) in before.into_iter().enumerate() {
            if self.worker.connections[index].id(index) == id {
                continue;
            }
            let since_ns = match state {
                ConnectionState::AwaitingClose => 0,
                ConnectionState::Open => sent_ns.first().copied().unwrap_or(u64::MAX),
                _ => since_ns,
            };
            if since_ns.saturating_add(TIMEOUT_NS) > now_ns {
                return Err(format!("{state:?} connection {index} was given up too early"));
            }
            self.failed += sent_ns.len() as u64;
        }
        if self.worker.dispatcher.is_done() {
            return Ok(true);
        }
        self.worker.send_due(now_ns);
        Ok(false)
    }

    fn check(&self) -> Checked {
        let Worker { connections, dispatcher, recorder, timers, .. } = &self.worker;
        let (mut right, mut failed) = (0, 0);
        for (number, target) in dispatcher.targets.iter().enumerate() {
            let counters = &recorder.counters[number];
            let ours = || {
                let all = connections.iter().enumerate();
                all.filter(move |(_, it)| usize::from(it.target) == number)
            };
            let in_flight: u64 = ours().map(|(_, it)| u64::from(it.outstanding)).sum();
            ensure("requests in flight", target.in_flight, in_flight)?;
            let is_unused = |it: &Connection| it.state != ConnectionState::Closed && !it.has_sent;
            let unused = ours().filter(|(_, it)| is_unused(it)).count() as u64;
            ensure("unused connections", target.unused_connections, unused)?;
            let errors = counters.errors.total() - counters.errors.connect - counters.unsolicited;
            let ended = counters.requests + errors;
            ensure("sent requests", counters.carried + counters.sent, ended + in_flight)?;
            ensure("latencies", counters.latency.count(), counters.requests)?;
            ensure("waits", counters.waited.count(), errors + counters.shed)?;
            if let Some(limit) = self.plan.stop.requests {
                let gone = counters.sent + counters.shed + counters.not_connected;
                ensure("the limit", target.budget + gone, limit)?;
            }
            for (index, connection) in ours().filter(|_| !self.plan.pace.is_closed()) {
                let places = target.free.iter().filter(|it| **it as usize == index).count();
                ensure("places in the queue", places as u64, connection.is_queued.into())?;
            }
            (right, failed) = (right + counters.requests, failed + errors);
        }
        ensure("correct responses", right, self.right)?;
        ensure("failed requests", failed, self.failed)?;
        for connection in connections.iter() {
            let waits = match connection.state {
                ConnectionState::Closed => false,
                ConnectionState::Open => connection.outstanding > 0,
                _ => connection.outstanding == 0,
            };
            if waits && connection.timer.is_none() {
                return Err(format!("there is no timer: {connection:?}"));
            }
        }
        let with_timer = connections.iter().filter(|it| it.timer.is_some()).count();
        ensure("timers", timers.count() as u64, with_timer as u64)
    }

    /// A limited number of requests ends.
    fn finish(&mut self) -> Checked {
        for _ in 0..2_000 {
            if self.tick(100 * MS)? {
                return self.check();
            }
            self.read();
            for index in 0..self.worker.connections.len() {
                let connection = &self.worker.connections[index];
                if connection.state == ConnectionState::Connecting {
                    self.worker.on_connect_event(index);
                } else if connection.readable().is_some() && connection.outstanding > 0 {
                    self.reply(index);
                }
            }
            self.check()?;
        }
        Err("it does not end".to_owned())
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the environment says how long a test runs")]
fn random_orders_of_events_lose_no_request() {
    let events = std::env::var("RANDOM_EVENTS").ok().and_then(|text| text.parse().ok());
    let events: usize = events.unwrap_or(EVENTS_DEFAULT);
    let path = std::env::temp_dir().join(format!("jissoku-events-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).expect("the path is free");
    listener.set_nonblocking(true).expect("a socket has modes");
    let endpoint = Endpoint::Unix(path.clone());
    let url = format!("unix:{}:/", path.display());
    let (halt, _bell) = UnixStream::pair().expect("a pair can be had");
    let (mut errors, mut shed) = (ErrorCounts::default(), 0);
    let (mut unsolicited, mut not_connected) = (0, 0);
    let (mut seed, mut count) = (0, 0);
    while count < events {
        seed += 1;
        NOW_NS.store(1 << 50, Ordering::Relaxed);
        let mut random = Random::new(seed);
        let plan = plan(&url, &mut random);
        let mut world = World::new(&plan, &endpoint, &listener, &halt, random);
        let mut is_done = false;
        for event in 0..EVENTS {
            count += 1;
            let outcome = world.step().and_then(|done| world.check().map(|()| done));
            is_done = outcome.unwrap_or_else(|why| panic!("seed {seed}, event {event}: {why}"));
            if is_done {
                break;
            }
        }
        if !is_done && plan.stop.requests.is_some() {
            world.finish().unwrap_or_else(|why| panic!("seed {seed}, at the end: {why}"));
        }
        for counters in &world.worker.recorder.counters {
            errors.add(&counters.errors);
            shed += counters.shed;
            unsolicited += counters.unsolicited;
            not_connected += counters.not_connected;
        }
    }
    fs::remove_file(&path).expect("it is there");
    // Without one of these, the test would prove less.
    for (kind, count) in errors.by_name() {
        assert!(count > 0 || kind == "write", "never: {kind}");
    }
    assert!(shed > 0 && unsolicited > 0 && not_connected > 0);
}
