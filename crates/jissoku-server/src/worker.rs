//! A worker: one thread with its own driver and connections. Workers share only the service.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use jissoku_os::driver::{
    Action, ConnectionId, Driver, EventHandler, NewConnection, PollOutcome, SendBuffer, Wakeup,
};
use jissoku_os::socket;
use jissoku_os::timers::earliest;

use crate::connection::Connection;
use crate::connection_limiter::ConnectionLimiter;
use crate::context::WorkerContext;
use crate::handler::{Background, EventLoop, ForeignLoop, Handler, Outbound, UpstreamEventKind};
use crate::hang_watch::Heartbeat;
use crate::head_check::HeadCheck;
use crate::listener_options::{Encryption, Intermediaries, ListenerOptions};
use crate::metrics::Counter;
use crate::request_id::RequestIds;
use crate::settings::Settings;
use crate::shutdown::{ABORT, Shutdown, ShutdownSignal};
use crate::telemetry::Telemetry;
use crate::tls::Tls;
use crate::tls_client::TlsFailure;
use crate::tls_session::TlsSession;
use crate::transport::Transport;
use crate::upstream_session::UpstreamSession;
use crate::worker_message::ParentPipe;

/// After the queue of moved connections was full: time until the others are tried again.
const MOVE_RETRY_NS: u64 = 2_000_000;

/// The event handler of one driver.
#[derive(Debug)]
pub(crate) struct Worker<H> {
    context: WorkerContext<H>,
    limiter: Arc<ConnectionLimiter>,
    /// Connections over a limit, to be answered with 503 in this iteration.
    over_limit: Vec<ConnectionId>,
    /// When all connections are to be checked because of a shutdown.
    next_sweep_ns: Option<u64>,
    /// The endpoint of each of the driver's listeners.
    endpoint_indices: Vec<usize>,
    /// Held while connections are accepted.
    accepting: Option<UnixStream>,
    /// The TLS configuration for TCP clients, if any.
    tls: Option<Tls>,
    /// By the index of the endpoint.
    listener_options: Vec<ListenerOptions>,
    heartbeat: Option<Heartbeat>,
    /// As in [`Settings`]; `None` once the worker has requested a replacement.
    replace_after: Option<u64>,
    parent: Option<ParentPipe>,
    intermediaries: Intermediaries,
    /// The signal while the worker runs.
    signal: Arc<ShutdownSignal>,
    /// The last signal that the driver knows.
    applied_signal: u8,
}

impl<H: Handler> Worker<H> {
    pub(crate) fn new(
        handler: H,
        limiter: Arc<ConnectionLimiter>,
        settings: &Settings,
        telemetry: Telemetry,
    ) -> Self {
        let now_ns = jissoku_os::clock::monotonic_ns();
        let mut context = WorkerContext::new(handler, settings.limits, telemetry, now_ns);
        context.request_ids = settings.request_id.clone().map(RequestIds::new);
        Self {
            context,
            limiter,
            over_limit: Vec::new(),
            next_sweep_ns: None,
            tls: settings.tls.clone(),
            listener_options: settings.listener_options.clone(),
            heartbeat: None,
            replace_after: settings.replace_after.filter(|_| settings.parent.is_some()),
            parent: settings.parent.clone(),
            endpoint_indices: Vec::new(),
            intermediaries: Intermediaries::new(
                &settings.listener_options,
                settings.trusted_proxies.as_ref(),
                settings.forwarded_fields,
            ),
            accepting: None,
            signal: Arc::default(),
            applied_signal: 0,
        }
    }

    /// Sets the heartbeat of the worker.
    pub(crate) fn with_heartbeat(self, heartbeat: Option<Heartbeat>) -> Self {
        Self { heartbeat, ..self }
    }

    #[cold]
    fn request_replacement(&mut self) {
        self.replace_after = None;
        if let Some(parent) = &self.parent {
            parent.request_replacement();
        }
    }

    /// Sets the endpoint of each listener, and `accepting`, which is dropped when the worker stops
    /// accepting.
    pub(crate) fn with_listeners(
        mut self,
        endpoint_indices: Vec<usize>,
        accepting: Option<UnixStream>,
    ) -> Self {
        self.endpoint_indices = endpoint_indices;
        self.accepting = accepting;
        self
    }

