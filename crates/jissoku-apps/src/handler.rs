//! The handler of a worker that serves a WSGI application.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use jissoku_http::Method;
use jissoku_os::clock;
use jissoku_os::driver::{NewConnection, SocketNumber};
use jissoku_proxy::RouteContent;
use jissoku_server::{
    AppClock, Background, DynService, EventLoop, Handler, Progress, RequestHead,
    Response as Output, Service, WorkerInfo,
};
use pyo3::prelude::*;

use crate::body::Body;
use crate::body_writer::WriteOutcome;
use crate::environ::{Client, Environ, Environs, ServerInfo};
use crate::interpreter;
use crate::overlay;
use crate::request_name::RequestName;
use crate::response::Response;
use crate::response_head::Expectation;
use crate::sink::Sink;
use crate::threaded::ThreadedService;
use crate::wsgi::Wsgi;

/// A WSGI application as the content of a server with one worker.
#[derive(Debug)]
pub(crate) struct WsgiService {
    app: Py<PyAny>,
    server: ServerInfo,
}

impl WsgiService {
    pub(crate) fn new(app: &Bound<'_, PyAny>, server: ServerInfo) -> Self {
        Self { app: app.clone().unbind(), server }
    }

    /// The content of a server: with threads, if the server has threads for applications.
    pub(crate) fn into_service(self, routes: Option<&Arc<RouteContent>>) -> DynService {
        let Self { app, server } = self;
        match server.threads {
            0 => content_of(Self { app, server }, routes),
            threads => content_of(ThreadedService { app, server, threads }, routes),
        }
    }
}

/// An application as the content of a server. It gets all requests, or those that `routes` leave to
/// it.
pub(crate) fn content_of(app: impl Service, routes: Option<&Arc<RouteContent>>) -> DynService {
    match routes {
        Some(routes) => routes.with(app).into(),
        None => app.into(),
    }
}

impl Service for WsgiService {
    type Handler = WsgiHandler;

    fn handler(self: &Arc<Self>, _worker: &WorkerInfo) -> io::Result<WsgiHandler> {
        let handler = Python::attach(|python| -> PyResult<WsgiHandler> {
            let environs = Environs::new(python, &self.server)?;
            Ok(WsgiHandler { wsgi: Wsgi::new(self.app.clone_ref(python), environs) })
        });
        handler.map_err(|error| io::Error::other(error.to_string()))
    }

    fn run_worker(&self, worker: &mut dyn FnMut()) {
        // Attached for as long as the worker lives, so that no request has to attach.
        Python::attach(|_| worker());
    }
}

/// Calls the application for the requests of one worker.
#[derive(Debug)]
pub(crate) struct WsgiHandler {
    wsgi: Wsgi,
}

/// A connection: its listener and the address of its client.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: SocketNumber,
    listener: usize,
    address: Option<SocketAddr>,
    /// The address as strings, from the first request on.
    client: Option<Client>,
}

/// A request until its response is complete.
#[derive(Debug)]
pub(crate) struct Request {
    /// Taken when the application is called.
    environ: Option<PyResult<Environ>>,
    body: Body,
    has_body: bool,
    is_head: bool,
    version: jissoku_http::Version,
    name: RequestName,
    /// A response that is not complete.
    response: Option<Box<Response>>,
    /// Set when the application is called, if times are recorded.
    clock: Option<AppClock>,
}

impl Handler for WsgiHandler {
    type Connection = Connection;
    type Request = Request;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> Connection {
        let address = opened.peer();
        let socket = SocketNumber::of(opened.socket);
        Connection { socket, listener: opened.listener, address, client: None }
    }

