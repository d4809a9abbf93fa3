//! The handler of a worker that calls a handler in C.

mod uploads;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use jissoku_http::Method;
use jissoku_http::framing::Body;
use jissoku_os::driver::{ConnectionId, NewConnection};
use jissoku_os::{clock, crash_stack};
use jissoku_server::{
    AbandonReason, AppClock, Background, BodyFlow, ErrorReporter, EventLoop, Handler, LogRecord,
    Progress, RequestHead, Response, RouteMatch, SecureListeners, Service, WorkerInfo,
};

use crate::call::{Call, Deferral, Sender, State, Waiting};
use crate::deferred::{Answer, Deferred};
use crate::error::HandlerError;
use crate::ffi::{self, Functions, NoHandler, in_request};
use crate::library::Library;
use crate::stream;

/// How many requests of a worker leave their memory for later ones.
const SPARE_MAX: usize = 64;

/// Handlers in C as the content of a server.
#[derive(Debug)]
pub struct HandlerService {
    handlers: Vec<Loaded>,
    secure: SecureListeners,
    report: ErrorReporter,
}

/// A handler that is loaded.
#[derive(Debug)]
struct Loaded {
    functions: Functions,
    /// Its file, as the user has named it.
    name: String,
}

impl HandlerService {
    /// Loads shared objects, each with what the user calls it; requests without a route are those of
    /// the first. `secure` has the listeners with TLS, and `report` gets the faults of handlers.
    ///
    /// # Errors
    /// One is no shared object, or no handler for this version.
    pub fn load(
        libraries: &[(Library, String)],
        secure: SecureListeners,
        report: ErrorReporter,
    ) -> Result<Self, HandlerError> {
        let loaded = libraries.iter().map(|(library, name)| Loaded::new(library, name));
        Ok(Self { handlers: loaded.collect::<Result<_, _>>()?, secure, report })
    }
}

impl Loaded {
    fn new(library: &Library, name: &str) -> Result<Self, HandlerError> {
        let functions = Functions::load(&library.loadable()).map_err(|why| {
            HandlerError(match why {
                NoHandler::Library(error) => format!("cannot load {name}: {error}"),
                NoHandler::Version => {
                    format!("{name} is not a handler: it does not include jissoku.h")
                }
                NoHandler::OtherVersion(version) => format!(
                    "{name} is for version {version} of jissoku.h, and this server has version {}: \
                     compile it with the header of this server",
                    ffi::VERSION
                ),
                NoHandler::Handle => format!("{name} does not define the function jsk_handle"),
            })
        })?;
        Ok(Self { functions, name: name.to_owned() })
    }
}

impl Service for HandlerService {
    type Handler = WorkerHandler;

    fn handler(self: &Arc<Self>, _: &WorkerInfo) -> io::Result<WorkerHandler> {
        // First, because a process has one of these.
        let deferred = Deferred::begin()?;
        crash_stack::install()?;
        let (service, states, spare) = (Arc::clone(self), Vec::new(), Vec::new());
        let mut worker = WorkerHandler { service, states, deferred, spare };
        for Loaded { functions, name } in &self.handlers {
            // Those that have begun end with the worker.
            worker.states.push(functions.start(name).map_err(|failure| {
                io::Error::other(format!("{name}: jsk_start has returned {failure}"))
            })?);
        }
        Ok(worker)
    }
}

/// Calls the handlers for the requests of one worker.
#[derive(Debug)]
pub struct WorkerHandler {
    service: Arc<HandlerService>,
    /// The states of those handlers that have begun.
    states: Vec<State>,
    deferred: Deferred,
    /// The memory of requests that are answered.
    #[expect(
        clippy::vec_box,
        reason = "a request does not move, because its handler points to it"
    )]
    spare: Vec<Box<Call>>,
}

impl Drop for WorkerHandler {
    fn drop(&mut self) {
        // A handler may wait for its threads.
        stream::close_all();
        for (handler, state) in self.service.handlers.iter().zip(&self.states) {
            handler.functions.stop(&handler.name, *state);
        }
    }
}

/// A connection: who its client is, unless a trusted proxy says it.
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    address: Option<IpAddr>,
    is_secure: bool,
}

/// A request until its response is complete.
#[derive(Debug)]
pub struct Request {
    /// The index of its handler.
    part: usize,
    connection: ConnectionId,
    /// `None` once it is answered.
    call: Option<Box<Call>>,
    /// Set if times are recorded.
    clock: Option<AppClock>,
    /// It has a body that the handler takes by parts.
    takes_parts: bool,
    /// There may be more of that body.
    is_receiving: bool,
}

/// When a handler is called: the time, and what its client has not read yet.
#[derive(Clone, Copy, Debug)]
struct Now {
    /// On the monotonic clock.
    ns: u64,
    /// Bytes.
    unsent: usize,
}

