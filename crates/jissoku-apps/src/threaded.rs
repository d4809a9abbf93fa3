//! The handler of a worker that has threads for an application that blocks.
//!
//! The thread of the worker keeps the sockets and never runs Python. It passes a complete request
//! to the thread that was idle for the shortest time, whose memory is likely to be in the CPU
//! caches, and is woken with each part of the response. One thread processes all parts of a
//! response, because an application may rely on it; it waits while a part is being sent.

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
use jissoku_http::framing::Body;
use jissoku_os::driver::{ConnectionId, NewConnection, Waker};
use jissoku_server::{
    AppClock, Handler, LogRecord, Progress, RequestHead, Response as Output, Service, WorkerInfo,
};
use pyo3::prelude::*;

use crate::environ::ServerInfo;
use crate::response::WriteOutcome;
use app_thread::{AppThread, Event, Message, Part, Task, ThreadOutput};

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

    fn handler(self: &Arc<Self>, _worker: &WorkerInfo) -> io::Result<ThreadedHandler> {
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
}

#[derive(Debug)]
struct Running {
    connection: ConnectionId,
    /// Interim responses that are not written yet.
    hints: Vec<u8>,
    /// A part that is not written yet, with its thread.
    part: Option<(usize, Part)>,
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
    stage: Stage,
    clock: AppClock,
}

#[derive(Debug)]
enum Stage {
    /// Its body is being received.
    New(Box<Task>),
    /// A thread processes it, or it waits for one.
    Running,
    /// This thread waits until a part is sent.
    Sending(usize),
}

impl ThreadedHandler {
    fn submit(&mut self, task: Box<Task>) {
        match self.idle.pop() {
            Some(thread) => self.send(thread, Message::Call(task)),
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
        };
        let is_last = part.outcome != WriteOutcome::More;
        match self.running.get_mut(&request) {
            Some(running) => {
                running.part = Some((thread, part));
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
        (thread, mut part): (usize, Part),
        writer: &mut Output<'_>,
    ) -> Progress {
        writer.output().append_all(&mut part.output);
        writer.set_sent(part.status, part.body_size);
        request.clock.enter(part.begun_ns);
        request.clock.leave(part.ended_ns);
        match part.outcome {
            WriteOutcome::More => {
                request.stage = Stage::Sending(thread);
                return Progress::Sent;
            }
            WriteOutcome::Done { persists: true } => writer.keep_after(),
            WriteOutcome::Done { persists: false } | WriteOutcome::Truncated => {
                writer.close_after();
            }
        }
        writer.record_times(request.clock.times());
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
        let RequestHead { head, bytes, origin, .. } = *request;
        self.last_request += 1;
        let task = Task {
            request: self.last_request,
            head: *head,
            bytes: bytes.get(..head.size as usize).unwrap_or(bytes).into(),
            client: (connection.listener, connection.address),
            origin: origin.map(|origin| Box::new(origin.into())),
            body: (head.body != Body::Empty).then(Vec::new),
            is_head: head.method == Method::Head,
            persists: false,
        };
        let clock = AppClock::new(request.now_ns);
        Request { number: self.last_request, stage: Stage::New(Box::new(task)), clock }
    }

    fn on_body(&mut self, request: &mut Request, part: &[u8]) {
        if let Stage::New(task) = &mut request.stage
            && let Some(body) = &mut task.body
        {
            body.extend_from_slice(part);
        }
    }

    fn respond(
        &mut self,
        connection: &mut Connection,
        request: &mut Request,
        writer: &mut Output<'_>,
    ) -> Progress {
        match std::mem::replace(&mut request.stage, Stage::Running) {
            Stage::New(mut task) => {
                task.persists = writer.keeps_alive();
                request.clock = AppClock::new(writer.received_ns());
                let running = Running { connection: connection.id, hints: Vec::new(), part: None };
                self.running.insert(request.number, running);
                self.submit(task);
            }
            Stage::Sending(thread) => self.send(thread, Message::Continue),
            Stage::Running => {
                let Some(running) = self.running.get_mut(&request.number) else {
                    return Progress::Pending;
                };
                writer.append(&std::mem::take(&mut running.hints));
                if let Some(part) = running.part.take() {
                    return self.write(request, part, writer);
                }
            }
        }
        Progress::Pending
    }

    fn on_close(
        &mut self,
        _connection: Connection,
        request: Option<Request>,
        _log: &mut LogRecord<'_>,
    ) {
        let Some(request) = request else { return };
        let running = self.running.remove(&request.number);
        let unwritten = running.and_then(|running| running.part);
        match (request.stage, unwritten) {
            (Stage::Sending(thread), _) => self.send(thread, Message::Cancel),
            (Stage::Running, Some((thread, part))) if part.outcome == WriteOutcome::More => {
                self.send(thread, Message::Cancel);
            }
            _ => {}
        }
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.as_fd())
    }

    fn on_watched(&mut self) {
        self.waker.take();
        while let Ok(event) = self.events.try_recv() {
            self.on_event(event);
        }
    }

    fn next_ready(&mut self, _now_ns: u64) -> Option<ConnectionId> {
        self.ready.pop_front()
    }
}

impl Drop for ThreadedHandler {
    fn drop(&mut self) {
        AppThread::end_all(self.threads.drain(..));
    }
}
