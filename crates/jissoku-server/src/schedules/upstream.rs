//! TLS with a server that a handler has opened a connection to, without sockets: a server of rustls in
//! memory, a driver that sends and receives any number of bytes, and events in any order.
//!
//! The model: all bytes arrive once and in order, before an end that is clean if the server has said
//! so; nothing follows an end; whatever happens, the connection ends when the server has.

use std::io::{self, Read, Write};
use std::sync::Arc;

use jissoku_os::driver::{Action, ConnectionId, NewConnection, Opening, SendBuffer};
use jissoku_tls::Trust;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, Error, ServerConfig, ServerConnection, SupportedProtocolVersion};

use super::plan::{Choices, config};
use crate::context::WorkerContext;
use crate::handler::{
    Background, Handler, Outbound, Progress, RequestHead, UpstreamEvent, UpstreamEventKind,
};
use crate::limits::Limits;
use crate::response::Response;
use crate::telemetry::Telemetry;
use crate::tls_client::{TlsClient, TlsName, TlsOpening};
use crate::upstream_session::UpstreamSession;

/// Cases, unless `PROPTEST_CASES` says otherwise: some seconds.
const CASES: u32 = 600;

/// More steps than any case has.
const STEPS_MAX: usize = 100_000;

/// How many bytes are sent and received singly.
const BYTES_MAX: usize = 20_000;

/// What a session may add to the output of one event: a hello, an alert, the head of a record.
const OVERHEAD_MAX: usize = 2_000;

/// A record of TLS, of which a part was received before.
const RECORD_MAX: usize = 18_000;

/// How a server sees the `close_notify` of a client that gives up in the handshake.
const GIVEN_UP: Error = Error::AlertReceived(AlertDescription::CloseNotify);

/// The bytes that both sides send, by their place.
fn pattern(from: usize, size: usize) -> Vec<u8> {
    (0..=250).cycle().skip(from % 251).take(size).collect()
}

/// How the handler responds to an event.
#[derive(Clone, Copy, Debug)]
struct Reply {
    size: usize,
    next: Action,
}

/// A handler with one connection, and what it has got and done.
#[derive(Debug, Default)]
struct Scripted {
    /// Its replies from the last one on, before and after the handshake is complete.
    early_replies: Vec<Reply>,
    replies: Vec<Reply>,
    is_connected: bool,
    received: Vec<u8>,
    written: usize,
    /// The end of the server: whether it was clean.
    end: Option<bool>,
    /// What it has requested last.
    next: Option<Action>,
    /// It sends nothing more.
    has_shut: bool,
    wrong: Option<&'static str>,
}

impl Handler for Scripted {
    type Connection = ();
    type Request = ();

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    fn on_head(&mut self, (): &mut (), _: &RequestHead<'_>) {}

    fn respond(&mut self, (): &mut (), (): &mut (), _: &mut Response<'_>) -> Progress {
        Progress::Reset
    }

    fn outbound(&mut self) -> Option<&mut impl Outbound> {
        Some(self)
    }
}

impl Background for Scripted {}

impl Scripted {
    fn record(&mut self, kind: UpstreamEventKind<'_>) -> Option<&'static str> {
        let is_over = matches!(self.next, Some(Action::Abort | Action::Reset));
        let is_closing = self.next == Some(Action::Close);
        match kind {
            _ if is_over => Some("an event of a connection that is given up"),
            UpstreamEventKind::Resumed { .. } => None,
            _ if is_closing => Some("an event of a connection that is closing"),
            UpstreamEventKind::Connected if self.is_connected => Some("connected twice"),
            UpstreamEventKind::Connected => {
                self.is_connected = true;
                None
            }
            _ if !self.is_connected => Some("an event before the handshake is complete"),
            _ if self.end.is_some() => Some("an event after the end"),
            UpstreamEventKind::Data { bytes: [], .. } => Some("no bytes"),
            UpstreamEventKind::Data { bytes, .. } => {
                self.received.extend_from_slice(bytes);
                None
            }
            UpstreamEventKind::Eof { .. } if self.next == Some(Action::Suspend) => {
                Some("the end while nothing is to be received")
            }
            UpstreamEventKind::Eof { is_clean } => {
                self.end = Some(is_clean);
                None
            }
        }
    }
}

impl Outbound for Scripted {
    fn next_opening(&mut self) -> Option<Opening> {
        None
    }

