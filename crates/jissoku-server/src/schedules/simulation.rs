//! A worker and its clients without sockets: what a driver does, in any order that it may.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use jissoku_os::driver::{
    Action, ConnectionId, EventHandler, NewConnection, Peer, SendBuffer, UNSENT_MAX, Wakeup,
};
use jissoku_os::socket::Endpoint;
use rustls::ClientConnection;

use super::client::{self, Ending};
use super::plan::{Choices, End, Plan};
use super::scripted::Scripted;
use crate::connection_limiter::ConnectionLimiter;
use crate::listener_options::ListenerOptions;
use crate::settings::Settings;
use crate::shutdown::{RELOAD_DRAIN, STOP_DRAIN};
use crate::telemetry::Telemetry;
use crate::tls_session::tests::CertificateFiles;
use crate::transport::Transport;
use crate::worker::Worker;

/// The unit of time that passes.
const TICK_NS: u64 = 50_000;

/// How often a driver resumes every connection.
const SWEEP_NS: u64 = 1_000_000_000;

/// More actions than any case has.
const ACTIONS_MAX: usize = 100_000;

/// What is between a client and its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Plain,
    Tls,
}

/// Which driver is imitated: with epoll, output is sent after each call; with `io_uring`, later, and
/// bytes may be received before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Epoll,
    Uring,
}

/// A worker, and connections that outlive a case.
pub(super) struct Simulation {
    wire: Wire,
    style: Style,
    certificate: CertificateFiles,
    settings: Settings,
    socket: OwnedFd,
    worker: Worker<Scripted>,
    /// Whether the worker drains, or time has passed that counts for idle connections: no other case
    /// gets it.
    is_spent: bool,
    /// Actions of all cases so far.
    pub(super) actions: u64,
    now_ns: u64,
    ids: u64,
    /// Established and idle.
    spare: Vec<Line>,
}

/// A connection with its client.
struct Line {
    id: ConnectionId,
    transport: Option<Transport<Scripted>>,
    tls: Option<Box<ClientConnection>>,
    /// Whether the server has received the end of the handshake. Before it may close, and sends its
    /// tickets nevertheless.
    is_established: bool,
    /// On its way to the server, of which `arrived` bytes can be received.
    inbound: Vec<u8>,
    arrived: usize,
    /// The client ends after the inbound bytes.
    has_end: bool,
    end_is_delivered: bool,
    /// Not sent yet (`io_uring`).
    pending: SendBuffer,
    /// Sent, and not read by the client.
    unsent: Vec<u8>,
    next: Action,
    received: Vec<u8>,
    ending: Ending,
}

/// What may happen next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(usize),
    Receive(usize),
    End(usize),
    Resume(usize),
    Send(usize),
    Read(usize),
    /// Time passes, and requests are resumed.
    Tick,
    /// Every connection is resumed without a reason, as once a second.
    Sweep,
    /// So much time passes that timeouts expire.
    Wait,
    /// The worker drains from now on.
    Drain,
    /// The client resets the connection.
    Leave(usize),
}

impl Simulation {
    pub(super) fn new(wire: Wire, style: Style) -> Self {
        let certificate = CertificateFiles::new();
        let mut settings = Settings::new(Endpoint::Tcp(([127, 0, 0, 1], 0).into()));
        let proxied = ListenerOptions { has_proxy_header: true, ..ListenerOptions::default() };
        settings.listener_options = vec![ListenerOptions::default(), proxied];
        let socket = match wire {
            Wire::Plain => UnixStream::pair().expect("two sockets").0.into(),
            Wire::Tls => {
                settings.tls = Some(certificate.load());
                TcpListener::bind(("127.0.0.1", 0)).expect("a free port").into()
            }
        };
        let worker = worker(&settings);
        let mut simulation = Self {
            wire,
            style,
            certificate,
            settings,
            socket,
            worker,
            is_spent: false,
            actions: 0,
            now_ns: jissoku_os::clock::monotonic_ns(),
            ids: 0,
            spare: Vec::new(),
        };
        simulation.renew();
        simulation
    }

    /// Starts anew, after a failure or a shutdown.
    pub(super) fn renew(&mut self) {
        self.spare.clear();
        self.worker = worker(&self.settings);
        self.worker.on_tick(self.now_ns);
        self.is_spent = false;
    }