impl WorkerHandler {
    /// Calls the handler, or what continues the request. Returns when a response is there, or that it
    /// comes later; a failure is reported, and is a 500.
    #[inline]
    fn call(&mut self, part: usize, call: &mut Call, now: Now) -> Option<Progress> {
        // Taking what is waited for would move it, although a new request waits for nothing.
        let code = if call.waiting.is_some() {
            self.resume(part, call, now)
        } else if call.is_answered_early {
            0
        } else {
            self.service.handlers[part].functions.handle(call)
        };
        if code == 0 && call.response.is_complete() && call.waiting.is_none() {
            return None;
        }
        self.check(part, call, code)
    }

    /// Continues a request that waits, if the time has come or the response is there.
    #[cold]
    fn resume(&mut self, part: usize, call: &mut Call, now: Now) -> i32 {
        match call.waiting.take() {
            Some(Waiting::Until(due_ns, resume)) if due_ns <= now.ns => {
                return in_request(call, |call| resume(Some(call)));
            }
            Some(Waiting::Sent(resume)) if now.unsent == 0 => {
                return in_request(call, |call| resume(Some(call)));
            }
            Some(Waiting::Deferred(deferral)) => {
                self.resume_deferred(part, call, deferral, now.ns);
            }
            waiting => call.waiting = waiting,
        }
        0
    }

    /// Takes what another thread has given of its response.
    fn resume_deferred(
        &mut self,
        part: usize,
        call: &mut Call,
        mut deferral: Deferral,
        now_ns: u64,
    ) {
        let token = deferral.token;
        let mut has_continued = std::mem::take(&mut deferral.is_full);
        match self.deferred.take(token) {
            Some(Answer::Whole(reply)) => {
                self.deferred.remove(token);
                return call.response.take_over(reply);
            }
            Some(Answer::Parts(reply, parts)) => {
                call.response.take_over(reply);
                deferral.parts = Some(parts);
                has_continued = true;
            }
            None => {}
        }
        if let (Some(end), Some(parts)) = (&deferral.parts, call.response.parts()) {
            let (written, has_ended) = end.take();
            has_continued |= !written.is_empty();
            // The thread cannot write more than the size that it has named.
            let _is_valid = parts.write(&written);
            if has_ended {
                let _is_complete = parts.end();
                return self.deferred.remove(token);
            }
        }
        if has_continued {
            deferral.due_ns = now_ns.saturating_add(deferral.patience_ns);
        } else if deferral.due_ns <= now_ns {
            if deferral.parts.is_some() {
                self.report(part, call, "a thread has not continued its response in time");
            }
            call.response.fail(504);
            self.deferred.remove(token);
            // What it may wait for is released before.
            deferral.parts = None;
            return call_once(call, deferral.on_gone);
        }
        call.waiting = Some(Waiting::Deferred(deferral));
    }

    /// What follows if a handler has not simply responded.
    #[cold]
    fn check(&mut self, part: usize, call: &mut Call, code: i32) -> Option<Progress> {
        if code == 0 && !call.response.is_complete() {
            match &call.waiting {
                Some(Waiting::Until(due_ns, _)) => return Some(Progress::Until(*due_ns)),
                Some(Waiting::Sent(_)) => return Some(Progress::Sent),
                Some(Waiting::Deferred(_)) => return Some(Progress::Pending),
                Some(Waiting::Body(_)) | None => {}
            }
        }
        self.cancel(call);
        if code != 0 {
            self.report(part, call, &format!("jsk_handle has returned {code}"));
            call.response.fail(500);
        } else if !call.response.is_complete() {
            let has_begun = call.response.is_set();
            let what = if has_begun { "has not ended its response" } else { "has not responded" };
            self.report(part, call, &format!("jsk_handle {what}"));
            call.response.fail(500);
        }
        None
    }

    /// Says what is wrong with the response to a request.
    fn report(&self, part: usize, call: &Call, what: &str) {
        let name = &self.service.handlers[part].name;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (method, target) = (text(call.method()), text(call.target()));
        (self.service.report)(&format!("{name}: {what}: {method} {target}"));
    }

    /// Sends what is written of a response that is not complete, and returns when it is continued.
    #[cold]
    fn pause(
        &mut self,
        connection: ConnectionId,
        call: &mut Call,
        progress: Progress,
        output: &mut Response<'_>,
    ) -> Progress {
        let size = call.response.send_written(is_not_modified(call), output);
        let Some(Waiting::Deferred(deferral)) = &mut call.waiting else { return progress };
        self.deferred.add(deferral.token, connection);
        let Some(parts) = &deferral.parts else { return progress };
        let in_flight = output.unsent() + size;
        parts.set_in_flight(in_flight);
        deferral.is_full = in_flight >= stream::AHEAD_SIZE_MAX;
        if deferral.is_full { Progress::Sent } else { progress }
    }

    /// What a request waits for has no effect any more.
    fn cancel(&mut self, call: &mut Call) {
        if let Some(waiting) = call.waiting.take()
            && let Some(token) = in_request(call, |_| waiting.cancel())
        {
            self.deferred.remove(token);
        }
    }