    fn on_opening(&mut self, _: u64, _: ConnectionId) {}

    fn on_event(&mut self, event: UpstreamEvent<'_>, output: &mut SendBuffer) -> Action {
        let wrong = self.record(event.kind);
        self.wrong = self.wrong.or(wrong);
        if self.next == Some(Action::Close) {
            return Action::Close;
        }
        let after = Reply { size: 0, next: Action::Receive };
        let replies = if self.is_connected { &mut self.replies } else { &mut self.early_replies };
        let Reply { size, next } = replies.pop().unwrap_or(after);
        if !self.is_connected {
            // What is written now is not sent.
            output.append(&[0; 9][..size.min(9)]);
            self.next = Some(if next == Action::ShutdownWrite { Action::Receive } else { next });
            return next;
        }
        let next = match next {
            Action::Receive if self.has_shut => Action::ShutdownWrite,
            next => next,
        };
        if !self.has_shut && !matches!(next, Action::Abort | Action::Reset) {
            output.append(&pattern(self.written, size));
            self.written += size;
        }
        // A connection that only receives ends with its server.
        let has_ended = self.end.is_some() && next == Action::Receive;
        self.has_shut |= has_ended || next == Action::ShutdownWrite;
        self.next = Some(next);
        next
    }

    fn on_close(&mut self, _: u64, _: Option<&io::Error>, _: u64) {}
}

/// What may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The connection below TLS is established.
    Connect,
    /// The driver sends bytes, receives them, or receives the end.
    Send,
    Receive,
    End,
    /// The handler or the driver has a reason to resume it, or a second has passed.
    Resume,
    ServerReads,
    ServerWrites,
    ServerUpdatesKey,
    ServerNotifies,
    ServerEnds,
    /// Bytes on the way are changed, to the server or from it.
    Damage(bool),
}

/// A session and its server.
#[expect(clippy::struct_excessive_bools, reason = "each may happen at any time")]
struct Line {
    session: UpstreamSession,
    context: WorkerContext<Scripted>,
    server: ServerConnection,
    is_connected: bool,
    next: Action,
    /// Output that the driver has not sent, that the server has not read, and that the driver has not
    /// received.
    unsent: Vec<u8>,
    sent: Vec<u8>,
    inbound: Vec<u8>,
    /// How the driver has closed the connection.
    closed: Option<Action>,
    written: usize,
    received: Vec<u8>,
    /// The server understands the client no more.
    has_failed: bool,
    /// The client has sent a `close_notify`.
    is_notified: bool,
    notifies: bool,
    has_ended: bool,
    end_is_received: bool,
    is_damaged: bool,
}

impl Line {
    fn new(server: &Arc<ServerConfig>, client: &TlsClient, handler: Scripted) -> Self {
        let name = TlsName::parse("localhost").expect("it is a name");
        let opening = TlsOpening { client: client.clone(), name };
        let mut server = ServerConnection::new(Arc::clone(server)).expect("a server");
        server.set_buffer_limit(None);
        Self {
            session: UpstreamSession::new(1, &opening).expect("a session"),
            context: WorkerContext::new(handler, Limits::DEFAULT, Telemetry::default(), 0),
            server,
            is_connected: false,
            next: Action::Receive,
            unsent: Vec::new(),
            sent: Vec::new(),
            inbound: Vec::new(),
            closed: None,
            written: 0,
            received: Vec::new(),
            has_failed: false,
            is_notified: false,
            notifies: false,
            has_ended: false,
            end_is_received: false,
            is_damaged: false,
        }
    }

    fn handler(&self) -> &Scripted {
        &self.context.handler
    }

