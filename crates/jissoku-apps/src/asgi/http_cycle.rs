//! A request and its response as an application sees them: `receive` and `send` (ASGI, "HTTP &
//! WebSocket Protocol").

use std::sync::Arc;

use jissoku_os::clock;
use jissoku_os::driver::{ConnectionId, SendBuffer};
use jissoku_server::{AppClock, BodyFlow, Progress, Response as Output};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::awaitable::{Pause, Poll, Source, Waiting};
use super::message::{ClientDisconnected, Message, unexpected};
use super::response::{Response, Stage};
use super::shared::{Shared, resolve};
use crate::interpreter::references;
use crate::response_head::Expectation;

/// Bytes of a body that are received before the application calls `receive`, and bytes of a
/// response that a client has not read before `send` waits.
const BUFFER_SIZE_MAX: usize = 32 * 1024;

/// Where a message of an application has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    ToClient,
    /// The client has disconnected.
    Dropped,
}

/// A request and its response.
#[pyclass(module = "jissoku")]
#[derive(Debug)]
pub(super) struct HttpCycle {
    shared: Arc<Shared>,
    id: ConnectionId,
    body: RequestBody,
    /// Futures that calls of `receive` await.
    receivers: Vec<Py<PyAny>>,
    /// Futures that calls of `send` await.
    senders: Vec<Py<PyAny>>,
    response: Response,
    /// If times are recorded.
    clock: Option<AppClock>,
    /// Whether the worker is calling the application; it sends the output after the call.
    is_inside: bool,
    is_queued: bool,
    /// Messages since the client has disconnected.
    dropped: u32,
    pub(super) has_ended: bool,
}

#[derive(Debug)]
struct RequestBody {
    received: Vec<u8>,
    stage: BodyStage,
    /// A `100 Continue` is to be sent when the application calls `receive`.
    is_on_demand: bool,
    peer: Peer,
    /// The application has received `http.disconnect`.
    is_disconnect_seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyStage {
    Incomplete,
    Complete,
    /// The last part was passed to the application.
    Taken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Connected,
    /// It has disconnected, or has shut down its side.
    Gone,
    /// The connection is closed in both directions.
    Closed,
}

impl HttpCycle {
    pub(super) fn new(
        shared: &Arc<Shared>,
        id: ConnectionId,
        request: Expectation,
        (has_body, expects_continue): (bool, bool),
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
            body: RequestBody {
                received: Vec::new(),
                stage: if has_body { BodyStage::Incomplete } else { BodyStage::Complete },
                is_on_demand: expects_continue,
                peer: Peer::Connected,
                is_disconnect_seen: false,
            },
            receivers: Vec::new(),
            senders: Vec::new(),
            response: Response::new(shared, request),
            clock: None,
            is_inside: false,
            is_queued: false,
            dropped: 0,
            has_ended: false,
        }
    }

    /// Starts another request with the same object, which is that of no other request any more.
    pub(super) fn restart(&mut self, id: ConnectionId, request: Expectation, body: (bool, bool)) {
        let shared = Arc::clone(&self.shared);
        *self = Self::new(&shared, id, request, body);
    }

    pub(super) fn body_flow(&self) -> BodyFlow {
        let RequestBody { is_on_demand, received, .. } = &self.body;
        if *is_on_demand || received.len() >= BUFFER_SIZE_MAX {
            return BodyFlow::Hold;
        }
        BodyFlow::Receive
    }

    /// A part of the request body was received.
    pub(super) fn add_body(&mut self, part: &[u8]) -> Vec<Py<PyAny>> {
        self.body.received.extend_from_slice(part);
        std::mem::take(&mut self.receivers)
    }

    pub(super) fn end_body(&mut self) -> Vec<Py<PyAny>> {
        self.body.stage = BodyStage::Complete;
        std::mem::take(&mut self.receivers)
    }

    /// The client has disconnected, or has shut down its side; it may still read.
    pub(super) fn hang_up(&mut self) -> Vec<Py<PyAny>> {
        self.body.peer = Peer::Gone;
        std::mem::take(&mut self.receivers)
    }

    /// The connection is closed, or the response is complete. Returns the futures to resolve.
    pub(super) fn close(&mut self) -> Vec<Py<PyAny>> {
        self.body.peer = Peer::Closed;
        self.response.output = SendBuffer::default();
        let mut waiting = std::mem::take(&mut self.receivers);
        waiting.append(&mut self.senders);
        waiting
    }

    /// Whether the client disconnected before its response was complete.
    fn is_abandoned(&self) -> bool {
        self.response.stage != Stage::Complete && self.body.peer != Peer::Connected
    }

    pub(super) const fn begin_call(&mut self, persists: bool) {
        self.is_inside = true;
        self.response.request.persists = persists;
    }

    /// The application is about to be called, and the times of the request are recorded.
    pub(super) fn start_clock(&mut self, received_ns: u64) {
        let mut clock = AppClock::new(received_ns);
        clock.enter(clock::monotonic_ns());
        self.clock = Some(clock);
    }

