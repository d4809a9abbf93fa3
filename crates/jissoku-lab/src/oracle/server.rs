//! The event loop: one thread, epoll, and a heap of due times. It spins shortly before a due time,
//! so it needs a core of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use jissoku_os::clock::monotonic_ns;
use jissoku_os::epoll::{self, Epoll, Interest};
use jissoku_os::socket::{self, Endpoint, Received, Sharing};
use jissoku_os::timer;

use crate::oracle::connection::{Connection, Next, Pending, SplitPlan};
use crate::oracle::delay::Rng;
use crate::oracle::log::{Entry, Log};
use crate::oracle::request::{self, Request};
use crate::oracle::response::ResponseWriter;
use crate::oracle::scenario::{InjectedFault, Scenario};
use crate::oracle::service::{NEVER, Service};
use crate::oracle::summary::Summary;

/// A wake-up takes up to some 50 us on a virtual machine, so the last 100 are spent spinning.
const SPIN_NS: u64 = 100_000;

const EVENTS: usize = 64;
const BUFFER_SIZE: usize = 64 * 1024;

/// Tokens that no descriptor has.
const STOP: u64 = u64::MAX;
const ACCEPT: usize = usize::MAX;

/// Separates the random numbers of faults and delays: the same seed with other faults gives the
/// same delays.
const FAULT_SEED: u64 = 0xFA17;

/// An oracle that listens and does not accept yet.
#[derive(Debug)]
pub struct Bound {
    listener: OwnedFd,
    endpoint: Endpoint,
}

/// Listens on `endpoint`.
///
/// # Errors
/// The error of `bind(2)` or `listen(2)`.
pub fn bind(endpoint: &Endpoint) -> io::Result<Bound> {
    let listener = socket::bind_and_listen(endpoint, Sharing::Alone)?;
    let endpoint = socket::local_endpoint(&listener)?;
    Ok(Bound { listener, endpoint })
}

impl Bound {
    /// The endpoint, with the actual port if it was given as zero.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Serves until one of `halts` becomes readable or ends, and returns the summary and the log.
    ///
    /// # Errors
    /// The error of epoll, or of `accept4(2)`.
    pub fn serve(
        self,
        scenario: &Scenario,
        halts: &[BorrowedFd<'_>],
    ) -> io::Result<(Summary, Log)> {
        if let Some(backlog) = scenario.backlog {
            socket::set_backlog(&self.listener, backlog)?;
        }
        timer::set_min_timer_slack()?;
        let mut oracle = Oracle::new(&self, scenario)?;
        for halt in halts {
            oracle.epoll.add(halt, STOP, Interest::IN)?;
        }
        let ended = oracle.run();
        if let Endpoint::Unix(path) = &self.endpoint {
            // The socket file may have been removed already.
            let _removed = std::fs::remove_file(path);
        }
        ended?;
        Ok((Summary::new(&oracle.log, u64::from(oracle.opened), oracle.open_max), oracle.log))
    }
}

/// A time, a descriptor, and the number of its connection, since descriptors are reused.
type Timer = Reverse<(u64, usize, u32)>;

#[derive(Debug)]
struct Oracle<'a> {
    listener: &'a OwnedFd,
    scenario: &'a Scenario,
    epoll: Epoll,
    timers: BinaryHeap<Timer>,
    /// By descriptor.
    connections: Vec<Option<Connection>>,
    service: Service,
    fault_rng: Rng,
    responses: ResponseWriter,
    log: Log,
    opened: u32,
    open: u64,
    open_max: u64,
}