    /// What can happen, in the order in which it does if nothing else is chosen.
    fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let is_open = self.closed.is_none();
        let wants = is_open
            && self.is_connected
            && matches!(self.next, Action::Receive | Action::ShutdownWrite);
        let is_at_end = self.has_ended && !self.end_is_received && self.inbound.is_empty();
        let is_waiting = matches!(self.next, Action::Suspend | Action::Yield);
        [
            (is_open && !self.is_connected, Step::Connect),
            (is_open && self.is_connected && !self.unsent.is_empty(), Step::Send),
            (!self.sent.is_empty(), Step::ServerReads),
            (wants && !self.inbound.is_empty(), Step::Receive),
            (wants && is_at_end, Step::End),
            (is_open && is_waiting && self.unsent.is_empty(), Step::Resume),
            (is_open && !self.has_ended, Step::ServerEnds),
        ]
        .into_iter()
        .filter_map(|(is_possible, step)| is_possible.then_some(step))
    }

    /// Passes an event to the session, and does with the result what a driver does.
    fn call(&mut self, kind: UpstreamEventKind<'_>) -> Result<(), String> {
        let mut output = SendBuffer::default();
        let before = (self.handler().written, self.handler().received.len());
        let (had_given_up, is_sent) = (self.handler().next, self.unsent.is_empty());
        let next = self.session.on_event(kind, &mut self.context, &mut output);
        let (written, received) = (self.handler().written, self.handler().received.len());
        let size = match kind {
            UpstreamEventKind::Data { bytes, .. } => bytes.len(),
            _ => 0,
        };
        if received - before.1 > size + RECORD_MAX {
            return Err(format!("{} bytes of {size}", received - before.1));
        }
        if output.size() > (written - before.0) * 9 / 8 + OVERHEAD_MAX {
            return Err(format!("{} bytes of output for {}", output.size(), written - before.0));
        }
        if !self.is_connected && !output.is_empty() {
            return Err("output before there is a connection".to_owned());
        }
        if self.handler().next == Some(Action::Abort) && had_given_up != Some(Action::Abort) {
            let is_end = matches!(kind, UpstreamEventKind::Eof { .. });
            let may_notify = !is_end && is_sent && self.is_connected;
            if next != if may_notify { Action::Close } else { Action::Abort } {
                return Err(format!("given up at {kind:?}: {next:?}"));
            }
        }
        self.next = next;
        if matches!(next, Action::Abort | Action::Reset) {
            self.closed = Some(next);
            self.unsent.clear();
            return Ok(());
        }
        let before = self.unsent.len();
        self.unsent.resize(before + output.size(), 0);
        output.drain_into(&mut self.unsent[before..]).expect("it is all in memory");
        self.close_if_due();
        Ok(())
    }

    fn close_if_due(&mut self) {
        let is_due = match self.next {
            Action::Receive | Action::ShutdownWrite => self.end_is_received,
            next => next == Action::Close && self.unsent.is_empty(),
        };
        if is_due && self.closed.is_none() {
            self.closed = Some(Action::Close);
        }
    }

    fn take(&mut self, step: Step, size: usize) -> Result<(), String> {
        let unsent = self.unsent.len();
        match step {
            Step::Connect => {
                self.is_connected = true;
                self.call(UpstreamEventKind::Connected)
            }
            Step::Send => {
                let sent: Vec<_> = self.unsent.drain(..size.min(unsent)).collect();
                self.sent.extend(sent);
                self.close_if_due();
                let is_awaited = matches!(self.next, Action::Receive | Action::Suspend);
                if self.unsent.is_empty() && is_awaited && self.closed.is_none() {
                    return self.call(UpstreamEventKind::Resumed { unsent: 0 });
                }
                Ok(())
            }
            Step::Receive => {
                let bytes: Vec<_> = self.inbound.drain(..size.min(self.inbound.len())).collect();
                self.call(UpstreamEventKind::Data { bytes: &bytes, unsent })
            }
            Step::End => {
                self.end_is_received = true;
                self.call(UpstreamEventKind::Eof { is_clean: true })
            }
            Step::Resume => self.call(UpstreamEventKind::Resumed { unsent }),
            Step::ServerReads => self.read(size),
            _ => {
                self.serve(step, size);
                Ok(())
            }
        }
    }