    /// Runs one case.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn run(&mut self, choices: &mut Choices<'_>) -> Result<(), String> {
        let mut lines = Vec::new();
        let mut asked = Vec::new();
        for number in 0..=choices.below(3) {
            let mut line = self.take_line(choices);
            let plans: Vec<_> = (0..=choices.below(4))
                .map(|index| Plan::new(10 * number + index, choices))
                .collect();
            let texts: Vec<_> = plans.iter().map(|plan| plan.encode(choices)).collect();
            line.send(&texts, choices);
            let upgrade = plans.iter().position(|plan| plan.end == End::Upgrade);
            let behind = upgrade.map_or(Vec::new(), |place| texts[place + 1..].concat());
            asked.push((plans, behind));
            lines.push(line);
        }
        self.play(&mut lines, choices)?;
        for (line, (plans, behind)) in lines.into_iter().zip(&asked) {
            let persists = client::check(plans, &line.received, behind, line.ending)?;
            self.put_back(line, plans, persists)?;
        }
        let open = self.worker.context().handler.open;
        if self.is_spent {
            self.renew();
        }
        if open == 0 { Ok(()) } else { Err(format!("{open} requests were lost")) }
    }

    /// A connection whose client has sent nothing.
    fn take_line(&mut self, choices: &mut Choices<'_>) -> Line {
        if let Some(line) = self.spare.pop() {
            return line;
        }
        self.ids += 1;
        let id = ConnectionId::from_token(self.ids);
        let listener = usize::from(choices.rarely(3));
        let peer = Peer::Known(Some(([127, 0, 0, 1], 9).into()));
        let socket = self.socket.as_fd();
        let opened = NewConnection { id, listener, socket, peer, is_moved: false };
        let mut line = Line {
            id,
            transport: Some(self.worker.on_open(&opened)),
            tls: None,
            is_established: false,
            inbound: if listener == 1 {
                b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec()
            } else {
                Vec::new()
            },
            arrived: 0,
            has_end: false,
            end_is_delivered: false,
            pending: SendBuffer::default(),
            unsent: Vec::new(),
            next: Action::Receive,
            received: Vec::new(),
            ending: Ending::Whole,
        };
        if self.wire == Wire::Tls {
            line.tls = Some(Box::new(self.certificate.client()));
            line.is_established = choices.rarely(2);
            while line.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                self.shake_hands(&mut line);
            }
            if line.is_established {
                self.shake_hands(&mut line);
            }
        }
        line
    }

    /// Passes what there is from client to server and back.
    fn shake_hands(&mut self, line: &mut Line) {
        line.flush_tls();
        line.arrived = line.inbound.len();
        self.receive(line, usize::MAX);
        line.send_pending();
        line.read(usize::MAX);
    }

    /// Keeps a connection for another case, if it is as good as new.
    fn put_back(&mut self, line: Line, plans: &[Plan], persists: bool) -> Result<(), String> {
        let mut line = line;
        if line.ending == Ending::Hurried {
            self.close(&mut line);
            return Ok(());
        }
        let is_idle = line.transport.is_some() && line.next == Action::Receive;
        // The end of a chunked body that is discarded is not known.
        let may_linger =
            plans.iter().any(|plan| matches!(plan.end, End::Upgrade | End::TooLarge | End::Early));
        if persists && !line.has_end && !is_idle {
            return Err(format!("a connection has ended: {:?}", line.next));
        }
        if line.has_end && line.transport.is_some() {
            return Err(format!("the end of a client is not the end: {:?}", line.next));
        }
        if !persists && is_idle && !may_linger {
            return Err("a connection goes on after its last response".to_owned());
        }
        line.received.clear();
        if persists && is_idle && line.tls.is_some() {
            self.spare.push(line);
        } else {
            self.close(&mut line);
        }
        Ok(())
    }

    /// Lets everything happen, in an order that is chosen.
    fn play(&mut self, lines: &mut [Line], choices: &mut Choices<'_>) -> Result<(), String> {
        let hurries = choices.rarely(3);
        for _ in 0..ACTIONS_MAX {
            self.actions += 1;
            let mut actions: Vec<_> =
                lines.iter().zip(0..).flat_map(|(line, index)| line.actions(index)).collect();
            if actions.is_empty() {
                match self.worker.deadline_ns() {
                    None => return Ok(()),
                    Some(due_ns) => self.tick(lines, due_ns.max(self.now_ns)),
                }
                continue;
            }
            if !choices.is_used_up() {
                actions.extend([Step::Tick, Step::Sweep]);
            }
            if hurries && !choices.is_used_up() {
                let index = choices.below(lines.len());
                actions.extend([Step::Wait, Step::Drain, Step::Leave(index)]);
            }
            match actions[choices.below(actions.len())] {
                Step::Arrive(index) => {
                    let line = &mut lines[index];
                    line.arrived += choices.size(line.inbound.len() - line.arrived);
                }
                Step::Receive(index) => {
                    let size_max = choices.size(lines[index].arrived);
                    self.receive(&mut lines[index], size_max);
                }
                Step::End(index) => {
                    lines[index].end_is_delivered = true;
                    self.call(&mut lines[index], |worker, transport, _, output| {
                        worker.on_eof(transport, output)
                    });
                }
                Step::Resume(index) => self.resume(&mut lines[index]),
                Step::Send(index) => lines[index].send_pending(),
                Step::Read(index) => {
                    let size = choices.size(lines[index].unsent.len());
                    lines[index].read(size);
                }
                Step::Tick => {
                    let now_ns = self.now_ns + TICK_NS * choices.below(16) as u64;
                    self.tick(lines, now_ns);
                }
                Step::Sweep => lines.iter_mut().for_each(|line| self.resume(line)),
                Step::Wait => self.wait(lines, 1 + choices.below(20)),
                Step::Drain => {
                    self.worker.start_shutdown([RELOAD_DRAIN, STOP_DRAIN][choices.below(2)]);
                    self.is_spent = true;
                    hurry(lines);
                }
                Step::Leave(index) => {
                    hurry(&mut lines[index..=index]);
                    self.close(&mut lines[index]);
                }
            }
            for line in &mut *lines {
                self.close_if_over(line);
                line.transport.iter_mut().for_each(Transport::check);
            }
            let context = self.worker.context();
            if context.timers.count() > context.handler.timed {
                return Err("a timer outlives what it is for".to_owned());
            }
        }
        Err("no end is in sight".to_owned())
    }

    /// Seconds pass, and a driver resumes every connection in each.
    fn wait(&mut self, lines: &mut [Line], seconds: usize) {
        self.is_spent = true;
        hurry(lines);
        for _ in 0..seconds {
            self.tick(lines, self.now_ns + SWEEP_NS);
            for line in &mut *lines {
                self.resume(line);
            }
        }
    }

    fn tick(&mut self, lines: &mut [Line], now_ns: u64) {
        self.now_ns = now_ns;
        self.worker.on_tick(now_ns);
        while let Some(target) = self.worker.next_ready() {
            if let Wakeup::One(id) = target
                && let Some(line) = lines.iter_mut().find(|line| line.id == id)
            {
                self.resume(line);
            }
        }
        for line in lines {
            self.close_if_over(line);
        }
    }

    fn receive(&mut self, line: &mut Line, size_max: usize) {
        let size = line.arrived.min(size_max);
        let bytes: Vec<_> = line.inbound.drain(..size).collect();
        line.arrived -= size;
        self.call(line, |worker, transport, _, output| worker.on_data(transport, &bytes, output));
    }

    fn resume(&mut self, line: &mut Line) {
        self.call(line, |worker, transport, unsent, output| {
            worker.resume(transport, unsent, output)
        });
    }

    fn call(
        &mut self,
        line: &mut Line,
        call: impl FnOnce(
            &mut Worker<Scripted>,
            &mut Transport<Scripted>,
            usize,
            &mut SendBuffer,
        ) -> Action,
    ) {
        let Some(transport) = &mut line.transport else { return };
        line.next = call(&mut self.worker, transport, line.unsent.len(), &mut line.pending);
        match line.next {
            Action::Abort | Action::Reset => {
                line.reset();
                self.close(line);
            }
            Action::Suspend | Action::Flush if line.has_end && line.inbound.is_empty() => {
                self.worker.on_hangup(transport);
            }
            _ => {}
        }
        if self.style == Style::Epoll || !line.unsent.is_empty() {
            line.send_pending();
        }
    }

    fn close_if_over(&mut self, line: &mut Line) {
        let is_sent = line.unsent.is_empty() && line.pending.is_empty();
        match line.next {
            Action::Close if is_sent && line.arrived > 0 => {
                let Some(transport) = &mut line.transport else { return };
                line.next = self.worker.on_unread(transport);
                if line.next == Action::Close {
                    // The kernel would reset it, and its client could lose a response.
                    line.reset();
                    self.close(line);
                }
            }
            Action::Close if is_sent => self.close(line),
            Action::Receive | Action::ShutdownWrite if is_sent && line.end_is_delivered => {
                self.close(line);
            }
            _ => {}
        }
    }

    fn close(&mut self, line: &mut Line) {
        line.pending = SendBuffer::default();
        line.unsent.clear();
        line.inbound.clear();
        line.arrived = 0;
        if let Some(transport) = line.transport.take() {
            self.worker.on_close(transport);
        }
    }
}

