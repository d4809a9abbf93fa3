//! A service with injected faults.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;

use jissoku_os::driver::{ConnectionId, NewConnection, SendBuffer};
use jissoku_os::socket;
use jissoku_server::{
    AbandonReason, Background, BodyFlow, EventLoop, Handler, LogRecord, Metrics, Progress,
    RequestHead, Response, Service, WorkerInfo,
};

use crate::faults::InjectedFault;
use crate::linear_timers::LinearTimers;
use crate::request_log::RequestLog;

/// Adds faults to a service whose handler only serves: it has no event loop and opens no connections.
#[derive(Debug)]
pub struct Faulty<S> {
    service: Arc<S>,
    faults: Vec<InjectedFault>,
    /// Workers of the server without the fault `single-worker`.
    workers: usize,
}

impl<S: Service> Faulty<S> {
    /// Adds `faults` to `service`, which is served by `workers` workers.
    #[must_use]
    pub fn new(service: S, faults: &[InjectedFault], workers: usize) -> Self {
        Self { service: Arc::new(service), faults: faults.to_vec(), workers }
    }
}

impl<S: Service> Service for Faulty<S> {
    type Handler = FaultyHandler<S::Handler>;

    /// # Errors
    /// The file of the fault `log` cannot be created, or a thread of `single-worker`.
    fn handler(self: &Arc<Self>, worker: &WorkerInfo) -> io::Result<Self::Handler> {
        let mut handler = FaultyHandler {
            inner: self.service.handler(worker)?,
            peer_names: 0,
            opens: 0,
            path: std::env::current_exe()?,
            requests_max: u32::MAX,
            splits_response: false,
            enables_nagle: false,
            log: None,
            requests_left: None,
            timers: None,
            idle_threads: Vec::new(),
        };
        for fault in &self.faults {
            match *fault {
                InjectedFault::PeerName(count) => handler.peer_names = count,
                InjectedFault::Open(count) => handler.opens = count,
                InjectedFault::Split => handler.splits_response = true,
                InjectedFault::SplitDelayed => {
                    (handler.splits_response, handler.enables_nagle) = (true, true);
                }
                InjectedFault::CloseAfter(count) => handler.requests_max = count,
                InjectedFault::SingleWorker => handler.start_idle_threads(self.workers)?,
                InjectedFault::LinearTimers => handler.timers = Some(LinearTimers::default()),
                InjectedFault::Log => handler.log = Some(RequestLog::new()?),
                InjectedFault::Crash(count) => handler.requests_left = Some(count),
                // In the settings, and in the metrics server.
                InjectedFault::Herd | InjectedFault::CrashMetrics(_) => {}
            }
        }
        Ok(handler)
    }

    fn run_worker(&self, worker: &mut dyn FnMut()) {
        self.service.run_worker(worker);
    }

    fn report_to(&self, metrics: &Metrics) {
        self.service.report_to(metrics);
    }
}

/// Adds faults to the handler of one worker.
#[derive(Debug)]
pub struct FaultyHandler<H> {
    inner: H,
    peer_names: u32,
    opens: u32,
    /// A file that exists while the process runs.
    path: PathBuf,
    /// Requests after which a connection is closed.
    requests_max: u32,
    splits_response: bool,
    enables_nagle: bool,
    log: Option<RequestLog>,
    /// Requests until the worker panics.
    requests_left: Option<u32>,
    timers: Option<LinearTimers<ConnectionId>>,
    /// The threads end when these are dropped.
    idle_threads: Vec<Sender<()>>,
}

/// A connection, and the state of its faults.
#[derive(Debug)]
pub struct FaultyConnection<C> {
    inner: C,
    id: ConnectionId,
    /// The socket, for `getpeername(2)`.
    peer: Option<OwnedFd>,
    /// Requests so far.
    requests: u32,
}

/// A request, and the state of its faults.
#[derive(Debug)]
pub struct FaultyRequest<R> {
    inner: R,
    /// When it is due, if that is in the list of timers.
    due_ns: Option<u64>,
    /// The body of a response whose head was sent separately.
    body: Option<Vec<u8>>,
}

impl<H: Handler> FaultyHandler<H> {
    /// Starts the workers that accept no connections.
    fn start_idle_threads(&mut self, workers: usize) -> io::Result<()> {
        for index in 1..workers {
            let (sender, receiver) = mpsc::channel();
            let thread = thread::Builder::new().name(format!("worker-{index}"));
            thread.spawn(move || {
                let _dropped: Result<(), _> = receiver.recv();
            })?;
            self.idle_threads.push(sender);
        }
        Ok(())
    }

