//! The handler of a worker that serves an ASGI application.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use jissoku_http::Method;
use jissoku_http::framing::Body;
use jissoku_os::clock;
use jissoku_os::driver::{ConnectionId, NewConnection};
use jissoku_server::{
    Background, BodyFlow, DynamicResponse, EventLoop, ForeignLoop, Handler, Iteration, ParentPipe,
    Progress, RequestHead, Response as Output, Service, WorkerInfo,
};
use pyo3::prelude::*;

use super::event_loop::{AsyncioLoop, Signals};
use super::handshake::Upgrade;
use super::http_cycle::{Callables, HttpCycle};
use super::scope::{self, Scopes};
use super::shared::{Shared, resolve};
use super::tasks::Tasks;
use super::unchanged::Scope;
use super::websocket::WebSocket;
use crate::environ::ServerInfo;
use crate::interpreter;
use crate::request_name::RequestNames;
use crate::response_head::Expectation;

/// How often a shutdown checks whether tasks have ended.
const SHUTDOWN_CHECK_NS: u64 = 50_000_000;

/// Calls the application for the requests of one worker.
#[derive(Debug)]
pub(crate) struct AsgiHandler {
    /// A coroutine function that calls the application.
    app: Py<PyAny>,
    shared: Arc<Shared>,
    names: RequestNames,
    scopes: Scopes,
    tasks: Tasks,
    signals: Arc<Signals>,
    event_loop: Arc<LoopOwner>,
    /// For the next request.
    unused: Option<Callables>,
    is_shutting_down: bool,
}

/// Ends the event loop when dropped, also of a worker that never ran.
#[derive(Debug)]
struct LoopOwner(AsyncioLoop, Option<ParentPipe>);

impl Drop for LoopOwner {
    fn drop(&mut self) {
        Python::attach(|python| self.0.finish(python, self.1.clone()));
    }
}

impl AsgiHandler {
    pub(super) fn new(
        python: Python<'_>,
        app: &Bound<'_, PyAny>,
        server: &ServerInfo,
        worker: &WorkerInfo,
    ) -> PyResult<Self> {
        let event_loop = AsyncioLoop::start(python, app, server.asgi.lifespan)?;
        let event_loop = Arc::new(LoopOwner(event_loop, worker.parent.clone()));
        let state = event_loop.0.state(python)?;
        Ok(Self {
            app: event_loop.0.inside_of_task(app)?.unbind(),
            shared: Arc::new(Shared::new(python, event_loop.0.bind(python), server.asgi)?),
            names: RequestNames::default(),
            scopes: Scopes::new(python, server, &state)?,
            tasks: Tasks::new(python, &event_loop.0)?,
            signals: Arc::clone(&event_loop.0.signals),
            event_loop,
            unused: None,
            is_shutting_down: false,
        })
    }

    /// Calls the application, whose task runs until it has to wait.
    fn call(
        &self,
        scope: &PyResult<Scope>,
        (cycle, receive, send): (&Bound<'_, PyAny>, &Py<PyAny>, &Py<PyAny>),
        end_task: impl FnOnce(Option<&PyErr>),
    ) {
        let python = cycle.py();
        let started = || -> PyResult<Started> {
            let scope = scope.as_ref().map_err(|error| error.clone_ref(python))?;
            let coroutine = self.app.bind(python).call1((&scope.dict, receive, send))?;
            let (task, is_done) = self.tasks.start(coroutine)?;
            if is_done {
                let exception = task.call_method0(pyo3::intern!(python, "exception"))?;
                let error = (!exception.is_none()).then(|| PyErr::from_value(exception));
                return Ok(Started::Ended(error));
            }
            self.tasks.running.bind(python).add(&task)?;
            let discard = self.tasks.running.bind(python).getattr("discard")?;
            task.call_method1("add_done_callback", (discard,))?;
            let on_done = cycle.getattr(pyo3::intern!(python, "on_task_done"))?;
            self.shared.count_running(1);
            task.call_method1(pyo3::intern!(python, "add_done_callback"), (on_done,))?;
            Ok(Started::Running)
        };
        match started() {
            Ok(Started::Running) => {}
            Ok(Started::Ended(error)) => end_task(error.as_ref()),
            Err(error) => end_task(Some(&error)),
        }
    }
}

/// The state of a task after its first step.
enum Started {
    Running,
    Ended(Option<PyErr>),
}

/// A connection: its listener and the address of its client.
#[derive(Debug)]
pub(crate) struct Connection {
    id: ConnectionId,
    listener: usize,
    address: Option<SocketAddr>,
    /// The address as a tuple, from the first request on.
    client: Option<Py<PyAny>>,
}

/// A request until its response is complete.
#[derive(Debug)]
pub(crate) struct Request {
    /// Taken when the application is called.
    scope: RefCell<Option<PyResult<Scope>>>,
    cycle: Protocol,
}

/// The object whose methods are `receive` and `send` of a request.
#[derive(Debug)]
enum Protocol {
    Http(Callables),
    WebSocket(Py<WebSocket>),
    /// A handshake that cannot be completed, with the status of its response.
    Refused(u16),
    /// The response is complete, and the object serves another request.
    Ended,
}

impl Drop for Request {
    fn drop(&mut self) {
        notify(self, HttpCycle::close, WebSocket::close);
    }
}

impl Handler for AsgiHandler {
    type Connection = Connection;
    type Request = Request;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> Connection {
        let address = opened.peer();
        Connection { id: opened.id, listener: opened.listener, address, client: None }
    }