impl Line {
    /// The server resets the connection.
    fn reset(&mut self) {
        if self.ending == Ending::Whole {
            self.ending = Ending::Reset;
        }
    }

    /// Sends requests, each in one or several records.
    fn send(&mut self, texts: &[Vec<u8>], choices: &mut Choices<'_>) {
        self.has_end = choices.rarely(4);
        let Some(tls) = &mut self.tls else {
            return texts.iter().for_each(|text| self.inbound.extend_from_slice(text));
        };
        let joined = [texts.concat()];
        let texts = if choices.rarely(4) { &joined } else { texts };
        for text in texts {
            let size_max = if choices.rarely(3) { choices.size(text.len()) } else { text.len() };
            for piece in text.chunks(size_max.max(1)) {
                tls.writer().write_all(piece).expect("it is encrypted at once");
                tls.write_tls(&mut self.inbound).expect("memory takes everything");
            }
        }
        if self.has_end && choices.rarely(2) {
            tls.send_close_notify();
        }
        self.flush_tls();
    }

    fn flush_tls(&mut self) {
        let Some(tls) = &mut self.tls else { return };
        while tls.wants_write() {
            tls.write_tls(&mut self.inbound).expect("memory takes everything");
        }
    }

    /// What may happen to it.
    fn actions(&self, index: usize) -> impl Iterator<Item = Step> {
        let is_open = self.transport.is_some();
        let receives = matches!(self.next, Action::Receive | Action::ShutdownWrite);
        let wants = receives && self.unsent.is_empty();
        let is_sent = self.unsent.is_empty() && self.pending.is_empty();
        let is_flushed = self.pending.is_empty() && self.unsent.len() <= UNSENT_MAX;
        let is_at_end = self.has_end && !self.end_is_delivered && self.inbound.is_empty();
        [
            (self.arrived < self.inbound.len(), Step::Arrive(index)),
            (wants && self.arrived > 0, Step::Receive(index)),
            (wants && is_at_end, Step::End(index)),
            (self.next == Action::Yield && is_sent, Step::Resume(index)),
            (self.next == Action::Flush && is_flushed, Step::Resume(index)),
            (!self.pending.is_empty(), Step::Send(index)),
            (!self.unsent.is_empty(), Step::Read(index)),
        ]
        .into_iter()
        .filter_map(move |(is_possible, action)| (is_open && is_possible).then_some(action))
    }