    /// Called for each complete response. Errors are ignored: only the cost matters.
    #[expect(
        clippy::manual_assert,
        reason = "this is the fault that was requested, not an assertion"
    )]
    #[expect(clippy::panic, reason = "this is the fault that was requested")]
    fn apply(&mut self, peer: Option<&OwnedFd>) {
        if let Some(peer) = peer {
            for _ in 0..self.peer_names {
                let _peer = socket::peer_address(peer);
            }
        }
        for _ in 0..self.opens {
            let _state = File::open(&self.path).and_then(|file| file.metadata());
        }
        if let Some(log) = &mut self.log {
            let _written = log.write();
        }
        if let Some(left) = &mut self.requests_left {
            *left -= 1;
            if *left == 0 {
                panic!("injected fault");
            }
        }
    }

    /// Has the inner handler respond, and holds the body back.
    fn respond_split(
        &mut self,
        connection: &mut H::Connection,
        request: &mut FaultyRequest<H::Request>,
        response: &mut Response<'_>,
    ) -> Progress {
        let mut buffer = SendBuffer::default();
        let progress = response.capture(&mut buffer, |captured| {
            self.inner.respond(connection, &mut request.inner, captured)
        });
        let mut bytes = vec![0; buffer.size()];
        // A file that has changed ends the response early.
        let size = buffer.read(&mut bytes).unwrap_or(0);
        bytes.truncate(size);
        if progress != Progress::Complete {
            response.append(&bytes);
            return progress;
        }
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 4);
        request.body = Some(bytes.split_off(end));
        response.append(&bytes);
        Progress::Sent
    }
}

impl<H: Handler> Handler for FaultyHandler<H> {
    type Connection = FaultyConnection<H::Connection>;
    type Request = FaultyRequest<H::Request>;

    fn on_open(&mut self, opened: &NewConnection<'_>) -> Self::Connection {
        if self.enables_nagle {
            // Fails on a Unix socket, which has no such option.
            let _unix = socket::clear_nodelay(opened.socket);
        }
        // Skipped when descriptors are exhausted.
        let duplicate = || opened.socket.try_clone_to_owned().ok();
        let peer = if self.peer_names > 0 { duplicate() } else { None };
        FaultyConnection { inner: self.inner.on_open(opened), id: opened.id, peer, requests: 0 }
    }

    fn on_head(
        &mut self,
        connection: &mut Self::Connection,
        head: &RequestHead<'_>,
    ) -> Self::Request {
        connection.requests += 1;
        let inner = self.inner.on_head(&mut connection.inner, head);
        FaultyRequest { inner, due_ns: None, body: None }
    }

    fn on_body(&mut self, request: &mut Self::Request, part: &[u8]) {
        self.inner.on_body(&mut request.inner, part);
    }

    fn body_size_max(&self, request: &Self::Request) -> Option<u64> {
        self.inner.body_size_max(&request.inner)
    }

    fn body_flow(&self, request: &Self::Request) -> BodyFlow {
        self.inner.body_flow(&request.inner)
    }

    fn on_end(&mut self, request: &mut Self::Request) {
        self.inner.on_end(&mut request.inner);
    }

    fn on_hangup(&mut self, connection: &mut Self::Connection, request: &mut Self::Request) {
        self.inner.on_hangup(&mut connection.inner, &mut request.inner);
    }

    fn respond(
        &mut self,
        connection: &mut Self::Connection,
        request: &mut Self::Request,
        response: &mut Response<'_>,
    ) -> Progress {
        if let Some(body) = request.body.take() {
            response.append(&body);
            return Progress::Complete;
        }
        if connection.requests >= self.requests_max {
            response.close_after();
        }
        let progress = if self.splits_response && !response.is_head() {
            self.respond_split(&mut connection.inner, request, response)
        } else {
            self.inner.respond(&mut connection.inner, &mut request.inner, response)
        };
        match (progress, &mut self.timers) {
            (Progress::Until(due_ns), Some(timers)) => {
                if request.due_ns != Some(due_ns) {
                    timers.add(due_ns, connection.id);
                    request.due_ns = Some(due_ns);
                }
                return Progress::Pending;
            }
            (Progress::Until(_) | Progress::Pending | Progress::ShutdownWrite, _) => {}
            (Progress::Complete | Progress::Sent | Progress::Flush | Progress::Reset, _) => {
                self.apply(connection.peer.as_ref());
            }
        }
        progress
    }

    fn on_abandon(
        &mut self,
        connection: &mut Self::Connection,
        request: Self::Request,
        reason: AbandonReason,
        log: &mut LogRecord<'_>,
    ) {
        self.inner.on_abandon(&mut connection.inner, request.inner, reason, log);
    }

    fn event_loop(&mut self) -> Option<&mut impl EventLoop> {
        Some(self)
    }
}

impl<H: Handler> EventLoop for FaultyHandler<H> {}

impl<H: Handler> Background for FaultyHandler<H> {
    fn deadline_ns(&self) -> Option<u64> {
        self.timers.as_ref()?.earliest_ns()
    }

    fn next_ready(&mut self, now_ns: u64) -> Option<ConnectionId> {
        self.timers.as_mut()?.take_due(now_ns)
    }
}