    fn on_head(&mut self, connection: &mut Connection, request: &RequestHead<'_>) -> Request {
        let RequestHead { head, bytes, now_ns, identity, request_id } = *request;
        self.shared.set_now(now_ns);
        let expectation = Expectation {
            version: head.version,
            is_head: head.method == Method::Head,
            persists: head.keeps_alive,
            request_id: request_id.cloned(),
            name: self.names.name(head, bytes),
        };
        let body = (head.body != Body::Empty, head.expects_continue);
        Python::attach(|python| {
            if connection.client.is_none() {
                connection.client = scope::client(python, connection.address).ok();
            }
            let none = python.None();
            let client = connection.client.as_ref().unwrap_or(&none);
            let place = (connection.listener, client, identity);
            let (upgrade, scope) = match self.scopes.build(python, (head, bytes), place) {
                Ok((upgrade, scope)) => (upgrade, Ok(scope)),
                Err(error) => (Upgrade::None, Err(error)),
            };
            let (shared, id) = (&self.shared, connection.id);
            let cycle = match upgrade {
                Upgrade::None => {
                    let callables = if let Some(unused) = self.unused.take() {
                        Ok(unused.restart(python, id, expectation, body))
                    } else {
                        let cycle = HttpCycle::new(shared, id, expectation, body);
                        Callables::new(python, cycle)
                    };
                    callables.map(Protocol::Http)
                }
                Upgrade::WebSocket(handshake) => {
                    let socket = WebSocket::new((shared, id), handshake, expectation, now_ns);
                    Py::new(python, socket).map(Protocol::WebSocket)
                }
                Upgrade::Invalid(status) => Ok(Protocol::Refused(status)),
            };
            // Objects can be created unless memory is exhausted.
            let cycle = cycle.unwrap_or(Protocol::Refused(503));
            Request { scope: RefCell::new(Some(scope)), cycle }
        })
    }

    fn body_flow(&self, request: &Request) -> BodyFlow {
        match &request.cycle {
            Protocol::Http(callables) => {
                Python::attach(|python| callables.cycle.borrow(python).body_flow())
            }
            Protocol::WebSocket(socket) => {
                Python::attach(|python| socket.borrow(python).body_flow())
            }
            Protocol::Refused(_) | Protocol::Ended => BodyFlow::Ignored,
        }
    }

    fn on_body(&mut self, request: &mut Request, part: &[u8]) {
        notify(request, |cycle| cycle.add_body(part), |socket| socket.add_bytes(part));
    }

    fn on_end(&mut self, request: &mut Request) {
        notify(request, HttpCycle::end_body, WebSocket::hang_up);
    }

    fn on_hangup(&mut self, _connection: &mut Connection, request: &mut Request) {
        notify(request, HttpCycle::hang_up, WebSocket::hang_up);
    }