impl<'a> Oracle<'a> {
    fn new(bound: &'a Bound, scenario: &'a Scenario) -> io::Result<Self> {
        let accept_at = monotonic_ns() + scenario.accept_after_ns;
        Ok(Self {
            listener: &bound.listener,
            scenario,
            epoll: Epoll::new()?,
            timers: BinaryHeap::from([Reverse((accept_at, ACCEPT, 0))]),
            connections: Vec::new(),
            service: Service::new(scenario),
            fault_rng: Rng::new(scenario.seed ^ FAULT_SEED),
            responses: ResponseWriter::new(scenario.framing, scenario.body_size),
            log: Log::new(scenario.entries),
            opened: 0,
            open: 0,
            open_max: 0,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = [epoll::no_event(); EVENTS];
        let mut buffer = vec![0; BUFFER_SIZE];
        loop {
            let until_due = self.send_due()?;
            let sleep = until_due.map(|left| Duration::from_nanos(left.saturating_sub(SPIN_NS)));
            let count = self.epoll.wait(&mut events, sleep)?;
            for event in &events[..count] {
                let (token, flags) = (event.data.u64(), event.flags);
                if token == STOP {
                    return Ok(());
                }
                let fd = usize::try_from(token).unwrap_or(ACCEPT);
                if i32::try_from(token) == Ok(self.listener.as_raw_fd()) {
                    self.accept()?;
                } else {
                    if flags.intersects(Interest::OUT) {
                        self.advance(fd);
                    }
                    self.receive(fd, &mut buffer);
                }
                // Handling many events must not delay responses that are due.
                self.send_due()?;
            }
        }
    }

    /// Sends all responses that are due, and returns the time until the next one.
    fn send_due(&mut self) -> io::Result<Option<u64>> {
        loop {
            let Some(&Reverse((due, fd, number))) = self.timers.peek() else { return Ok(None) };
            let now = monotonic_ns();
            if due > now {
                return Ok(Some(due - now));
            }
            self.timers.pop();
            if fd == ACCEPT {
                self.epoll.add(self.listener, token(self.listener), Interest::IN)?;
            } else if let Some(Some(connection)) = self.connections.get_mut(fd)
                && connection.number == number
            {
                connection.has_timer = false;
                self.advance(fd);
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Some(socket) = socket::accept(self.listener)? {
            self.epoll.add(&socket, token(&socket), Interest::IN)?;
            let fd = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
            if self.connections.len() <= fd {
                self.connections.resize_with(fd + 1, || None);
            }
            self.connections[fd] = Some(Connection::new(socket, self.opened));
            self.opened += 1;
            self.open += 1;
            self.open_max = self.open_max.max(self.open);
        }
        Ok(())
    }

    fn receive(&mut self, fd: usize, buffer: &mut [u8]) {
        let Some(Some(connection)) = self.connections.get_mut(fd) else { return };
        match socket::receive(&connection.socket, buffer) {
            Ok(Received::Bytes(count)) => {
                let arrival = monotonic_ns();
                if self.parse_requests(fd, &buffer[..count], arrival).is_some() {
                    self.advance(fd);
                } else {
                    self.close(fd);
                }
            }
            Ok(Received::NotYet) => {}
            Ok(Received::End) | Err(_) => self.close(fd),
        }
    }

    /// Parses the requests in the received bytes; `None` if they are invalid.
    fn parse_requests(&mut self, fd: usize, bytes: &[u8], arrival: u64) -> Option<()> {
        let connection = self.connections.get_mut(fd)?.as_mut()?;
        let mut joined = std::mem::take(&mut connection.input);
        let mut rest = bytes;
        if !joined.is_empty() {
            joined.extend_from_slice(bytes);
            rest = &joined;
        }
        while !rest.is_empty() {
            let Some(request) = request::read(rest).ok()? else { break };
            rest = &rest[request.size..];
            self.schedule_response(fd, request, arrival);
        }
        let rest = rest.to_vec();
        self.connections.get_mut(fd)?.as_mut()?.input = rest;
        Some(())
    }

    /// Draws delay and fault of a request and queues its response.
    fn schedule_response(&mut self, fd: usize, request: Request, arrival_ns: u64) {
        let Some(Some(connection)) = self.connections.get_mut(fd) else { return };
        let ready = if self.scenario.is_serial { connection.last_due_ns } else { 0 };
        let fault = fault(&mut self.fault_rng, &self.scenario.faults);
        let due_ns = self.service.due(arrival_ns, ready).max(connection.last_due_ns);
        let pieces = u64::try_from(self.scenario.pieces.max(1)).unwrap_or(1);
        let whole_ns = match due_ns {
            NEVER => NEVER,
            due_ns => due_ns + self.scenario.piece_gap_ns * (pieces - 1),
        };
        let entry = self.log.add(Entry {
            connection: connection.number,
            sequence: connection.requests,
            fault: fault.code(),
            arrival_ns,
            due_ns: whole_ns,
            written_ns: 0,
        });
        connection.requests += 1;
        connection.last_due_ns = whole_ns;
        connection.waiting.push_back(Pending { request, fault, due_ns, entry });
    }

    /// Lets a connection make all steps that are due.
    fn advance(&mut self, fd: usize) {
        let pieces = SplitPlan { count: self.scenario.pieces, gap_ns: self.scenario.piece_gap_ns };
        loop {
            let Some(Some(connection)) = self.connections.get_mut(fd) else { return };
            match connection.step(monotonic_ns(), &self.responses, pieces) {
                Ok(Next::Requests) => return self.set_interest(fd, Interest::IN),
                Ok(Next::WaitUntil(NEVER)) => return,
                Ok(Next::WaitUntil(due)) => {
                    if !connection.has_timer {
                        connection.has_timer = true;
                        self.timers.push(Reverse((due, fd, connection.number)));
                    }
                    return self.set_interest(fd, Interest::IN);
                }
                Ok(Next::Writable) => return self.set_interest(fd, Interest::IN | Interest::OUT),
                Ok(next @ (Next::Sent | Next::End)) => {
                    let written_ns = monotonic_ns();
                    for entry in connection.take_sent() {
                        self.log.answered(entry, written_ns);
                    }
                    if next == Next::End {
                        return self.close(fd);
                    }
                }
                Err(_) => return self.close(fd),
            }
        }
    }

    fn set_interest(&mut self, fd: usize, interest: Interest) {
        let Some(Some(connection)) = self.connections.get_mut(fd) else { return };
        let wants_writable = interest.contains(Interest::OUT);
        if connection.wants_writable != wants_writable {
            connection.wants_writable = wants_writable;
            if self.epoll.modify(&connection.socket, token(&connection.socket), interest).is_err() {
                self.close(fd);
            }
        }
    }

    fn close(&mut self, fd: usize) {
        if self.connections.get_mut(fd).and_then(Option::take).is_some() {
            self.open -= 1;
        }
    }
}

/// One draw per response, so that it has at most one fault.
fn fault(rng: &mut Rng, faults: &[(InjectedFault, f64)]) -> InjectedFault {
    if faults.is_empty() {
        return InjectedFault::None;
    }
    let mut left = rng.fraction();
    for &(fault, share) in faults {
        if left <= share {
            return fault;
        }
        left -= share;
    }
    InjectedFault::None
}

fn token(descriptor: impl AsFd) -> u64 {
    u64::try_from(descriptor.as_fd().as_raw_fd()).unwrap_or(STOP)
}