    /// The state that its connections use.
    #[cfg(test)]
    pub(crate) const fn context(&self) -> &WorkerContext<H> {
        &self.context
    }

    /// The descriptor that the handler wants watched.
    pub(crate) fn watched(&mut self) -> Option<BorrowedFd<'_>> {
        self.context.handler.event_loop()?.watched()
    }

    /// Runs until it is shut down.
    ///
    /// # Errors
    /// The driver's error: waiting failed.
    pub(crate) fn run(
        mut self,
        mut driver: Driver<Self>,
        signal: &Arc<ShutdownSignal>,
    ) -> io::Result<()> {
        self.signal = Arc::clone(signal);
        // Connections that the handler has opened are there for the first request.
        driver.resume_ready(&mut self);
        let event_loop = self.context.handler.event_loop();
        if let Some(foreign_loop) = event_loop.and_then(|it| it.foreign_loop()) {
            return self.run_inside(foreign_loop, driver, Arc::clone(signal));
        }
        let ended = catch_unwind(AssertUnwindSafe(|| {
            while self.serve_once(&mut driver, signal)? {}
            Ok(())
        }));
        // Also after a panic, so that the connection limits stay correct.
        driver.close_all(&mut self);
        ended.unwrap_or_else(|fault| resume_unwind(fault))
    }

    /// As [`Worker::run`], called by another event loop.
    fn run_inside(
        mut self,
        foreign_loop: ForeignLoop,
        mut driver: Driver<Self>,
        signal: Arc<ShutdownSignal>,
    ) -> io::Result<()> {
        let ended = Rc::new(RefCell::new(None));
        let outcome = Rc::clone(&ended);
        foreign_loop(Box::new(move || {
            let iteration = || self.serve_once(&mut driver, &signal);
            let result = catch_unwind(AssertUnwindSafe(iteration));
            if matches!(result, Ok(Ok(true))) {
                return true;
            }
            // Also after a panic, so that the connection limits stay correct.
            driver.close_all(&mut self);
            *outcome.borrow_mut() = Some(result);
            false
        }));
        match ended.take() {
            Some(Ok(result)) => result.map(drop),
            Some(Err(fault)) => resume_unwind(fault),
            None => Err(io::Error::other("the event loop of the application has ended")),
        }
    }

    /// Waits for events and processes them. Returns whether the worker continues.
    #[inline]
    fn serve_once(
        &mut self,
        driver: &mut Driver<Self>,
        signal: &ShutdownSignal,
    ) -> io::Result<bool> {
        let outcome = driver.run_once(self)?;
        if outcome == PollOutcome::Woken {
            match signal.get() {
                ABORT => return Ok(false),
                signal => self.apply_command(signal, driver)?,
            }
        }
        // Not before the driver has accepted what waits in its queues.
        let is_over =
            self.context.is_stopping() && self.applied_signal > 0 && driver.connections() == 0;
        let continues = !is_over || self.has_work_left();
        if let Some(parent) = self.parent.as_ref().filter(|_| !continues) {
            parent.report_drained();
        }
        Ok(continues)
    }

    /// Whether the handler has work without connections, and time for it.
    #[cold]
    fn has_work_left(&mut self) -> bool {
        let handler = &mut self.context.handler;
        let is_busy = handler.outbound().is_some_and(|it| it.is_busy())
            || handler.event_loop().is_some_and(|it| it.is_busy());
        is_busy && !self.context.shutdown_deadline_passed()
    }

    /// Reports to the handler that a connection that it has opened is closed, or was not opened.
    fn close_outbound(&mut self, token: u64, error: Option<&io::Error>) {
        let now_ns = self.context.now_ns;
        if let Some(outbound) = self.context.handler.outbound() {
            outbound.on_close(token, error, now_ns);
        }
    }

    /// Counts the output of a call, before which there were `before` bytes.
    #[inline]
    fn count_sent(&mut self, size: usize, before: usize) {
        let sent = std::mem::take(&mut self.context.early.sent);
        let written = (sent + size).saturating_sub(before);
        self.context.telemetry.count(Counter::SentBytes, written as u64);
    }

    /// Starts a shutdown, or escalates it.
    fn apply_command(&mut self, signal: u8, driver: &mut Driver<Self>) -> io::Result<()> {
        let applied = std::mem::replace(&mut self.applied_signal, signal);
        if signal <= applied {
            return Ok(());
        }
        if applied == 0 {
            driver.stop_listening(self)?;
            self.accepting = None;
            if let Some(parent) = &self.parent {
                parent.report_not_accepting();
            }
            let handler = &mut self.context.handler;
            if let Some(outbound) = handler.outbound() {
                outbound.on_shutdown();
            }
            if let Some(event_loop) = handler.event_loop() {
                event_loop.on_shutdown();
            }
        }
        self.start_shutdown(signal);
        let now_ns = self.context.now_ns;
        // Some connections can be closed now, the others when their time is over.
        self.next_sweep_ns = Some(now_ns);
        Ok(())
    }

    /// From now on the time limits of a shutdown apply, unless they do already.
    pub(crate) fn start_shutdown(&mut self, signal: u8) {
        let WorkerContext { shutdown, limits, now_ns, .. } = &mut self.context;
        if shutdown.is_none_or(|shutdown| shutdown.signal < signal) {
            *shutdown = Some(Shutdown::new(signal, limits, *now_ns));
        }
    }
}

