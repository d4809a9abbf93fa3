//! A thread of Python that calls an application.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use jissoku_http::Head;
use jissoku_os::clock;
use jissoku_os::driver::{SendBuffer, Waker};
use jissoku_server::OwnedOrigin;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};

use crate::environ::{Client, Environs, ServerInfo};
use crate::head::Expectation;
use crate::overlay;
use crate::response::{Response, WriteOutcome};
use crate::wsgi::Wsgi;

#[expect(clippy::disallowed_types, reason = "a function of Python has to be Sync; called once")]
type StartState = std::sync::Mutex<Option<ThreadState>>;

/// How long a thread may take to end, in seconds; a busy one is left running.
const END_LIMIT_S: f64 = 1.0;

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
    pub(super) body: Option<Vec<u8>>,
    pub(super) is_head: bool,
    pub(super) persists: bool,
}

/// A command to a thread.
#[derive(Debug)]
pub(super) enum Message {
    /// Call the application.
    Call(Box<Task>),
    /// The last part was sent: provide the next one.
    Continue,
    /// The client has disconnected.
    Cancel,
}

/// A part of a response.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) output: SendBuffer,
    pub(super) outcome: WriteOutcome,
    pub(super) status: u16,
    /// The size of the body so far.
    pub(super) body_size: u64,
    /// When the thread began with the part and ended it, on the monotonic clock.
    pub(super) begun_ns: u64,
    pub(super) ended_ns: u64,
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
            let state = StartState::new(Some(ThreadState { index, wsgi, receiver, events, waker }));
            let run = PyCFunction::new_closure(python, None, None, move |arguments, _| {
                let thread = state.lock().ok().and_then(|mut state| state.take());
                if let Some(thread) = thread {
                    thread.run(arguments.py());
                }
            })?;
            let options = PyDict::new(python);
            options.set_item("target", run)?;
            options.set_item("name", format!("jissoku-app-{index}"))?;
            // The process can exit although a request never ends.
            options.set_item("daemon", true)?;
            let class = python.import("threading")?.getattr("Thread")?;
            let thread = class.call((), Some(&options))?;
            thread.call_method0("start")?;
            Ok(Self { messages, thread: thread.unbind() })
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
                Some(Message::Continue | Message::Cancel) => continue,
                None => return,
            };
            let request = task.request;
            current.store(request, Ordering::Relaxed);
            let mut output = SendBuffer::default();
            let mut begun_ns = clock::monotonic_ns();
            wsgi.set_now(begun_ns);
            let (mut outcome, mut response) = call(python, &mut wsgi, *task, &mut output);
            while outcome == WriteOutcome::More {
                report(request, part(outcome, &response, std::mem::take(&mut output), begun_ns));
                (next, receiver) = receive(python, receiver);
                begun_ns = clock::monotonic_ns();
                outcome = match next {
                    Some(Message::Continue) => wsgi.resume(python, &mut response, &mut output),
                    _ => WriteOutcome::Truncated,
                };
            }
            let last = part(outcome, &response, output, begun_ns);
            // `close` is called before the thread counts as idle.
            drop(response);
            report(request, last);
        }
    }
}

/// The part that ends now.
fn part(outcome: WriteOutcome, response: &Response, output: SendBuffer, begun_ns: u64) -> Part {
    let ended_ns = clock::monotonic_ns();
    let Response { status, body_size, .. } = *response;
    Part { output, outcome, status, body_size, begun_ns, ended_ns }
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
            overlay::set_origin(&environ, &origin.as_origin())?;
        }
        body.map_or(Ok(()), |body| wsgi.environs.set_body(&environ, body))?;
        Ok(environ)
    });
    let expectation = Expectation { version: head.version, is_head, persists };
    wsgi.respond(python, environ, expectation, output)
}
