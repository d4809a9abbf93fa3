//! A thread of Python that calls an application.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use jissoku_os::clock;
use jissoku_os::driver::{SendBuffer, Waker};
use pyo3::prelude::*;

use crate::body_writer::WriteOutcome;
use crate::environ::{Client, Environs, ServerInfo};
use crate::overlay;
use crate::python_thread;
use crate::response::Response;
use crate::response_head::Expectation;
use crate::sink::Sink;
use crate::thread_link::{Event, Link, Message, Reports, Task, ThreadOutput};
use crate::wsgi::Wsgi;

/// How long all threads may take to end; a busy one is left running.
const END_NS_MAX: u64 = 500_000_000;

/// How often a thread asks for its client while the application yields only empty parts.
const EMPTY_NS: u64 = 1_000_000_000;

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
            let link = Box::new(Link::new(receiver, Reports { thread: index, events, waker }));
            let state = ThreadState { wsgi, link };
            let name = format!("jissoku-app-{index}");
            let thread = python_thread::start(python, &name, |python| state.run(python))?;
            Ok(Self { messages, thread })
        })
    }

    pub(super) fn send(&self, message: Message) {
        // The error is ignored: a thread ends only with its owner.
        let _sent = self.messages.send(message);
    }

    /// Ends idle threads; those that are busy are awaited for a while. Returns whether all have ended.
    pub(super) fn end_all(threads: impl Iterator<Item = Self>) -> bool {
        // Dropping the senders ends the loops of the threads.
        let threads: Vec<Py<PyAny>> = threads.map(|thread| thread.thread).collect();
        let end_ns = clock::monotonic_ns() + END_NS_MAX;
        Python::attach(|python| {
            let has_ended = |thread: &Bound<'_, PyAny>| -> PyResult<bool> {
                let left_ns = end_ns.saturating_sub(clock::monotonic_ns());
                thread.call_method1("join", (Duration::from_nanos(left_ns).as_secs_f64(),))?;
                Ok(!thread.call_method0("is_alive")?.extract::<bool>()?)
            };
            threads
                .iter()
                .map(|thread| has_ended(thread.bind(python)))
                .fold(true, |all, has_ended| all & has_ended.unwrap_or(true))
        })
    }
}

/// The state of a thread on its own side.
struct ThreadState {
    wsgi: Wsgi,
    link: Box<Link>,
}

impl ThreadState {
    fn run(self, python: Python<'_>) {
        let Self { mut wsgi, mut link } = self;
        let current = Arc::new(AtomicU64::new(0));
        wsgi.environs.hints.bind(python).borrow_mut().set_send({
            let (current, reports) = (Arc::clone(&current), link.reports.clone());
            Box::new(move |lines| {
                let request = current.load(Ordering::Relaxed);
                reports.send(request, ThreadOutput::Hint(lines.to_vec()));
            })
        });
        loop {
            let task = match link.receive(python) {
                Some(Message::Call(task)) => task,
                Some(Message::Sent(_) | Message::Cancel) => continue,
                None => return,
            };
            current.store(task.request, Ordering::Relaxed);
            let begun_ns = clock::monotonic_ns();
            link.begin(task.request, task.received_ns, begun_ns);
            wsgi.set_now(begun_ns);
            let sink = Sink::Thread(link, SendBuffer::default());
            let (mut outcome, mut response, sink) = call(python, &mut wsgi, *task, sink);
            let Sink::Thread(returned, mut output) = sink else { return };
            link = returned;
            let mut empty_since_ns = None;
            while outcome == WriteOutcome::More {
                let mut size = 0;
                if response.is_last_empty() && output.is_empty() {
                    let now_ns = clock::monotonic_ns();
                    if now_ns - *empty_since_ns.get_or_insert(now_ns) > EMPTY_NS {
                        empty_since_ns = Some(now_ns);
                        link.reports.send(link.request, ThreadOutput::Nothing);
                    }
                } else {
                    empty_since_ns = None;
                    size = link.report(outcome, &response.body, std::mem::take(&mut output));
                }
                outcome = if link.await_room(python, size) {
                    wsgi.resume(python, &mut response, &mut output)
                } else {
                    WriteOutcome::Truncated
                };
            }
            let last = link.part(outcome, &response.body, output);
            // `close` is called before the thread counts as idle.
            drop(response);
            link.reports.send(link.request, ThreadOutput::Part(last));
        }
    }
}

fn call(
    python: Python<'_>,
    wsgi: &mut Wsgi,
    task: Task,
    sink: Sink,
) -> (WriteOutcome, Response, Sink) {
    let Task { head, bytes, client: (listener, address), identity, body, .. } = task;
    let Task { is_head, persists, request_id, .. } = task;
    let client = Client::new(python, listener, address);
    let environ = wsgi.environs.build(python, (&head, &bytes), &client).and_then(|environ| {
        if let Some(identity) = identity {
            overlay::set_identity(environ.dict.bind(python), &identity.as_identity())?;
        }
        let dict = environ.dict.bind(python);
        body.map_or(Ok(()), |body| wsgi.environs.set_body(dict, body))?;
        Ok(environ)
    });
    let expectation = Expectation {
        version: head.version,
        is_head,
        persists,
        request_id,
        name: wsgi.names.name(&head, &bytes),
    };
    wsgi.respond(python, environ, expectation, sink)
}