    #[inline]
    fn begin(
        &mut self,
        connection: &Connection,
        request: &RequestHead<'_>,
        part: usize,
    ) -> Request {
        let Connection { id, address, is_secure } = *connection;
        let sender = request.identity.map_or(Sender { address, is_secure }, |identity| Sender {
            address: identity.client.map(|client| client.ip()),
            is_secure: identity.is_secure.unwrap_or(is_secure),
        });
        let call = Call::begin(self.spare.pop(), request, sender, self.states[part]);
        let has_body = request.head.body != Body::Empty;
        let takes_parts = has_body && self.service.handlers[part].functions.takes_parts();
        Request {
            part,
            connection: id,
            call: Some(call),
            clock: None,
            takes_parts,
            is_receiving: takes_parts,
        }
    }

    /// Keeps the memory of a request.
    fn put_back(&mut self, mut call: Box<Call>) {
        if call.data.is_some() {
            // A function of the handler releases it.
            in_request(&mut call, Call::end);
        } else {
            call.end();
        }
        if self.spare.len() < SPARE_MAX {
            self.spare.push(call);
        }
    }
}

/// Whether the client has what the handler responds with.
#[inline]
fn is_not_modified(call: &Call) -> bool {
    let is_read = matches!(call.known_method(), Method::Get | Method::Head);
    is_read && call.response.etag().is_some_and(|etag| call.has_client(etag))
}

/// Calls a function of the handler of a request, if there is one.
fn call_once(call: &mut Call, function: Option<Box<dyn FnOnce()>>) {
    if let Some(function) = function {
        in_request(call, |_| function());
    }
}

impl Handler for WorkerHandler {
    type Connection = Connection;
    type Request = Request;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> Connection {
        let is_secure = self.service.secure.has(opened.listener);
        let address = opened.peer().map(|address| address.ip());
        Connection { id: opened.id, address, is_secure }
    }

    #[inline]
    fn on_head(&mut self, connection: &mut Connection, request: &RequestHead<'_>) -> Request {
        self.begin(connection, request, 0)
    }

    fn on_routed_head(
        &mut self,
        connection: &mut Connection,
        request: &RequestHead<'_>,
        route: &RouteMatch<'_>,
    ) -> Request {
        let mut begun = self.begin(connection, request, route.part);
        if let Some(call) = &mut begun.call {
            call.set_variables(route.variables);
        }
        begun
    }

    fn on_body(&mut self, request: &mut Request, part: &[u8]) {
        self.take_body(request, part);
    }

    fn body_flow(&self, request: &Request) -> BodyFlow {
        match &request.call {
            Some(call) if request.takes_parts && call.is_paused() => BodyFlow::Hold,
            Some(_) if request.takes_parts => BodyFlow::Receive,
            _ => BodyFlow::Whole,
        }
    }

    fn on_end(&mut self, request: &mut Request) {
        request.is_receiving = false;
    }

    fn on_hangup(&mut self, _connection: &mut Connection, request: &mut Request) {
        if let Some(call) = &mut request.call
            && let Some(Waiting::Deferred(deferral)) = &mut call.waiting
        {
            // It may still read, so a response is sent all the same.
            let on_gone = deferral.on_gone.take();
            call_once(call, on_gone);
        }
    }

    #[inline]
    fn respond(
        &mut self,
        connection: &mut Connection,
        request: &mut Request,
        response: &mut Response<'_>,
    ) -> Progress {
        let Some(mut call) = request.call.take() else { return Progress::Complete };
        let (part, now) = (request.part, Now { ns: response.now_ns(), unsent: response.unsent() });
        if (request.is_receiving || call.is_paused())
            && let Some(progress) =
                self.continue_body((part, connection.id), &mut call, request.is_receiving, now.ns)
        {
            request.call = Some(call);
            return progress;
        }
        let later = if response.is_timed() {
            let clock = request.clock.get_or_insert_with(|| AppClock::new(response.received_ns()));
            clock.enter(clock::monotonic_ns());
            let later = self.call(part, &mut call, now);
            clock.leave(clock::monotonic_ns());
            later
        } else {
            self.call(part, &mut call, now)
        };
        if let Some(progress) = later {
            let progress = self.pause(connection.id, &mut call, progress, response);
            request.call = Some(call);
            return progress;
        }
        if let Some(clock) = &request.clock {
            response.record_times(clock.times());
        }
        let progress = call.response.send(is_not_modified(&call), response);
        self.put_back(call);
        progress
    }

    fn on_abandon(
        &mut self,
        _connection: &mut Connection,
        request: Request,
        _reason: AbandonReason,
        _log: &mut LogRecord<'_>,
    ) {
        if let Some(mut call) = request.call {
            self.cancel(&mut call);
            self.put_back(call);
        }
    }

    fn event_loop(&mut self) -> Option<&mut impl EventLoop> {
        Some(self)
    }
}

impl EventLoop for WorkerHandler {
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        Some(self.deferred.as_fd())
    }

    fn on_watched(&mut self) {
        self.deferred.receive();
    }
}

impl Background for WorkerHandler {
    #[inline]
    fn deadline_ns(&self) -> Option<u64> {
        self.deferred.deadline_ns()
    }

    #[inline]
    fn next_ready(&mut self, now_ns: u64) -> Option<ConnectionId> {
        self.deferred.next_ready(now_ns)
    }
}
