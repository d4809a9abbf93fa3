//! A thread of Python that calls an application.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};

use jissoku_http::Head;
use jissoku_os::clock;
use jissoku_os::driver::{SendBuffer, Waker};
use jissoku_server::{AppClock, AppTimes, OwnedOrigin};
use pyo3::prelude::*;

use crate::body::Body;
use crate::environ::{Client, Environs, ServerInfo};
use crate::head::Expectation;
use crate::overlay;
use crate::python_thread;
use crate::response::{Response, WriteOutcome};
use crate::wsgi::Wsgi;

/// How long a thread may take to end, in seconds; a busy one is left running.
const END_LIMIT_S: f64 = 1.0;

/// Bytes and parts of a response that a thread makes before the earlier ones are sent (PEP 3333,
/// "Buffering and Streaming", lets it continue while they are being sent). Waiting for each part
/// cost a third of the CPU time of a stream of 16 KiB parts.
const AHEAD_SIZE_MAX: usize = 64 * 1024;
const PARTS_MAX: usize = 16;

/// How often a thread asks for its client while the application yields only empty parts.
const EMPTY_NS: u64 = 1_000_000_000;

/// A complete request.
#[derive(Debug)]
pub(super) struct Task {
    /// Its number.
    pub(super) request: u64,
    pub(super) head: Head,
    /// The bytes of the head.
    pub(super) bytes: Box<[u8]>,
    /// The listener and the address of the client.
    pub(super) client: (usize, Option<SocketAddr>),
    pub(super) origin: Option<Box<OwnedOrigin>>,
    pub(super) body: Option<Body>,
    pub(super) is_head: bool,
    pub(super) persists: bool,
    /// When its last byte was received, on the monotonic clock.
    pub(super) received_ns: u64,
}

/// A command to a thread.
#[derive(Debug)]
pub(super) enum Message {
    /// Call the application.
    Call(Box<Task>),
    /// So much of the response was sent.
    Sent(Written),
    /// The client has disconnected.
    Cancel,
}

/// Parts of a response, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) parts: usize,
    pub(super) size: usize,
}

impl Written {
    pub(super) const fn add(&mut self, more: Self) {
        self.parts += more.parts;
        self.size += more.size;
    }

    const fn remove(&mut self, sent: Self) {
        self.parts -= sent.parts;
        self.size -= sent.size;
    }

    /// Whether a thread has to wait before it makes another part of `size` bytes.
    const fn is_full(self, size: usize) -> bool {
        self.parts >= PARTS_MAX || (self.parts > 0 && self.size + size > AHEAD_SIZE_MAX)
    }
}

/// One or more parts of a response.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) output: SendBuffer,
    pub(super) outcome: WriteOutcome,
    pub(super) status: u16,
    /// The size of the body so far.
    pub(super) body_size: u64,
    /// The phases so far.
    pub(super) times: AppTimes,
    count: usize,
}

impl Part {
    pub(super) fn written(&self) -> Written {
        Written { parts: self.count, size: self.output.size() }
    }

    /// Appends the next part.
    pub(super) fn merge(&mut self, mut next: Self) {
        next.count += self.count;
        self.output.append_all(&mut next.output);
        std::mem::swap(&mut self.output, &mut next.output);
        *self = next;
    }
}

/// A result of a thread.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) thread: usize,
    pub(super) request: u64,
    pub(super) output: ThreadOutput,
}

/// Output of a thread.
#[derive(Debug)]
pub(super) enum ThreadOutput {
    Part(Part),
    /// An interim response; the thread continues.
    Hint(Vec<u8>),
    /// The application has yielded only empty parts for a while: is its client still there?
    Nothing,
}

/// A thread on the side of its owner.
#[derive(Debug)]
pub(super) struct AppThread {
    messages: Sender<Message>,
    /// The `threading.Thread`.
    thread: Py<PyAny>,
}

impl AppThread {
    /// Starts a `threading.Thread`, so that Python code can enumerate it.
    pub(super) fn start(
        index: usize,
        (app, server): (Py<PyAny>, &ServerInfo),
        (events, waker): (Sender<Event>, Waker),
    ) -> PyResult<Self> {
        let (messages, receiver) = mpsc::channel();
        Python::attach(|python| {
            let wsgi = Wsgi::new(app, Environs::new(python, server)?);
            let state = ThreadState { index, wsgi, receiver, events, waker };
            let name = format!("jissoku-app-{index}");
            let thread = python_thread::start(python, &name, |python| state.run(python))?;
            Ok(Self { messages, thread })
        })
    }

    pub(super) fn send(&self, message: Message) {
        // The error is ignored: a thread ends only with its owner.
        let _sent = self.messages.send(message);
    }

    /// Ends idle threads; those that are busy are awaited for a while.
    pub(super) fn end_all(threads: impl Iterator<Item = Self>) {
        // Dropping the senders ends the loops of the threads.
        let threads: Vec<Py<PyAny>> = threads.map(|thread| thread.thread).collect();
        Python::attach(|python| {
            for thread in threads {
                let _ended = thread.bind(python).call_method1("join", (END_LIMIT_S,));
            }
        });
    }
}

