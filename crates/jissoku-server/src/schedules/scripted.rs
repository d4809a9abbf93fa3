//! A handler that answers as the request asks, and checks how it is called.

use std::io;
use std::sync::Arc;

use jissoku_http::framing::Body;
use jissoku_os::driver::{ConnectionId, NewConnection, UNSENT_MAX};

use super::plan::{BODY_SIZE_MAX, last_part, part, sum};
use crate::handler::{
    AbandonReason, Background, BodyFlow, EventLoop, Handler, Progress, RequestHead, Service,
    WorkerInfo,
};
use crate::log::LogRecord;
use crate::response::Response;

/// The unit of delays.
const DELAY_NS: u64 = 100_000;

/// A service of this handler.
#[derive(Debug)]
pub(super) struct ScriptedService;

impl Service for ScriptedService {
    type Handler = Scripted;

    fn handler(self: &Arc<Self>, _: &WorkerInfo) -> io::Result<Scripted> {
        Ok(Scripted::default())
    }
}

/// Answers as the request asks.
#[derive(Debug, Default)]
pub(super) struct Scripted {
    /// Requests that are resumed at a time.
    sleeping: Vec<(u64, ConnectionId, u64)>,
    /// The tokens of those whose time has come.
    awake: Vec<u64>,
    token: u64,
    /// Requests that wait for a time.
    pub(super) timed: usize,
    /// Requests without an end.
    pub(super) open: usize,
}

/// A connection and the request that it has.
#[derive(Debug)]
pub(super) struct Link {
    id: ConnectionId,
    token: Option<u64>,
}

/// A request and what is left to do for it.
#[derive(Debug)]
pub(super) struct Exchange {
    token: u64,
    id: usize,
    flow: char,
    steps: Vec<char>,
    done: usize,
    end: char,
    waiting: Option<Progress>,
    has_head: bool,
    body: (usize, u64),
    has_ended: bool,
    /// Bytes after an upgrade that are not sent back yet.
    echo: Vec<u8>,
    has_upgraded: bool,
}

impl Scripted {
    /// When the next request is resumed.
    fn earliest_ns(&self) -> Option<u64> {
        self.sleeping.iter().map(|(due_ns, ..)| *due_ns).min()
    }

    fn finish(&mut self, link: &mut Link, exchange: &Exchange) {
        assert_eq!(link.token.take(), Some(exchange.token), "of another request");
        self.sleeping.retain(|(.., token)| *token != exchange.token);
        self.awake.retain(|token| *token != exchange.token);
        self.open -= 1;
        self.timed -= usize::from(matches!(exchange.waiting, Some(Progress::Until(_))));
    }

    /// Whether what the request waits for has happened.
    fn is_done(
        &mut self,
        progress: Progress,
        exchange: &Exchange,
        response: &Response<'_>,
    ) -> bool {
        match progress {
            Progress::Until(due_ns) => due_ns <= response.now_ns(),
            Progress::Sent => response.unsent() == 0,
            Progress::Flush => response.unsent() <= UNSENT_MAX,
            _ => {
                let place = self.awake.iter().position(|token| *token == exchange.token);
                place.map(|place| self.awake.swap_remove(place)).is_some()
            }
        }
    }

    /// Begins a step and returns what it waits for.
    fn begin(
        &mut self,
        step: char,
        link: &Link,
        exchange: &mut Exchange,
        response: &mut Response<'_>,
    ) -> Progress {
        // A delay that differs from request to request, so that they overtake each other.
        let due_ns = response.now_ns() + DELAY_NS * (exchange.token * 7 % 5);
        let text = part(exchange.id, step);
        if !text.is_empty() {
            write(exchange, response, &text);
        }
        match step {
            't' => {
                self.timed += 1;
                Progress::Until(due_ns)
            }
            's' | 'S' => Progress::Sent,
            'f' | 'F' => Progress::Flush,
            _ => {
                self.sleeping.push((due_ns, link.id, exchange.token));
                Progress::Pending
            }
        }
    }
}

impl Handler for Scripted {
    type Connection = Link;
    type Request = Exchange;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> Link {
        Link { id: opened.id, token: None }
    }

    fn on_head(&mut self, link: &mut Link, head: &RequestHead<'_>) -> Exchange {
        self.token += 1;
        self.open += 1;
        assert_eq!(link.token.replace(self.token), None, "the request before has no response yet");
        let path = str::from_utf8(head.path_and_query().0).expect("paths are text");
        let mut words = path.split('/').skip(1);
        let mut word = || words.next().expect("a path has four words");
        let (id, flow, steps, end) = (word(), word(), word(), word());
        let letter = |word: &str| word.chars().next().expect("a letter");
        Exchange {
            token: self.token,
            id: id.parse().expect("a number"),
            flow: letter(flow),
            steps: steps.chars().collect(),
            done: 0,
            end: letter(end),
            waiting: None,
            has_head: false,
            body: (0, 0),
            has_ended: head.head.body == Body::Empty && end != "u",
            echo: Vec::new(),
            has_upgraded: false,
        }
    }