    fn on_head(&mut self, connection: &mut Connection, request: &RequestHead<'_>) -> Request {
        let RequestHead { head, bytes, identity, .. } = *request;
        let Connection { listener, address, client, .. } = connection;
        let environ = Python::attach(|python| {
            let client = client.get_or_insert_with(|| Client::new(python, *listener, *address));
            let environ = self.wsgi.environs.build(python, (head, bytes), client)?;
            let dict = environ.dict.bind(python);
            identity.map_or(Ok(()), |identity| overlay::set_identity(dict, identity))?;
            Ok(environ)
        });
        Request {
            environ: Some(environ),
            body: Body::default(),
            has_body: head.body != jissoku_http::framing::Body::Empty,
            is_head: head.method == Method::Head,
            version: head.version,
            name: self.wsgi.names.name(head, bytes),
            response: None,
            clock: None,
        }
    }

    fn on_hangup(&mut self, _connection: &mut Connection, request: &mut Request) {
        if let Some(response) = &mut request.response {
            response.set_client_shut();
        }
    }

    fn on_body(&mut self, request: &mut Request, part: &[u8]) {
        request.body.push(part, self.wsgi.environs.body_memory_max);
    }

    fn respond(
        &mut self,
        connection: &mut Connection,
        request: &mut Request,
        writer: &mut Output<'_>,
    ) -> Progress {
        if request.environ.is_some() && writer.unsent() > 0 {
            // The application could not send anything before that.
            return Progress::Sent;
        }
        self.wsgi.set_now(writer.now_ns());
        let expectation = Expectation {
            version: request.version,
            is_head: request.is_head,
            persists: writer.keeps_alive(),
            request_id: writer.request_id().cloned(),
            name: std::mem::take(&mut request.name),
        };
        if writer.is_timed() {
            let clock = request.clock.get_or_insert_with(|| AppClock::new(writer.received_ns()));
            clock.enter(clock::monotonic_ns());
        }
        let outcome =
            Python::attach(|python| match (&mut request.response, request.environ.take()) {
                (Some(response), _) => {
                    let outcome = self.wsgi.resume(python, response, writer.output());
                    writer.set_sent(response.body.status, response.body.body_size);
                    outcome
                }
                (None, None) => WriteOutcome::Truncated,
                (None, Some(environ)) => {
                    let body = request.has_body.then(|| std::mem::take(&mut request.body));
                    let environ = environ.and_then(|environ| {
                        let dict = environ.dict.bind(python);
                        body.map_or(Ok(()), |body| self.wsgi.environs.set_body(dict, body))?;
                        Ok(environ)
                    });
                    let sink = writer.take_early(connection.socket);
                    let sink = sink.map(|early| Sink::Connection(early, 0));
                    let (outcome, response, sink) =
                        self.wsgi.respond(python, environ, expectation, sink.unwrap_or_default());
                    match sink {
                        Sink::Connection(early, _) => writer.put_back(early),
                        Sink::Deferred(mut output) | Sink::Thread(_, mut output) => {
                            writer.output().append_all(&mut output);
                        }
                    }
                    writer.set_sent(response.body.status, response.body.body_size);
                    if outcome == WriteOutcome::More {
                        request.response = Some(Box::new(response));
                    }
                    outcome
                }
            });
        if let Some(clock) = &mut request.clock {
            clock.leave(clock::monotonic_ns());
        }
        match outcome {
            // The thread belongs to this request until `close` was called.
            WriteOutcome::More => return Progress::Flush,
            WriteOutcome::Done { persists: true } => writer.keep_after(),
            WriteOutcome::Done { persists: false } | WriteOutcome::Truncated => {
                writer.close_after();
            }
        }
        if let Some(clock) = &request.clock {
            writer.record_times(clock.times());
        }
        Progress::Complete
    }
    fn event_loop(&mut self) -> Option<&mut impl EventLoop> {
        Some(self)
    }
}

impl Background for WsgiHandler {}

impl EventLoop for WsgiHandler {
    fn wait(&self, wait: &mut dyn FnMut()) {
        // Other threads of the application run while this one waits.
        interpreter::release_while(wait);
    }
}