    /// The application begins to wait until its client has read, or continues.
    fn mark(&mut self, change: impl FnOnce(&mut AppClock, u64)) {
        if let Some(clock) = &mut self.clock {
            change(clock, clock::monotonic_ns());
        }
    }

    /// Passes the output to the driver, and returns the progress and the futures to resolve.
    pub(super) fn flush(&mut self, writer: &mut Output<'_>) -> (Progress, Vec<Py<PyAny>>) {
        (self.is_inside, self.is_queued) = (false, false);
        let response = &mut self.response;
        response.in_flight = writer.unsent() + response.output.size();
        writer.output().append_all(&mut response.output);
        if response.status != 0 {
            writer.set_sent(response.status, response.body_size);
        }
        if response.has_ended() {
            if response.stage == Stage::Truncated || !response.persists {
                writer.close_after();
            } else {
                writer.keep_after();
            }
            self.shared.return_buffer(std::mem::take(&mut self.response.output));
            if self.senders.is_empty() {
                self.mark(AppClock::leave);
            }
            if let Some(clock) = &self.clock {
                writer.record_times(clock.times());
            }
            return (Progress::Complete, Vec::new());
        }
        if response.in_flight > BUFFER_SIZE_MAX {
            return (Progress::Sent, Vec::new());
        }
        if !self.senders.is_empty() {
            self.mark(AppClock::enter);
        }
        (Progress::Pending, std::mem::take(&mut self.senders))
    }

    /// Wakes the worker to send output or to receive.
    fn wake(&mut self) {
        if !self.is_inside && !std::mem::replace(&mut self.is_queued, true) {
            self.shared.wake(self.id);
        }
    }

    fn is_full(&self) -> bool {
        let Response { output, in_flight, stage, .. } = &self.response;
        *stage != Stage::Complete
            && self.body.peer != Peer::Closed
            && output.size() + in_flight > BUFFER_SIZE_MAX
    }

    /// The next message for the application, if there is one.
    fn take_message<'py>(&mut self, python: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let body = &mut self.body;
        let message = PyDict::new(python);
        let kind = pyo3::intern!(python, "type");
        let is_complete = body.stage == BodyStage::Complete;
        let has_part = !body.received.is_empty() || is_complete;
        let has_response = self.response.stage == Stage::Complete;
        if has_part && !has_response && body.peer != Peer::Closed {
            let part = std::mem::take(&mut body.received);
            let was_held = part.len() >= BUFFER_SIZE_MAX;
            if is_complete {
                body.stage = BodyStage::Taken;
            }
            message.set_item(kind, pyo3::intern!(python, "http.request"))?;
            message.set_item(pyo3::intern!(python, "body"), PyBytes::new(python, &part))?;
            message.set_item(pyo3::intern!(python, "more_body"), !is_complete)?;
            if was_held {
                self.wake();
            }
            return Ok(Some(message));
        }
        if has_response || body.peer != Peer::Connected {
            body.is_disconnect_seen = true;
            message.set_item(kind, pyo3::intern!(python, "http.disconnect"))?;
            return Ok(Some(message));
        }
        if std::mem::take(&mut body.is_on_demand) {
            self.wake();
        }
        Ok(None)
    }

    /// Processes a message of the application.
    fn write(&mut self, message: &Message<'_, '_>) -> PyResult<Sent> {
        if self.response.has_ended() {
            return Err(unexpected(&message.kind()?, "after the response was complete"));
        }
        let RequestBody { peer, is_disconnect_seen, .. } = self.body;
        if peer == Peer::Closed || (peer == Peer::Gone && is_disconnect_seen) {
            self.dropped += 1;
            return self.shared.drop_message(self.dropped).map(|()| Sent::Dropped);
        }
        let written = self.response.write(message);
        self.wake();
        written.map(|()| Sent::ToClient)
    }

    /// The task of the application has ended with `error` or without one.
    pub(super) fn end_task(this: &Bound<'_, Self>, error: Option<&PyErr>) {
        let python = this.py();
        let mut cycle = this.borrow_mut();
        if std::mem::replace(&mut cycle.has_ended, true) {
            return;
        }
        let is_abandoned = cycle.is_abandoned();
        let is_incomplete = !cycle.response.has_ended();
        let is_missing = is_incomplete && !is_abandoned && error.is_none();
        let missing = is_missing.then(|| PyRuntimeError::new_err(cycle.response.missing()));
        let is_reported = error.is_some() || is_missing;
        let request = is_reported.then(|| cycle.response.request.clone());
        cycle.response.fail();
        cycle.wake();
        drop(cycle);
        let Some((error, request)) = error.or(missing.as_ref()).zip(request) else { return };
        // Otherwise the application ended because of the disconnect.
        if !(is_abandoned && is_disconnect(python, error)) {
            request.report(python, error, "in the application");
        }
    }
}

#[pymethods]
impl HttpCycle {
    fn receive(this: Py<Self>) -> Waiting {
        Waiting::new(Receiving(this))
    }