    fn respond(
        &mut self,
        _connection: &mut Connection,
        request: &mut Request,
        writer: &mut Output<'_>,
    ) -> Progress {
        Python::attach(|python| {
            let (progress, waiting) = match &request.cycle {
                Protocol::Http(callables) => {
                    let cycle = callables.cycle.bind(python);
                    cycle.borrow_mut().begin_call(writer.keeps_alive());
                    if let Some(scope) = request.scope.take() {
                        if writer.is_timed() {
                            cycle.borrow_mut().start_clock(writer.received_ns());
                        }
                        let end_task = |error: Option<&PyErr>| HttpCycle::end_task(cycle, error);
                        let Callables { receive, send, .. } = callables;
                        self.call(&scope, (cycle.as_any(), receive, send), end_task);
                        if let Ok(scope) = scope {
                            self.scopes.take_back(python, scope);
                        }
                    }
                    let flushed = cycle.borrow_mut().flush(writer);
                    if flushed.0 == Progress::Complete
                        && callables.are_unused(python)
                        && let Protocol::Http(callables) =
                            std::mem::replace(&mut request.cycle, Protocol::Ended)
                    {
                        self.unused = Some(callables);
                    }
                    flushed
                }
                Protocol::WebSocket(socket) => {
                    let socket = socket.bind(python);
                    socket.borrow_mut().begin_call();
                    if let Some(scope) = request.scope.take() {
                        let end_task = |error: Option<&PyErr>| WebSocket::end_task(socket, error);
                        let socket = socket.as_any();
                        let method = |name| socket.getattr(name).map(Bound::unbind);
                        let methods = method(pyo3::intern!(python, "receive"))
                            .and_then(|it| Ok((it, method(pyo3::intern!(python, "send"))?)));
                        match methods {
                            Ok((receive, send)) => {
                                self.call(&scope, (socket, &receive, &send), end_task);
                            }
                            Err(error) => end_task(Some(&error)),
                        }
                    }
                    socket.borrow_mut().flush(writer)
                }
                Protocol::Refused(status) => {
                    writer.close_after();
                    let fields = "Sec-WebSocket-Version: 13\r\nUpgrade: websocket\r\n";
                    let text = b"The WebSocket handshake is invalid (RFC 6455 section 4.2.1).\n";
                    writer.send_dynamic(&DynamicResponse::text(*status, fields, text));
                    return Progress::Complete;
                }
                Protocol::Ended => return Progress::Complete,
            };
            resolve(python, waiting);
            progress
        })
    }

    fn event_loop(&mut self) -> Option<&mut impl EventLoop> {
        Some(self)
    }
}

impl EventLoop for AsgiHandler {
    fn foreign_loop(&self) -> Option<ForeignLoop> {
        let event_loop = Arc::clone(&self.event_loop);
        Some(Box::new(move |iteration: Iteration| {
            Python::attach(|python| event_loop.0.run(python, iteration));
        }))
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        Some(self.event_loop.0.as_fd())
    }

    fn on_watched(&mut self) {
        self.signals.set_events();
    }

    fn wait(&self, wait: &mut dyn FnMut()) {
        // Other threads of the application run while this one waits.
        interpreter::release_while(wait);
    }
}

impl Background for AsgiHandler {
    fn on_shutdown(&mut self) {
        self.is_shutting_down = true;
        self.shared.set_shutting_down();
    }

    fn is_busy(&self) -> bool {
        self.shared.running() > 0
    }

    fn deadline_ns(&self) -> Option<u64> {
        if self.shared.has_ready() {
            return Some(0);
        }
        let check = || clock::monotonic_ns() + SHUTDOWN_CHECK_NS;
        let check = (self.is_shutting_down && self.is_busy()).then(check);
        self.signals.deadline_ns().into_iter().chain(check).min()
    }

    fn next_ready(&mut self, now_ns: u64) -> Option<ConnectionId> {
        self.shared.set_now(now_ns);
        self.shared.next_ready()
    }
}

/// An ASGI application.
#[derive(Debug)]
pub(crate) struct AsgiService {
    app: Py<PyAny>,
    server: ServerInfo,
}

impl AsgiService {
    pub(crate) fn new(app: &Bound<'_, PyAny>, server: ServerInfo) -> Self {
        Self { app: app.clone().unbind(), server }
    }
}

impl Service for AsgiService {
    type Handler = AsgiHandler;

    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<AsgiHandler> {
        Python::attach(|python| {
            AsgiHandler::new(python, self.app.bind(python), &self.server, worker)
                .map_err(|error| io::Error::other(error.value(python).to_string()))
        })
    }

    fn run_worker(&self, worker: &mut dyn FnMut()) {
        // Attached for as long as the worker lives, so that no request has to attach.
        Python::attach(|_| worker());
    }
}

/// Changes a request, and resolves the futures that wait for the change.
fn notify(
    request: &Request,
    change_http: impl FnOnce(&mut HttpCycle) -> Vec<Py<PyAny>>,
    change_websocket: impl FnOnce(&mut WebSocket) -> Vec<Py<PyAny>>,
) {
    Python::attach(|python| {
        let waiting = match &request.cycle {
            Protocol::Http(callables) => change_http(&mut callables.cycle.borrow_mut(python)),
            Protocol::WebSocket(socket) => change_websocket(&mut socket.borrow_mut(python)),
            Protocol::Refused(_) | Protocol::Ended => return,
        };
        resolve(python, waiting);
    });
}