    fn body_size_max(&self, _: &Exchange) -> Option<u64> {
        Some(BODY_SIZE_MAX as u64)
    }

    fn body_flow(&self, exchange: &Exchange) -> BodyFlow {
        match exchange.flow {
            'w' => BodyFlow::Whole,
            'h' if exchange.done < exchange.steps.len().min(1) => BodyFlow::Hold,
            'a' if exchange.done < exchange.steps.len().min(1) => BodyFlow::Await,
            _ => BodyFlow::Receive,
        }
    }

    fn on_body(&mut self, exchange: &mut Exchange, bytes: &[u8]) {
        if exchange.has_upgraded {
            return exchange.echo.extend_from_slice(bytes);
        }
        let (size, before) = exchange.body;
        exchange.body = (size + bytes.len(), sum(before, bytes));
    }

    fn on_end(&mut self, exchange: &mut Exchange) {
        assert!(!std::mem::replace(&mut exchange.has_ended, true), "a body ends once");
    }

    fn respond(
        &mut self,
        link: &mut Link,
        exchange: &mut Exchange,
        response: &mut Response<'_>,
    ) -> Progress {
        assert_eq!(link.token, Some(exchange.token), "of another request");
        if let Some(progress) = exchange.waiting {
            if !self.is_done(progress, exchange, response) {
                return progress;
            }
            exchange.waiting = None;
            exchange.done += 1;
            self.timed -= usize::from(matches!(progress, Progress::Until(_)));
        }
        if let Some(step) = exchange.steps.get(exchange.done).copied() {
            let progress = self.begin(step, link, exchange, response);
            exchange.waiting = Some(progress);
            return progress;
        }
        if exchange.end == 'x' {
            self.finish(link, exchange);
            return Progress::Reset;
        }
        if exchange.end == 'u' {
            upgrade(exchange, response);
            if !exchange.has_ended {
                return Progress::Pending;
            }
        } else {
            if exchange.flow != 'w' && exchange.end != 'e' && !exchange.has_ended {
                return Progress::Pending;
            }
            let body = (exchange.end != 'e').then_some(exchange.body);
            write(exchange, response, &last_part(exchange.id, body));
            if !response.is_head() {
                response.append(b"0\r\n\r\n");
            }
        }
        self.finish(link, exchange);
        Progress::Complete
    }

    fn on_abandon(
        &mut self,
        link: &mut Link,
        exchange: Exchange,
        _: AbandonReason,
        _: &mut LogRecord<'_>,
    ) {
        self.finish(link, &exchange);
    }

    fn event_loop(&mut self) -> Option<&mut impl EventLoop> {
        Some(self)
    }
}

impl EventLoop for Scripted {}

impl Background for Scripted {
    fn deadline_ns(&self) -> Option<u64> {
        self.earliest_ns()
    }

    fn next_ready(&mut self, now_ns: u64) -> Option<ConnectionId> {
        // The last that is due, so that the order is not that of the requests.
        let place = self.sleeping.iter().rposition(|(due_ns, ..)| *due_ns <= now_ns)?;
        let (_, id, token) = self.sleeping.remove(place);
        self.awake.push(token);
        Some(id)
    }
}

/// Writes a part of a chunked response, with the head before the first.
fn write(exchange: &mut Exchange, response: &mut Response<'_>, text: &str) {
    if !std::mem::replace(&mut exchange.has_head, true) {
        if exchange.end == 'c' {
            response.close_after();
        }
        let close = if response.keeps_alive() { "" } else { "Connection: close\r\n" };
        let head = format!("HTTP/1.1 200 OK\r\n{close}Transfer-Encoding: chunked\r\n\r\n");
        response.append(head.as_bytes());
        response.set_sent(200, 0);
    }
    if !response.is_head() {
        response.append(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    }
}

/// Switches protocols, and sends back what was received since.
fn upgrade(exchange: &mut Exchange, response: &mut Response<'_>) {
    if !std::mem::replace(&mut exchange.has_upgraded, true) {
        response.append(b"HTTP/1.1 101 Switching Protocols\r\n\r\n");
        response.set_sent(101, 0);
        response.upgrade();
    }
    response.append(&std::mem::take(&mut exchange.echo));
}