impl<H: Handler> EventHandler for Worker<H> {
    type Connection = Transport<H>;

    fn on_open(&mut self, arrival: &NewConnection<'_>) -> Transport<H> {
        // From here on the index is that of the endpoint.
        let listener = self.endpoint_indices.get(arrival.listener).copied().unwrap_or_default();
        let arrival = &NewConnection { listener, ..*arrival };
        let permit = self.limiter.acquire(arrival);
        if permit.is_over_limit {
            self.context.over_limit_open += 1;
            self.over_limit.push(arrival.id);
        }
        let log_slot = self.context.telemetry.open(arrival);
        let state = self.context.handler.on_open(arrival);
        let connection = Connection::new(arrival.id, permit, state, self.context.now_ns);
        let mut connection =
            connection.with_log_slot(log_slot).with_intermediary(self.intermediaries.of(arrival));
        let encryption =
            self.listener_options.get(listener).map_or(<_>::default(), |it| it.encryption);
        if let Encryption::Redirect(port) = encryption {
            connection.set_head_check(HeadCheck::Redirect(port));
        }
        let is_encrypted = encryption == Encryption::WithCertificate;
        match &self.tls {
            Some(tls) if is_encrypted && socket::is_tcp(arrival.socket) => {
                Transport::Tls(Box::new(TlsSession::new(tls, connection, self.context.now_ns)))
            }
            _ if arrival.is_moved => Transport::Plain(connection.with_moves().after_move()),
            _ => Transport::Plain(connection.with_moves()),
        }
    }

    #[inline]
    fn on_data(
        &mut self,
        transport: &mut Transport<H>,
        bytes: &[u8],
        output: &mut SendBuffer,
    ) -> Action {
        let before = output.size();
        let next = transport.on_data(bytes, &mut self.context, output);
        self.context.telemetry.count(Counter::ReceivedBytes, bytes.len() as u64);
        self.count_sent(output.size(), before);
        next
    }

    fn on_eof(&mut self, transport: &mut Transport<H>, output: &mut SendBuffer) -> Action {
        if transport.token().is_some() {
            return transport.on_eof(&mut self.context, output);
        }
        let before = output.size();
        let next = transport.on_eof(&mut self.context, output);
        self.count_sent(output.size(), before);
        next
    }

    fn resume(
        &mut self,
        transport: &mut Transport<H>,
        unsent: usize,
        output: &mut SendBuffer,
    ) -> Action {
        if transport.token().is_some() {
            return transport.resume(unsent, &mut self.context, output);
        }
        let before = output.size();
        let next = transport.resume(unsent, &mut self.context, output);
        self.count_sent(output.size(), before);
        next
    }

    fn on_unread(&mut self, transport: &mut Transport<H>) -> Action {
        transport.on_unread(&mut self.context)
    }

    fn on_hangup(&mut self, transport: &mut Transport<H>) {
        transport.on_hangup(&mut self.context);
    }

    fn on_move_failed(&mut self, is_full: bool) {
        if is_full {
            let retry_ns = self.context.now_ns + MOVE_RETRY_NS;
            self.next_sweep_ns = Some(self.next_sweep_ns.map_or(retry_ns, |it| it.min(retry_ns)));
        } else {
            self.context.keeps_connections = true;
        }
    }