    #[pyo3(signature = (message, /))]
    fn send(this: &Bound<'_, Self>, message: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let message = Message::new(message)?;
        let mut cycle = this.borrow_mut();
        if cycle.write(&message)? == Sent::Dropped {
            // An application that sends in a loop must not keep the others from running.
            let waiting = Waiting::new(Pause::default());
            return Ok(Py::new(this.py(), waiting)?.into_any());
        }
        if cycle.is_full() {
            drop(cycle);
            let waiting = Waiting::new(Draining(this.clone().unbind()));
            return Ok(Py::new(this.py(), waiting)?.into_any());
        }
        let receivers = if cycle.response.stage == Stage::Complete {
            std::mem::take(&mut cycle.receivers)
        } else {
            Vec::new()
        };
        let done = cycle.shared.done.clone_ref(this.py()).into_any();
        drop(cycle);
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

struct Receiving(Py<HttpCycle>);

impl Source for Receiving {
    fn poll(&self, python: Python<'_>) -> PyResult<Poll> {
        let mut cycle = self.0.borrow_mut(python);
        if let Some(message) = cycle.take_message(python)? {
            return Ok(Poll::Ready(message.into_any().unbind()));
        }
        let future = cycle.shared.create_future(python)?;
        cycle.receivers.push(future.clone().unbind());
        Ok(Poll::Pending(future.unbind()))
    }

    fn forget(&self, python: Python<'_>, future: &Py<PyAny>) {
        // Without a borrow it is being closed, which has taken the futures.
        if let Ok(mut cycle) = self.0.try_borrow_mut(python) {
            cycle.receivers.retain(|other| !other.is(future));
        }
    }
}

struct Draining(Py<HttpCycle>);

impl Source for Draining {
    fn poll(&self, python: Python<'_>) -> PyResult<Poll> {
        let mut cycle = self.0.borrow_mut(python);
        if cycle.is_abandoned() && cycle.body.peer == Peer::Closed {
            return cycle.shared.drop_message(0).map(|()| Poll::Ready(python.None()));
        }
        if !cycle.is_full() {
            return Ok(Poll::Ready(python.None()));
        }
        let future = cycle.shared.create_future(python)?;
        if cycle.senders.is_empty() {
            cycle.mark(AppClock::leave);
        }
        cycle.senders.push(future.clone().unbind());
        Ok(Poll::Pending(future.unbind()))
    }

    fn forget(&self, python: Python<'_>, future: &Py<PyAny>) {
        // Without a borrow it is being closed, which has taken the futures.
        if let Ok(mut cycle) = self.0.try_borrow_mut(python) {
            cycle.senders.retain(|other| !other.is(future));
        }
    }
}

/// The exception that a task has ended with.
pub(super) fn error_of(task: &Bound<'_, PyAny>) -> Option<PyErr> {
    match task.call_method0(pyo3::intern!(task.py(), "exception")) {
        Ok(none) if none.is_none() => None,
        Ok(exception) => Some(PyErr::from_value(exception)),
        // It was cancelled.
        Err(error) => Some(error),
    }
}

/// Whether an exception was caused by the disconnect of the client.
pub(super) fn is_disconnect(python: Python<'_>, error: &PyErr) -> bool {
    let mut error = Some(error.clone_ref(python));
    while let Some(current) = error {
        let class = current.get_type(python);
        let is_cancelled = class.name().is_ok_and(|name| name == "CancelledError");
        if is_cancelled || current.is_instance_of::<ClientDisconnected>(python) {
            return true;
        }
        let context = current.value(python).getattr("__context__");
        let context = context.ok().filter(|context| !context.is_none());
        error = current.cause(python).or_else(|| context.map(PyErr::from_value));
    }
    false
}

/// An [`HttpCycle`] with its methods for the application, reused for successive requests.
#[derive(Debug)]
pub(super) struct Callables {
    pub(super) cycle: Py<HttpCycle>,
    pub(super) receive: Py<PyAny>,
    pub(super) send: Py<PyAny>,
}

impl Callables {
    pub(super) fn new(python: Python<'_>, cycle: HttpCycle) -> PyResult<Self> {
        let cycle = Bound::new(python, cycle)?;
        let receive = cycle.getattr(pyo3::intern!(python, "receive"))?.unbind();
        let send = cycle.getattr(pyo3::intern!(python, "send"))?.unbind();
        Ok(Self { cycle: cycle.unbind(), receive, send })
    }

    pub(super) fn restart(
        self,
        python: Python<'_>,
        id: ConnectionId,
        request: Expectation,
        body: (bool, bool),
    ) -> Self {
        self.cycle.borrow_mut(python).restart(id, request, body);
        self
    }

    /// Whether they can be used for another request: the task has ended, and the application has
    /// kept no reference.
    pub(super) fn are_unused(&self, python: Python<'_>) -> bool {
        let cycle = self.cycle.bind(python);
        // References: this one, and those of the two methods.
        references(cycle) == 3
            && references(self.receive.bind(python)) == 1
            && references(self.send.bind(python)) == 1
            && cycle.borrow().has_ended
    }
}