    fn send_pending(&mut self) {
        let before = self.unsent.len();
        self.unsent.resize(before + self.pending.size(), 0);
        self.pending.drain_into(&mut self.unsent[before..]).expect("it is all in memory");
    }

    /// The client reads.
    fn read(&mut self, size_max: usize) {
        let bytes: Vec<_> = self.unsent.drain(..size_max.min(self.unsent.len())).collect();
        let Some(tls) = &mut self.tls else { return self.received.extend(bytes) };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            if tls.read_tls(&mut rest).expect("there is room") == 0 {
                assert!(!self.is_established, "bytes behind a close_notify");
                break;
            }
            let state = tls.process_new_packets().expect("the server is in order");
            let before = self.received.len();
            self.received.resize(before + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut self.received[before..]).expect("so much is there");
        }
        self.flush_tls();
    }
}

/// From now on any request of these may be the last one.
fn hurry(lines: &mut [Line]) {
    for line in lines {
        line.ending = Ending::Hurried;
    }
}

fn worker(settings: &Settings) -> Worker<Scripted> {
    let limiter = Arc::new(ConnectionLimiter::new(&settings.limits));
    let handler = Scripted::default();
    Worker::new(handler, limiter, settings, Telemetry::default()).with_listeners(vec![0, 1], None)
}