    fn on_watched(&mut self) {
        if let Some(event_loop) = self.context.handler.event_loop() {
            event_loop.on_watched();
        }
    }

    fn on_connecting(&mut self, token: u64, id: ConnectionId) -> Option<Transport<H>> {
        let outbound = self.context.handler.outbound()?;
        outbound.on_opening(token, id);
        let Some(tls) = outbound.tls(token) else { return Some(Transport::Upstream(token)) };
        match UpstreamSession::new(token, &tls) {
            Ok(session) => Some(Transport::UpstreamTls(Box::new(session))),
            Err(error) => {
                let error = io::Error::other(TlsFailure::from(&error));
                self.close_outbound(token, Some(&error));
                None
            }
        }
    }

    fn on_connected(&mut self, transport: &mut Transport<H>, output: &mut SendBuffer) -> Action {
        transport.on_upstream(UpstreamEventKind::Connected, &mut self.context, output)
    }

    fn on_opened_data(
        &mut self,
        transport: &mut Transport<H>,
        bytes: &[u8],
        unsent: usize,
        output: &mut SendBuffer,
    ) -> Action {
        let kind = UpstreamEventKind::Data { bytes, unsent };
        transport.on_upstream(kind, &mut self.context, output)
    }

    fn on_connect_error(&mut self, token: u64, error: io::Error) {
        self.close_outbound(token, Some(&error));
    }

    fn on_error(&mut self, transport: &mut Transport<H>, error: &io::Error) {
        if let Some(token) = transport.token() {
            self.close_outbound(token, Some(error));
        }
    }

    fn on_close(&mut self, transport: Transport<H>) {
        let connection = match transport.into_connection() {
            Ok(connection) => connection,
            Err((token, error)) => return self.close_outbound(token, error.as_ref()),
        };
        let permit = connection.permit();
        self.context.over_limit_open -= usize::from(permit.is_over_limit);
        self.limiter.release(permit);
        connection.end(&mut self.context);
    }

    #[inline]
    fn on_tick(&mut self, now_ns: u64) {
        self.context.now_ns = now_ns;
        self.context.status_lines.refresh(now_ns);
        self.context.telemetry.wake(now_ns);
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.beat(now_ns);
        }
        let count = self.context.response_count;
        if self.replace_after.is_some_and(|count_max| count >= count_max) {
            self.request_replacement();
        }
    }

    fn on_flush(&mut self, now_ns: u64) {
        self.on_tick(now_ns);
        // The driver applies a signal between two iterations only, and this one may take long.
        let signal = self.signal.get();
        if signal > self.applied_signal {
            self.start_shutdown(signal);
        }
    }

    #[inline]
    fn wait(&mut self, wait: &mut dyn FnMut()) {
        match self.context.handler.event_loop() {
            Some(event_loop) => event_loop.wait(wait),
            None => wait(),
        }
    }

    #[inline]
    fn deadline_ns(&mut self) -> Option<u64> {
        let WorkerContext { timers, telemetry, handler, .. } = &mut self.context;
        let outbound_ns = handler.outbound().and_then(|it| it.deadline_ns());
        let loop_ns = handler.event_loop().and_then(|it| it.deadline_ns());
        earliest([
            timers.earliest_ns(),
            self.next_sweep_ns,
            telemetry.deadline_ns(),
            outbound_ns,
            loop_ns,
        ])
    }

    #[inline]
    fn next_ready(&mut self) -> Option<Wakeup> {
        let now_ns = self.context.now_ns;
        if self.next_sweep_ns.is_some_and(|next_sweep_ns| next_sweep_ns <= now_ns) {
            // Otherwise the driver's interval timer would be up to a second late.
            self.next_sweep_ns =
                self.context.shutdown.and_then(|shutdown| shutdown.next_end_ns(now_ns));
            return Some(Wakeup::All);
        }
        let WorkerContext { timers, handler, .. } = &mut self.context;
        let ready = self.over_limit.pop().or_else(|| timers.take_due(now_ns));
        let ready = ready.or_else(|| handler.outbound()?.next_ready(now_ns));
        if let Some(id) = ready.or_else(|| handler.event_loop()?.next_ready(now_ns)) {
            return Some(Wakeup::One(id));
        }
        handler.outbound()?.next_opening().map(Wakeup::Open)
    }
}
