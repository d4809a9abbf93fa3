//! The handler of a worker that has threads for an application that blocks.
//!
//! The thread of the worker keeps the sockets and never runs Python. It passes a complete request
//! to the thread that was idle for the shortest time, whose memory is likely to be in the CPU
//! caches, and is woken with each part of the response. One thread processes all parts of a
//! response, because an application may rely on it; it waits while too much of it is not sent.

mod app_thread;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use jissoku_http::Method;
use jissoku_http::framing::Body as Framing;
use jissoku_os::driver::{ConnectionId, NewConnection, Waker};
use jissoku_server::{
    AbandonReason, Background, EventLoop, Handler, LogRecord, ParentPipe, Progress, RequestHead,
    Response as Output, Service, WorkerInfo,
};
use pyo3::prelude::*;

use crate::body::Body;
use crate::body_writer::WriteOutcome;
use crate::environ::ServerInfo;
use crate::thread_link::{Event, Message, Part, Task, ThreadOutput, Written};
use app_thread::AppThread;

/// A WSGI application whose requests are processed by threads.
#[derive(Debug)]
pub(crate) struct ThreadedService {
    pub(crate) app: Py<PyAny>,
    pub(crate) server: ServerInfo,
    /// At least one.
    pub(crate) threads: usize,
}

impl Service for ThreadedService {
    type Handler = ThreadedHandler;

    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<ThreadedHandler> {
        let waker = Waker::new()?;
        let (events_sender, events) = mpsc::channel();
        let start = |index| {
            let app = Python::attach(|python| self.app.clone_ref(python));
            AppThread::start(index, (app, &self.server), (events_sender.clone(), waker.clone()))
                .map_err(|error| io::Error::other(error.to_string()))
        };
        let threads = (0..self.threads).map(start).collect::<io::Result<Vec<_>>>()?;
        Ok(ThreadedHandler {
            idle: (0..threads.len()).rev().collect(),
            threads,
            waiting: VecDeque::new(),
            running: HashMap::new(),
            ready: VecDeque::new(),
            events,
            waker,
            last_request: 0,
            body_memory_max: self.server.body_memory_max,
            parent: worker.parent.clone(),
        })
    }
}

/// Passes the requests of one worker to threads.
#[derive(Debug)]
pub(crate) struct ThreadedHandler {
    threads: Vec<AppThread>,
    /// Indices of threads without a request; the last one was used last.
    idle: Vec<usize>,
    /// Requests for which no thread was idle.
    waiting: VecDeque<Box<Task>>,
    /// Requests whose connections are open, by their number.
    running: HashMap<u64, Running>,
    /// Connections with a part of a response to write.
    ready: VecDeque<ConnectionId>,
    events: Receiver<Event>,
    waker: Waker,
    last_request: u64,
    /// As in [`ServerInfo`].
    body_memory_max: u64,
    parent: Option<ParentPipe>,
}

#[derive(Debug)]
struct Running {
    connection: ConnectionId,
    /// The thread, until its last part.
    thread: Option<usize>,
    /// The client has shut down its side. It may still read.
    is_client_shut: bool,
    /// Interim responses that are not written yet.
    hints: Vec<u8>,
    /// Parts that are not written yet, as one.
    part: Option<Part>,
}

/// A connection: its listener and the address of its client.
#[derive(Debug)]
pub(crate) struct Connection {
    id: ConnectionId,
    listener: usize,
    address: Option<SocketAddr>,
}

/// A request until its response is complete.
#[derive(Debug)]
pub(crate) struct Request {
    /// Its number, for the thread.
    number: u64,
    /// For a thread, as long as its body is being received.
    task: Option<Box<Task>>,
    /// What was written, and is not known to be sent.
    in_flight: Written,
}

impl ThreadedHandler {
    fn submit(&mut self, task: Box<Task>) {
        match self.idle.pop() {
            Some(thread) => {
                if let Some(running) = self.running.get_mut(&task.request) {
                    running.thread = Some(thread);
                }
                self.send(thread, Message::Call(task));
            }
            None => self.waiting.push_back(task),
        }
    }

    fn send(&self, thread: usize, message: Message) {
        if let Some(thread) = self.threads.get(thread) {
            thread.send(message);
        }
    }

    fn on_event(&mut self, Event { thread, request, output }: Event) {
        let part = match output {
            ThreadOutput::Part(part) => part,
            ThreadOutput::Hint(lines) => {
                if let Some(running) = self.running.get_mut(&request) {
                    running.hints.extend_from_slice(&lines);
                    self.ready.push_back(running.connection);
                }
                return;
            }
            ThreadOutput::Nothing => {
                // Most clients shut down their side only when they leave.
                if self.running.get(&request).is_none_or(|running| running.is_client_shut) {
                    self.send(thread, Message::Cancel);
                }
                return;
            }
        };
        let is_last = part.outcome != WriteOutcome::More;
        match self.running.get_mut(&request) {
            Some(running) => {
                running.thread = (!is_last).then_some(thread);
                match &mut running.part {
                    Some(unwritten) => unwritten.merge(part),
                    unwritten => *unwritten = Some(part),
                }
                self.ready.push_back(running.connection);
            }
            // The client has disconnected.
            None if !is_last => self.send(thread, Message::Cancel),
            None => {}
        }
        if is_last {
            self.idle.push(thread);
            // Requests whose clients have disconnected are not processed.
            while let Some(task) = self.waiting.pop_front() {
                if self.running.contains_key(&task.request) {
                    self.submit(task);
                    break;
                }
            }
        }
    }