/// The state of a thread on its own side.
struct ThreadState {
    index: usize,
    wsgi: Wsgi,
    receiver: Receiver<Message>,
    events: Sender<Event>,
    waker: Waker,
}

impl ThreadState {
    fn run(self, python: Python<'_>) {
        let Self { index, mut wsgi, mut receiver, events, waker } = self;
        let current = Arc::new(AtomicU64::new(0));
        wsgi.environs.hints.bind(python).borrow_mut().set_send({
            let (current, events, waker) = (Arc::clone(&current), events.clone(), waker.clone());
            Box::new(move |lines| {
                let request = current.load(Ordering::Relaxed);
                let output = ThreadOutput::Hint(lines.to_vec());
                let _sent = events.send(Event { thread: index, request, output });
                let _woken = waker.wake();
            })
        });
        let report = |request, part| {
            let output = ThreadOutput::Part(part);
            let _sent = events.send(Event { thread: index, request, output });
            let _woken = waker.wake();
        };
        let mut next;
        loop {
            (next, receiver) = receive(python, receiver);
            let task = match next {
                Some(Message::Call(task)) => task,
                Some(Message::Sent(_) | Message::Cancel) => continue,
                None => return,
            };
            let request = task.request;
            current.store(request, Ordering::Relaxed);
            let mut output = SendBuffer::default();
            let begun_ns = clock::monotonic_ns();
            let mut times = AppClock::new(task.received_ns);
            times.enter(begun_ns);
            wsgi.set_now(begun_ns);
            let (mut outcome, mut response) = call(python, &mut wsgi, *task, &mut output);
            let mut ahead = Written::default();
            let mut empty_since_ns = None;
            while outcome == WriteOutcome::More {
                let mut size = 0;
                if response.is_last_empty() && output.is_empty() {
                    let now_ns = clock::monotonic_ns();
                    if now_ns - *empty_since_ns.get_or_insert(now_ns) > EMPTY_NS {
                        empty_since_ns = Some(now_ns);
                        let output = ThreadOutput::Nothing;
                        let _sent = events.send(Event { thread: index, request, output });
                        let _woken = waker.wake();
                    }
                } else {
                    empty_since_ns = None;
                    let part = part(times, outcome, &response, std::mem::take(&mut output));
                    let written = part.written();
                    size = written.size;
                    ahead.add(written);
                    report(request, part);
                }
                let is_open;
                (is_open, receiver) = await_room(python, receiver, (&mut ahead, size), &mut times);
                outcome = if is_open {
                    wsgi.resume(python, &mut response, &mut output)
                } else {
                    WriteOutcome::Truncated
                };
            }
            let last = part(times, outcome, &response, output);
            // `close` is called before the thread counts as idle.
            drop(response);
            report(request, last);
        }
    }
}

/// The part that ends now.
fn part(
    mut times: AppClock,
    outcome: WriteOutcome,
    response: &Response,
    output: SendBuffer,
) -> Part {
    times.leave(clock::monotonic_ns());
    let Response { status, body_size, .. } = *response;
    Part { output, outcome, status, body_size, times: times.times(), count: 1 }
}

/// Waits until there is room for a part of `size` bytes, and returns whether the client is still
/// connected.
fn await_room(
    python: Python<'_>,
    mut receiver: Receiver<Message>,
    (ahead, size): (&mut Written, usize),
    times: &mut AppClock,
) -> (bool, Receiver<Message>) {
    loop {
        let next = if ahead.is_full(size) {
            times.leave(clock::monotonic_ns());
            let next;
            (next, receiver) = receive(python, receiver);
            times.enter(clock::monotonic_ns());
            next
        } else {
            match receiver.try_recv() {
                Err(TryRecvError::Empty) => return (true, receiver),
                next => next.ok(),
            }
        };
        match next {
            Some(Message::Sent(sent)) => ahead.remove(sent),
            _ => return (false, receiver),
        }
    }
}

/// Waits for a message while other threads use the interpreter. `None` when there will be none.
fn receive(
    python: Python<'_>,
    receiver: Receiver<Message>,
) -> (Option<Message>, Receiver<Message>) {
    python.detach(move || (receiver.recv().ok(), receiver))
}

fn call(
    python: Python<'_>,
    wsgi: &mut Wsgi,
    task: Task,
    output: &mut SendBuffer,
) -> (WriteOutcome, Response) {
    let Task { head, bytes, client: (listener, address), origin, body, .. } = task;
    let Task { is_head, persists, .. } = task;
    let client = Client::new(python, listener, address);
    let environ = wsgi.environs.build(python, (&head, &bytes), &client).and_then(|environ| {
        if let Some(origin) = origin {
            overlay::set_origin(environ.dict.bind(python), &origin.as_origin())?;
        }
        let dict = environ.dict.bind(python);
        body.map_or(Ok(()), |body| wsgi.environs.set_body(dict, body))?;
        Ok(environ)
    });
    let expectation = Expectation { version: head.version, is_head, persists };
    wsgi.respond(python, environ, expectation, output)
}