    /// The server reads.
    fn read(&mut self, size: usize) -> Result<(), String> {
        let bytes: Vec<_> = self.sent.drain(..size.min(self.sent.len())).collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() && !self.is_notified && !self.has_failed {
            self.server.read_tls(&mut rest).expect("there is room");
            let state = match self.server.process_new_packets() {
                Ok(state) => state,
                Err(error) if self.is_damaged || error == GIVEN_UP => {
                    self.flush();
                    (self.has_ended, self.has_failed) = (true, true);
                    self.is_notified = error == GIVEN_UP;
                    return Ok(());
                }
                Err(error) => return Err(format!("the server: {error}")),
            };
            let before = self.received.len();
            self.received.resize(before + state.plaintext_bytes_to_read(), 0);
            self.server.reader().read_exact(&mut self.received[before..]).expect("so much");
            self.is_notified = state.peer_has_closed();
        }
        self.flush();
        if self.is_notified && !self.has_failed && !rest.is_empty() {
            return Err("bytes behind a close_notify".to_owned());
        }
        Ok(())
    }

    fn flush(&mut self) {
        let mut bytes = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut bytes).expect("memory takes everything");
        }
        if !self.has_ended {
            self.inbound.extend(bytes);
        }
    }

    /// The server does something, or bytes are changed.
    fn serve(&mut self, step: Step, size: usize) {
        match step {
            Step::Damage(is_outbound) => {
                let bytes = if is_outbound { &mut self.sent } else { &mut self.inbound };
                if !bytes.is_empty() {
                    let place = size % bytes.len();
                    bytes[place] ^= 0x55;
                    self.is_damaged = true;
                }
            }
            _ if self.has_ended => {}
            Step::ServerWrites if !self.notifies => {
                let bytes = pattern(self.written, size);
                self.server.writer().write_all(&bytes).expect("there is no limit");
                self.written += size;
            }
            Step::ServerUpdatesKey => drop(self.server.refresh_traffic_keys()),
            Step::ServerNotifies if !self.server.is_handshaking() => {
                self.server.send_close_notify();
                self.notifies = true;
            }
            Step::ServerEnds => {
                self.flush();
                self.has_ended = true;
            }
            _ => {}
        }
        self.flush();
    }

    /// Compares everything with the model.
    fn check(&self) -> Result<(), String> {
        let handler = self.handler();
        if let Some(wrong) = handler.wrong {
            return Err(wrong.to_owned());
        }
        let is_prefix = |bytes: &[u8], of| bytes.len() <= of && *bytes == pattern(0, bytes.len());
        if !is_prefix(&handler.received, self.written) {
            return Err("received something else".to_owned());
        }
        if !is_prefix(&self.received, handler.written) {
            return Err("sent something else".to_owned());
        }
        if handler.end == Some(true) && !(self.notifies && handler.received.len() == self.written) {
            return Err("a clean end that was none".to_owned());
        }
        if self.is_damaged {
            return Ok(());
        }
        if let Some(error) = self.session.error() {
            return Err(format!("failed: {error}"));
        }
        let gave_up = matches!(handler.next, Some(Action::Abort | Action::Reset));
        let is_own = gave_up || handler.next == Some(Action::Close) || !handler.is_connected;
        if !is_own && handler.end != Some(self.notifies) {
            return Err(format!("an end of {:?} where {}", handler.end, self.notifies));
        }
        if !is_own && self.notifies && handler.received.len() != self.written {
            return Err("bytes are missing".to_owned());
        }
        if handler.next == Some(Action::Reset) && self.is_notified && !handler.has_shut {
            return Err("a reset that looks like an end".to_owned());
        }
        let is_whole = self.closed == Some(Action::Close) && handler.is_connected;
        if is_whole && !self.is_notified {
            return Err("no close_notify".to_owned());
        }
        if is_whole && !gave_up && self.received.len() != handler.written {
            return Err("bytes were not sent".to_owned());
        }
        Ok(())
    }
}

/// The two sides of all cases.
struct Sides {
    servers: Vec<Arc<ServerConfig>>,
    client: TlsClient,
}

