//! A `WebSocket` as an application sees it: `receive` and `send` (ASGI, "WebSocket").

use std::sync::Arc;

use jissoku_os::driver::{ConnectionId, SendBuffer};
use jissoku_server::{BodyFlow, Progress, Response as Output};
use pyo3::prelude::*;

use super::awaitable::{Poll, Source, Waiting};
use super::failure::code;
use super::handshake::Handshake;
use super::http_cycle::{error_of, is_disconnect};
use super::message::{ClientDisconnected, Message};
use super::session::{BUFFER_SIZE_MAX, Session, State};
use super::shared::{Shared, resolve};
use crate::response_head::Expectation;

/// A `WebSocket`.
#[pyclass(module = "jissoku")]
#[derive(Debug)]
pub(super) struct WebSocket {
    shared: Arc<Shared>,
    id: ConnectionId,
    request: Expectation,
    session: Session,
    /// Futures that calls of `receive` await.
    receivers: Vec<Py<PyAny>>,
    /// Futures that calls of `send` await.
    senders: Vec<Py<PyAny>>,
    /// Whether the worker is calling the application; it sends the output after the call.
    is_inside: bool,
    is_queued: bool,
}

impl WebSocket {
    pub(super) fn new(
        (shared, id): (&Arc<Shared>, ConnectionId),
        handshake: Handshake,
        request: Expectation,
        now_ns: u64,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
            request,
            session: Session::new(shared, handshake, now_ns),
            receivers: Vec::new(),
            senders: Vec::new(),
            is_inside: false,
            is_queued: false,
        }
    }

    pub(super) const fn body_flow(&self) -> BodyFlow {
        if self.session.is_held() { BodyFlow::Hold } else { BodyFlow::Receive }
    }

    /// Processes bytes of the client.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) -> Vec<Py<PyAny>> {
        self.session.add_bytes(bytes);
        std::mem::take(&mut self.receivers)
    }

    /// The client has shut down its side or disconnected.
    pub(super) fn hang_up(&mut self) -> Vec<Py<PyAny>> {
        self.session.end(code::ABNORMAL, "");
        self.wake();
        std::mem::take(&mut self.receivers)
    }

    /// The connection is closed.
    pub(super) fn close(&mut self) -> Vec<Py<PyAny>> {
        self.session.end(code::ABNORMAL, "");
        self.session.state = State::Closed;
        self.session.output = SendBuffer::default();
        let mut waiting = std::mem::take(&mut self.receivers);
        waiting.append(&mut self.senders);
        waiting
    }

    pub(super) const fn begin_call(&mut self) {
        self.is_inside = true;
    }

    /// Passes the output to the driver, and returns the progress and the futures to resolve.
    pub(super) fn flush(&mut self, writer: &mut Output<'_>) -> (Progress, Vec<Py<PyAny>>) {
        (self.is_inside, self.is_queued) = (false, false);
        let session = &mut self.session;
        session.keep_alive(writer.now_ns());
        session.in_flight = writer.unsent() + session.output.size();
        writer.output().append_all(&mut session.output);
        if session.status == 101 {
            writer.upgrade();
        }
        if session.status != 0 {
            writer.set_sent(session.status, session.body_size);
        }
        let mut waiting = Vec::new();
        if session.disconnect.is_some() {
            waiting.append(&mut self.receivers);
        }
        if matches!(session.state, State::Done | State::Closed) {
            writer.close_after();
            waiting.append(&mut self.senders);
            return (Progress::Complete, waiting);
        }
        if session.in_flight > BUFFER_SIZE_MAX {
            return (Progress::Sent, waiting);
        }
        waiting.append(&mut self.senders);
        (Progress::Pending, waiting)
    }

    /// Wakes the worker to send output or to receive.
    fn wake(&mut self) {
        if !self.is_inside && !std::mem::replace(&mut self.is_queued, true) {
            self.shared.wake(self.id);
        }
    }

    /// The task of the application has ended with `error` or without one.
    pub(super) fn end_task(this: &Bound<'_, Self>, error: Option<&PyErr>) {
        let python = this.py();
        let mut socket = this.borrow_mut();
        let state = socket.session.state;
        let is_gone = matches!(state, State::Done | State::Closed | State::Closing);
        socket.session.end_application(error.is_some());
        socket.wake();
        drop(socket);
        if let Some(error) = error
            && !(is_gone && is_disconnect(python, error))
        {
            let request = this.borrow().request.clone();
            request.report(python, error, "in the application");
        }
    }
}

#[pymethods]
impl WebSocket {
    fn receive(this: Py<Self>) -> Waiting {
        Waiting::new(Receiving(this))
    }

    #[pyo3(signature = (message, /))]
    fn send(this: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let message = Message::new(message)?;
        let mut socket = this.borrow_mut();
        socket.session.write(this.py(), &message)?;
        socket.wake();
        if socket.session.is_full() {
            drop(socket);
            let waiting = Waiting::new(Draining(this.clone().unbind()));
            return Ok(Py::new(this.py(), waiting)?.into_any());
        }
        let has_ended = socket.session.disconnect.is_some();
        let receivers = if has_ended { std::mem::take(&mut socket.receivers) } else { Vec::new() };
        let done = socket.shared.done.clone_ref(this.py()).into_any();
        drop(socket);
        resolve(this.py(), receivers);
        Ok(done)
    }

    /// The done callback of the task.
    #[pyo3(signature = (task, /))]
    fn on_task_done(this: &Bound<'_, Self>, task: &Bound<'_, PyAny>) {
        this.borrow().shared.count_running(-1);
        let error = error_of(task);
        Self::end_task(this, error.as_ref());
    }
}

struct Receiving(Py<WebSocket>);

impl Source for Receiving {
    fn poll(&self, python: Python<'_>) -> PyResult<Poll> {
        let mut socket = self.0.borrow_mut(python);
        let was_held = socket.session.is_held();
        let was_open = socket.session.state == State::Open;
        if let Some(message) = socket.session.take_message(python)? {
            let has_ended = was_open && socket.session.state == State::Done;
            if was_held || has_ended {
                socket.wake();
            }
            return Ok(Poll::Ready(message.into_any().unbind()));
        }
        let future = socket.shared.create_future(python)?;
        socket.receivers.push(future.clone().unbind());
        Ok(Poll::Pending(future.unbind()))
    }

    fn forget(&self, python: Python<'_>, future: &Py<PyAny>) {
        // Without a borrow it is being closed, which has taken the futures.
        if let Ok(mut socket) = self.0.try_borrow_mut(python) {
            socket.receivers.retain(|other| !other.is(future));
        }
    }
}

struct Draining(Py<WebSocket>);

impl Source for Draining {
    fn poll(&self, python: Python<'_>) -> PyResult<Poll> {
        let mut socket = self.0.borrow_mut(python);
        if matches!(socket.session.state, State::Done | State::Closed) {
            return Err(ClientDisconnected::new_err("the client has disconnected"));
        }
        if !socket.session.is_full() {
            return Ok(Poll::Ready(python.None()));
        }
        let future = socket.shared.create_future(python)?;
        socket.senders.push(future.clone().unbind());
        Ok(Poll::Pending(future.unbind()))
    }

    fn forget(&self, python: Python<'_>, future: &Py<PyAny>) {
        // Without a borrow it is being closed, which has taken the futures.
        if let Ok(mut socket) = self.0.try_borrow_mut(python) {
            socket.senders.retain(|other| !other.is(future));
        }
    }
}
