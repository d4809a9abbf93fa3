//! A worker: one thread with its own driver and connections. Workers share only the content.

use std::io;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use jissoku_os::driver::{
    ConnectionId, Driver, Handler, NewConnection, Next, PollOutcome, ResumeTarget, SendBuffer,
};
use jissoku_os::socket;

use crate::connection::Connection;
use crate::connection_limiter::ConnectionLimiter;
use crate::fault_injector::{FaultInjector, InjectedFault};
use crate::handler::{Content, WorkerSite};
use crate::limits::{Limits, REFUSALS_MAX};
use crate::metrics::Counter;
use crate::server::Settings;
use crate::shutdown::{ABORT, Shutdown, ShutdownSignal};
use crate::status_lines::StatusLineCache;
use crate::telemetry::Telemetry;
use crate::timers::{Linear, Timers};
use crate::tls::{Tls, TlsSession};
use crate::transport::Transport;

/// The state of a worker that its connections use.
#[derive(Debug)]
pub(crate) struct WorkerContext {
    service: WorkerSite,
    limits: Limits,
    status_lines: StatusLineCache,
    timers: Timers,
    telemetry: Telemetry,
    /// Reusable buffer for plaintext that is about to be encrypted.
    plain: SendBuffer,
    limiter: Arc<ConnectionLimiter>,
    /// Open connections over a limit.
    over_limit_open: usize,
    injector: Option<Box<FaultInjector>>,
    now_ns: u64,
    shutdown: Option<Shutdown>,
}

impl WorkerContext {
    pub(crate) fn new(
        service: WorkerSite,
        limiter: Arc<ConnectionLimiter>,
        limits: Limits,
        now_ns: u64,
    ) -> Self {
        Self {
            service,
            limits,
            status_lines: StatusLineCache::new(now_ns),
            timers: Timers::default(),
            telemetry: Telemetry::default(),
            plain: SendBuffer::default(),
            limiter,
            over_limit_open: 0,
            injector: None,
            now_ns,
            shutdown: None,
        }
    }

    /// Advances the clock.
    #[cfg(test)]
    pub(crate) const fn pass(&mut self, span_ns: u64) {
        self.now_ns += span_ns;
    }

    /// The time of this wake-up, on the monotonic clock.
    #[inline]
    pub(crate) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    #[inline]
    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    #[inline]
    pub(crate) const fn service(&self) -> &WorkerSite {
        &self.service
    }

    #[inline]
    pub(crate) const fn service_mut(&mut self) -> &mut WorkerSite {
        &mut self.service
    }

    #[inline]
    pub(crate) const fn status_lines(&self) -> &StatusLineCache {
        &self.status_lines
    }

    /// Whether a connection over a limit may linger, to read the 503.
    pub(crate) const fn may_linger_over_limit(&self) -> bool {
        self.over_limit_open <= REFUSALS_MAX
    }

    /// The injected faults, if any.
    #[inline]
    pub(crate) fn injector_mut(&mut self) -> Option<&mut FaultInjector> {
        self.injector.as_deref_mut()
    }

    #[inline]
    pub(crate) const fn telemetry(&mut self) -> &mut Telemetry {
        &mut self.telemetry
    }

    /// Takes the empty plaintext buffer.
    pub(crate) fn take_plain_buffer(&mut self) -> SendBuffer {
        std::mem::take(&mut self.plain)
    }

    /// Returns the plaintext buffer; `plain` is empty.
    pub(crate) fn return_plain_buffer(&mut self, plain: SendBuffer) {
        self.plain = plain;
    }

    pub(crate) fn set_timer(&mut self, due_ns: u64, id: ConnectionId) {
        self.timers.add(due_ns, id);
    }