impl Sides {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
        let server = |version: &'static SupportedProtocolVersion, is_early: bool| {
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
            let provider = Arc::new(ring::default_provider());
            let mut config = ServerConfig::builder_with_provider(provider)
                .with_protocol_versions(&[version])
                .expect("it is known")
                .with_no_client_auth()
                .with_single_cert(vec![made.cert.der().clone()], key)
                .expect("they belong together");
            config.ticketer = ring::Ticketer::new().expect("a key");
            // What it writes is sent before the end of the handshake.
            config.send_half_rtt_data = is_early;
            Arc::new(config)
        };
        let servers = vec![server(&TLS13, false), server(&TLS13, true), server(&TLS12, false)];
        let client = TlsClient::new(&Trust::AnyCertificate).expect("it is valid");
        Self { servers, client }
    }

    fn run(&self, choices: &mut Choices<'_>) -> Result<(), String> {
        const NEXT: [Action; 16] = {
            let mut next = [Action::Receive; 16];
            next[9] = Action::Suspend;
            next[10] = Action::Suspend;
            next[11] = Action::Yield;
            next[12] = Action::ShutdownWrite;
            next[13] = Action::Close;
            next[14] = Action::Abort;
            next[15] = Action::Reset;
            next
        };
        let size = |choices: &mut Choices<'_>| match choices.below(8) {
            0..4 => 0,
            4..7 => choices.below(200),
            _ => 40_000,
        };
        let mut replies = |count_max| -> Vec<_> {
            let count = choices.below(count_max);
            let reply = |_| Reply { size: size(choices), next: NEXT[choices.below(NEXT.len())] };
            (0..count).map(reply).collect()
        };
        let handler =
            Scripted { early_replies: replies(3), replies: replies(12), ..Scripted::default() };
        // With a session of an earlier case, if the server has the same version.
        let mut line = Line::new(&self.servers[choices.below(3)], &self.client, handler);
        let is_bytewise = choices.rarely(4);
        for number in 0..STEPS_MAX {
            let mut steps: Vec<_> = line.steps().collect();
            if steps.is_empty() {
                if line.closed.is_none() {
                    return Err(format!("it hangs: {:?}", line.next));
                }
                return line.check();
            }
            if !choices.is_used_up() {
                steps.extend([Step::ServerWrites, Step::ServerUpdatesKey, Step::ServerNotifies]);
                if line.closed.is_none() {
                    steps.push(Step::Resume);
                }
                if choices.rarely(60) {
                    steps.push(Step::Damage(choices.rarely(2)));
                }
            }
            let step = steps[choices.below(steps.len())];
            let size = match step {
                Step::ServerWrites => size(choices),
                _ if is_bytewise && number < BYTES_MAX => 1,
                _ => choices.size(50_000),
            };
            line.take(step, size).map_err(|error| format!("{step:?}: {error}"))?;
        }
        Err("it never ends".to_owned())
    }
}

#[test]
fn bytes_of_a_server_arrive_once_in_order_and_before_its_end() {
    let sides = Sides::new();
    let cases = prop::collection::vec(any::<u8>(), 8..200);
    let outcome = TestRunner::new(config(CASES, 1))
        .run(&cases, |bytes| sides.run(&mut Choices::new(&bytes)).map_err(TestCaseError::fail));
    outcome.expect("each case is as the model says");
}

/// The bytes of a server with a response and an end, split at each place.
#[test]
fn a_response_is_independent_of_where_its_bytes_are_split() {
    let sides = Sides::new();
    for server in &sides.servers[1..] {
        let mut place = 0;
        loop {
            let replies = vec![Reply { size: 100, next: Action::Receive }];
            let client = TlsClient::new(&Trust::AnyCertificate).expect("it is valid");
            let handler = Scripted { replies, ..Scripted::default() };
            let mut line = Line::new(server, &client, handler);
            let mut left = place;
            let mut has_written = false;
            while let Some(step) = line.steps().next() {
                if line.received.len() == 100 && !has_written {
                    has_written = true;
                    line.serve(Step::ServerWrites, 300);
                    line.serve(Step::ServerNotifies, 0);
                    continue;
                }
                let size = if step == Step::Receive && left > 0 {
                    let size = left.min(line.inbound.len());
                    left -= size;
                    size
                } else {
                    usize::MAX
                };
                line.take(step, size).expect("it goes on");
            }
            line.check().expect("it is as the model says");
            assert_eq!(line.handler().received.len(), 300, "split at {place}");
            if left > 0 {
                break;
            }
            place += 1;
        }
        assert!(place > 500, "{place} places");
    }
}