    fn write(
        &mut self,
        request: &mut Request,
        mut part: Part,
        writer: &mut Output<'_>,
    ) -> Progress {
        request.in_flight.add(part.written());
        writer.output().append_all(&mut part.output);
        writer.set_sent(part.status, part.body_size);
        match part.outcome {
            WriteOutcome::More => return Progress::Sent,
            WriteOutcome::Done { persists: true } => writer.keep_after(),
            WriteOutcome::Done { persists: false } | WriteOutcome::Truncated => {
                writer.close_after();
            }
        }
        writer.record_times(part.times);
        self.running.remove(&request.number);
        Progress::Complete
    }
}

impl Handler for ThreadedHandler {
    type Connection = Connection;
    type Request = Request;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> Connection {
        Connection { id: opened.id, listener: opened.listener, address: opened.peer() }
    }

    fn on_head(&mut self, connection: &mut Connection, request: &RequestHead<'_>) -> Request {
        let RequestHead { head, bytes, identity, request_id, .. } = *request;
        self.last_request += 1;
        let task = Task {
            request: self.last_request,
            head: *head,
            bytes: bytes.get(..head.size as usize).unwrap_or(bytes).into(),
            client: (connection.listener, connection.address),
            identity: identity.map(|identity| Box::new(identity.into())),
            body: (head.body != Framing::Empty).then(Body::default),
            is_head: head.method == Method::Head,
            persists: false,
            received_ns: request.now_ns,
            request_id: request_id.cloned(),
        };
        let task = Some(Box::new(task));
        Request { number: self.last_request, task, in_flight: Written::default() }
    }

    fn on_body(&mut self, request: &mut Request, part: &[u8]) {
        if let Some(task) = &mut request.task
            && let Some(body) = &mut task.body
        {
            body.push(part, self.body_memory_max);
        }
    }

    fn on_hangup(&mut self, _connection: &mut Connection, request: &mut Request) {
        if let Some(running) = self.running.get_mut(&request.number) {
            running.is_client_shut = true;
        }
    }

    fn respond(
        &mut self,
        connection: &mut Connection,
        request: &mut Request,
        writer: &mut Output<'_>,
    ) -> Progress {
        if let Some(mut task) = request.task.take() {
            task.persists = writer.keeps_alive();
            task.received_ns = writer.received_ns();
            let running = Running {
                connection: connection.id,
                thread: None,
                is_client_shut: false,
                hints: Vec::new(),
                part: None,
            };
            self.running.insert(request.number, running);
            self.submit(task);
            return Progress::Pending;
        }
        let Some(running) = self.running.get_mut(&request.number) else {
            return Progress::Pending;
        };
        writer.append(&std::mem::take(&mut running.hints));
        let (thread, part) = (running.thread, running.part.take());
        if writer.unsent() == 0 {
            let sent = std::mem::take(&mut request.in_flight);
            if let Some(thread) = thread.filter(|_| sent.parts > 0) {
                self.send(thread, Message::Sent(sent));
            }
        }
        match part {
            Some(part) => self.write(request, part, writer),
            None if request.in_flight.parts > 0 => Progress::Sent,
            None => Progress::Pending,
        }
    }

    fn on_abandon(
        &mut self,
        _connection: &mut Connection,
        request: Request,
        _reason: AbandonReason,
        _log: &mut LogRecord<'_>,
    ) {
        let running = self.running.remove(&request.number);
        if let Some(thread) = running.and_then(|running| running.thread) {
            self.send(thread, Message::Cancel);
        }
    }

    fn event_loop(&mut self) -> Option<&mut impl EventLoop> {
        Some(self)
    }
}

impl EventLoop for ThreadedHandler {
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.as_fd())
    }

    fn on_watched(&mut self) {
        self.waker.take();
        while let Ok(event) = self.events.try_recv() {
            self.on_event(event);
        }
    }
}

impl Background for ThreadedHandler {
    fn next_ready(&mut self, _now_ns: u64) -> Option<ConnectionId> {
        self.ready.pop_front()
    }
}

impl Drop for ThreadedHandler {
    fn drop(&mut self) {
        let have_ended = AppThread::end_all(self.threads.drain(..));
        if let Some(parent) = self.parent.as_ref().filter(|_| !have_ended) {
            parent.report_overdue();
        }
    }
}