    #[inline]
    pub(crate) const fn is_stopping(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Whether the time for requests in flight is over.
    pub(crate) const fn shutdown_deadline_passed(&self) -> bool {
        match &self.shutdown {
            Some(shutdown) => shutdown.is_over(self.now_ns),
            None => false,
        }
    }

    /// Whether a connection idle for `idle_ns` may be closed because of a shutdown.
    pub(crate) const fn may_close_idle(&self, idle_ns: u64) -> bool {
        match &self.shutdown {
            Some(shutdown) => shutdown.may_close_idle(idle_ns, self.now_ns),
            None => false,
        }
    }
}

/// The handler of one driver.
#[derive(Debug)]
pub(crate) struct Worker {
    context: WorkerContext,
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
}

impl Worker {
    pub(crate) fn new(
        site: Arc<Content>,
        limiter: Arc<ConnectionLimiter>,
        settings: &Settings,
    ) -> Self {
        let now_ns = jissoku_os::clock::monotonic_ns();
        let telemetry = settings.telemetry.telemetry();
        let service = WorkerSite::new(site, telemetry.shard_handle());
        let mut context = WorkerContext::new(service, limiter, settings.limits, now_ns);
        context.telemetry = telemetry;
        Self {
            context,
            over_limit: Vec::new(),
            next_sweep_ns: None,
            tls: settings.tls.clone(),
            endpoint_indices: Vec::new(),
            accepting: None,
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

    /// Enables injected faults.
    ///
    /// # Errors
    /// The error of creating the file of the fault `log`.
    pub(crate) fn inject_faults(&mut self, injected_faults: &[InjectedFault]) -> io::Result<()> {
        self.context.injector = FaultInjector::new(injected_faults)?;
        if injected_faults.contains(&InjectedFault::LinearTimers) {
            self.context.timers = Timers::Linear(Linear::default());
        }
        Ok(())
    }

    /// Runs until it is shut down.
    ///
    /// # Errors
    /// The driver's error: waiting failed.
    pub(crate) fn run(
        mut self,
        mut driver: Driver<Self>,
        signal: &ShutdownSignal,
    ) -> io::Result<()> {
        let ended = catch_unwind(AssertUnwindSafe(|| self.serve(&mut driver, signal)));
        // Also after a panic, so that the connection limits stay correct.
        driver.close_all(&mut self);
        ended.unwrap_or_else(|fault| resume_unwind(fault))
    }

    fn serve(&mut self, driver: &mut Driver<Self>, signal: &ShutdownSignal) -> io::Result<()> {
        loop {
            let outcome = driver.run_once(self)?;
            if outcome == PollOutcome::Woken {
                match signal.get() {
                    ABORT => return Ok(()),
                    signal => self.apply_command(signal, driver)?,
                }
            }
            if self.context.is_stopping() && driver.connections() == 0 {
                return Ok(());
            }
        }
    }

    /// Starts a shutdown, or escalates it.
    fn apply_command(&mut self, signal: u8, driver: &mut Driver<Self>) -> io::Result<()> {
        let given = self.context.shutdown.map_or(0, |shutdown| shutdown.signal);
        if signal <= given {
            return Ok(());
        }
        if given == 0 {
            driver.stop_listening(self)?;
            self.accepting = None;
        }
        let now_ns = self.context.now_ns;
        self.context.shutdown = Some(Shutdown::new(signal, &self.context.limits, now_ns));
        // Some connections can be closed now, the others when their time is over.
        self.next_sweep_ns = Some(now_ns);
        Ok(())
    }
}

impl Handler for Worker {
    type Connection = Transport;

    fn on_open(&mut self, arrival: &NewConnection<'_>) -> Transport {
        // From here on the index is that of the endpoint.
        let listener = self.endpoint_indices.get(arrival.listener).copied().unwrap_or_default();
        let arrival = &NewConnection { listener, ..*arrival };
        let permit = self.context.limiter.acquire(arrival.socket);
        if permit.is_over_limit {
            self.context.over_limit_open += 1;
            self.over_limit.push(arrival.id);
        }
        let log_slot = self.context.telemetry.open(arrival.socket);
        let connection = Connection::new(arrival.id, permit, self.context.now_ns);
        let mut connection = connection.with_log_slot(log_slot);
        if let Some(injector) = &self.context.injector {
            connection.set_injection_peer(injector.open(arrival.socket));
        }
        match &self.tls {
            Some(tls) if socket::is_tcp(arrival.socket) => {
                Transport::Tls(Box::new(TlsSession::new(tls, connection, self.context.now_ns)))
            }
            _ => Transport::Plain(connection),
        }
    }

    #[inline]
    fn on_data(
        &mut self,
        transport: &mut Transport,
        bytes: &[u8],
        output: &mut SendBuffer,
    ) -> Next {
        let before = output.size();
        let next = transport.on_data(bytes, &mut self.context, output);
        self.context.telemetry.count(Counter::ReceivedBytes, bytes.len() as u64);
        self.context.telemetry.count(Counter::SentBytes, (output.size() - before) as u64);
        next
    }

    fn on_eof(&mut self, transport: &mut Transport, output: &mut SendBuffer) -> Next {
        let before = output.size();
        let next = transport.on_eof(&mut self.context, output);
        self.context.telemetry.count(Counter::SentBytes, (output.size() - before) as u64);
        next
    }

    fn resume(
        &mut self,
        transport: &mut Transport,
        unsent: usize,
        output: &mut SendBuffer,
    ) -> Next {
        let before = output.size();
        let next = transport.resume(unsent, &mut self.context, output);
        self.context.telemetry.count(Counter::SentBytes, (output.size() - before) as u64);
        next
    }

    fn on_close(&mut self, transport: Transport) {
        let connection = transport.into_connection();
        let permit = connection.permit();
        self.context.over_limit_open -= usize::from(permit.is_over_limit);
        self.context.limiter.release(permit);
        self.context.telemetry.close(connection.into_log_slot());
    }

    #[inline]
    fn on_tick(&mut self, now_ns: u64) {
        self.context.now_ns = now_ns;
        self.context.status_lines.refresh(now_ns);
        self.context.telemetry.wake(now_ns);
    }

    #[inline]
    fn deadline_ns(&self) -> Option<u64> {
        let WorkerContext { timers, telemetry, .. } = &self.context;
        let deadlines = [timers.earliest_ns(), self.next_sweep_ns, telemetry.deadline_ns()];
        deadlines.into_iter().flatten().min()
    }

    #[inline]
    fn next_ready(&mut self) -> Option<ResumeTarget> {
        let now_ns = self.context.now_ns;
        if self.next_sweep_ns.is_some_and(|next_sweep_ns| next_sweep_ns <= now_ns) {
            let end_ns = self.context.shutdown.map(|shutdown| shutdown.idle_end_ns());
            // After the second sweep, the driver's interval timer suffices.
            self.next_sweep_ns = end_ns.filter(|&end_ns| end_ns > now_ns);
            return Some(ResumeTarget::All);
        }
        let over_limit = self.over_limit.pop();
        over_limit.or_else(|| self.context.timers.take_due(now_ns)).map(ResumeTarget::One)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jissoku_os::socket::Endpoint;

    use super::*;
    use crate::handler::Contract;

    #[test]
    fn timers_are_a_list_only_where_that_is_planted() {
        let site = Arc::new(Content::Contract(Contract::new(None, Duration::ZERO, 0)));
        let limiter = Arc::new(ConnectionLimiter::new(&Limits::DEFAULT));
        let nowhere = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
        let mut worker = Worker::new(site, limiter, &Settings::new(nowhere));
        worker.inject_faults(&[InjectedFault::Split]).expect("nothing can fail");
        assert!(matches!(worker.context.timers, Timers::Wheel(_)));
        worker.inject_faults(&[InjectedFault::LinearTimers]).expect("nothing can fail");
        assert!(matches!(worker.context.timers, Timers::Linear(_)));
    }
}
