//! A running server: the current worker pool, and draining ones.

mod stopping;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use jissoku_os::poll;
use jissoku_os::socket::Endpoint;
use jissoku_os::socket::is_resource_exhausted;

use super::endpoints::Endpoints;
use super::restart_budget::{DescriptorReserve, RestartBudget};
use super::signals::{ServerEvent, SignalSet};
use super::worker_pool::{SharedState, WorkerPool, worker_failure};
use crate::connection_limiter::ConnectionLimiter;
use crate::dyn_service::DynService;
use crate::settings::Settings;
use crate::shutdown::{MOVE_DRAIN, RELOAD_DRAIN};
use crate::worker_process::StoppedBeforeReady;

/// How long a reload waits for the old workers to stop accepting.
const STOP_ACCEPTING_WAIT: Duration = Duration::from_secs(1);

/// How often handlers of an application in place of those of the server are looked for.
const HANDLERS_INTERVAL: Duration = Duration::from_secs(1);

/// A running server.
#[derive(Debug)]
pub struct RunningServer {
    settings: Settings,
    endpoints: Endpoints,
    shared: SharedState,
    current: WorkerPool,
    retired: Vec<WorkerPool>,
    restarts: RestartBudget,
    reserve: DescriptorReserve,
    phase: ServerPhase,
    /// Whether the end is a stop, rather than because another process serves now.
    is_stop: bool,
    interrupts: usize,
    /// The first error of a worker.
    outcome: io::Result<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerPhase {
    Serving,
    /// Stopping, not reported to the owner yet.
    Stopping,
    /// Stopping, reported to the owner.
    Ending,
}

impl RunningServer {
    /// Starts the first pool.
    pub(super) fn start(
        settings: &Settings,
        endpoints: Endpoints,
        service: DynService,
        signals: Option<&SignalSet>,
    ) -> io::Result<Self> {
        let assigned = endpoints.assign(settings)?;
        let limiter = Arc::new(ConnectionLimiter::new(&settings.limits));
        settings.telemetry.metrics.iter().for_each(|metrics| service.report_to(metrics));
        let shared = SharedState { service, limiter };
        let mut current = WorkerPool::new()?;
        let prepared = current.prepare(settings, assigned, &shared, signals);
        let listening = prepared.and_then(|()| endpoints.listen().map_err(io::Error::other));
        if let Err(error) = listening {
            current.cancel();
            return Err(error);
        }
        // The application may have installed handlers in its startup; no request is answered before
        // the server has its signals again.
        signals.map_or(Ok(()), SignalSet::share)?;
        current.start_accepting();
        Ok(Self {
            settings: settings.clone(),
            endpoints,
            shared,
            current,
            retired: Vec::new(),
            restarts: RestartBudget::default(),
            reserve: DescriptorReserve::default(),
            phase: ServerPhase::Serving,
            is_stop: false,
            interrupts: 0,
            outcome: Ok(()),
        })
    }

    /// The addresses of the listeners, with actual ports.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.endpoints.addresses()
    }

    /// All listeners by name, for a new process.
    pub fn sockets(&self) -> Vec<(String, Arc<OwnedFd>)> {
        self.endpoints.sockets()
    }

    /// Serves `service` with a new pool, and drains the old one once all new workers are ready.
    ///
    /// Endpoints that stay configured keep their sockets, so no connection is refused meanwhile.
    /// With [`Settings::moves_connections`], the old workers pass idle connections on to the new
    /// ones, unless their endpoints have changed. Otherwise they answer their connections with
    /// `Connection: close` and keep idle ones for `limits.drain_idle_ns`. A signal of `signals` to stop ends the reload, and is left to be
    /// handled.
    ///
    /// # Errors
    /// Why the new pool cannot be started. The old one stays in service unchanged.
    pub fn reload(
        &mut self,
        settings: &Settings,
        service: impl Into<DynService>,
        signals: Option<&SignalSet>,
    ) -> Result<(), String> {
        self.reserve.release();
        let endpoints = self.endpoints.open(settings)?;
        let started = self.start_pool(settings, &endpoints, (service.into(), signals));
        let (new, shared) = started.inspect_err(|_| endpoints.remove_files(&self.endpoints))?;
        (self.settings, self.shared) = (settings.clone(), shared);
        // Those of the old pool, whose places the new pool has filled.
        let _replaced = self.restarts.take_all();
        let old_endpoints = std::mem::replace(&mut self.endpoints, endpoints);
        let mut old = std::mem::replace(&mut self.current, new);
        let moves = old_endpoints.pass_connections_to(&self.endpoints);
        let woken = old.shut_down(if moves { MOVE_DRAIN } else { RELOAD_DRAIN });
        // New connections are served by the new pool. A worker that is busy for longer does no
        // harm.
        old.wait_until_not_accepting(STOP_ACCEPTING_WAIT);
        self.retired.push(old);
        old_endpoints.remove_files(&self.endpoints);
        woken.map_err(|error| not_started(&error))
    }

    /// Starts a pool next to the current one.
    fn start_pool(
        &mut self,
        settings: &Settings,
        endpoints: &Endpoints,
        (service, signals): (DynService, Option<&SignalSet>),
    ) -> Result<(WorkerPool, SharedState), String> {
        let assigned = endpoints.assign(settings).map_err(|error| not_started(&error))?;
        let limiter = match &self.shared.limiter {
            limiter if limiter.is_for(&settings.limits) => Arc::clone(limiter),
            // Existing connections are counted by the old limiter.
            _ => Arc::new(ConnectionLimiter::new(&settings.limits)),
        };
        settings.telemetry.metrics.iter().for_each(|metrics| service.report_to(metrics));
        let shared = SharedState { service, limiter };
        let mut new = WorkerPool::new().map_err(|error| not_started(&error))?;
        let prepared =
            new.prepare(settings, assigned, &shared, signals).map_err(|error| not_started(&error));
        // Last, because clients connect to new sockets at once and would be lost if these closed
        // again.
        let listening = prepared.and_then(|()| endpoints.listen());
        if let Err(error) = listening {
            self.discard(new, shared.service.are_processes());
            return Err(error);
        }
        new.start_accepting();
        Ok((new, shared))
    }

    /// Ends a pool that was not put into service. Its processes drain, because they accept
    /// connections as soon as they are ready.
    fn discard(&mut self, mut pool: WorkerPool, are_processes: bool) {
        if !are_processes {
            return pool.cancel();
        }
        // The error is ignored: the reason why the pool is not needed is reported.
        let _drained = pool.drain_unused();
        self.retired.push(pool);
    }

    fn pools(&self) -> impl Iterator<Item = &WorkerPool> {
        self.retired.iter().chain([&self.current])
    }

    /// Waits for the next event for the owner, and handles signals to stop. Also waits for `other`
    /// to become readable, with a timeout, and for the workers of the auxiliary server `aux`, which
    /// handles no signals.
    ///
    /// Needs no descriptor, so that signals are handled when descriptors are exhausted.
    ///
    /// # Errors
    /// The error of waiting, or of waking a worker.
    pub fn wait(
        &mut self,
        signals: &mut SignalSet,
        other: Option<(BorrowedFd<'_>, Duration)>,
        mut aux: Option<&mut Self>,
    ) -> io::Result<ServerEvent> {
        let deadline_ns = other.map(|(_, timeout)| {
            jissoku_os::clock::monotonic_ns().saturating_add(nanoseconds(timeout))
        });
        loop {
            if let Some(event) = self.take_event(signals)? {
                return Ok(event);
            }
            if let Some(event) = aux.as_deref_mut().map_or(Ok(None), Self::take_aux_event)? {
                return Ok(event);
            }
            let servers = || [Some(&*self), aux.as_deref()].into_iter().flatten();
            let look_again = signals.has_application.then_some(HANDLERS_INTERVAL);
            signals.share()?;
            let mut sources: Vec<BorrowedFd<'_>> = signals.all().map(AsFd::as_fd).into();
            sources.extend(servers().flat_map(Self::pools).map(AsFd::as_fd));
            sources.extend(other.map(|(other, _)| other));
            let now_ns = jissoku_os::clock::monotonic_ns();
            let retries = servers().filter_map(|server| server.restarts.retry_ns());
            let left_ns = retries.chain(deadline_ns).min().map(|ns| ns.saturating_sub(now_ns));
            let left = left_ns.map(Duration::from_nanos).into_iter().chain(look_again).min();
            let ready = poll::wait_readable(&sources, left)?;
            if other.is_some() && ready.last() == Some(&true) {
                return Ok(ServerEvent::OtherReadable);
            }
            if !ready.contains(&true) && deadline_ns.is_some_and(|end_ns| end_ns <= now_ns) {
                return Ok(ServerEvent::TimedOut);
            }
        }
    }

    /// The next event, without waiting.
    fn take_event(&mut self, signals: &mut SignalSet) -> io::Result<Option<ServerEvent>> {
        let interrupts = signals.interrupt.count();
        self.interrupts += interrupts;
        if self.interrupts > 1 {
            self.abandon()?;
        } else if interrupts + signals.terminate.count() > 0 {
            self.stop()?;
        }
        if let Some(event) = self.reap_workers(Some(signals))? {
            return Ok(Some(event));
        }
        if signals.reopen.count() > 0 {
            return Ok(Some(ServerEvent::ReopenLog));
        }
        let (reloads, replacements) = (signals.reload.count(), signals.replace.count());
        Ok(match self.phase {
            ServerPhase::Stopping => {
                self.phase = ServerPhase::Ending;
                Some(ServerEvent::Stopping)
            }
            ServerPhase::Ending if self.pools().all(WorkerPool::is_over) => {
                Some(ServerEvent::Stopped)
            }
            ServerPhase::Serving if replacements > 0 => Some(ServerEvent::Reexec),
            ServerPhase::Serving if reloads > 0 => Some(ServerEvent::Reload),
            _ => None,
        })
    }

    /// As [`RunningServer::take_event`], for an auxiliary server.
    fn take_aux_event(&mut self) -> io::Result<Option<ServerEvent>> {
        Ok(match self.reap_workers(None)? {
            Some(ServerEvent::WorkerRestarted(index, why)) => {
                Some(ServerEvent::AuxWorkerRestarted(index, why))
            }
            None if self.phase == ServerPhase::Stopping
                && self.pools().all(WorkerPool::is_over) =>
            {
                self.phase = ServerPhase::Ending;
                Some(ServerEvent::AuxStopped)
            }
            _ => None,
        })
    }

    /// Reaps exited workers and restarts those that crashed.
    fn reap_workers(&mut self, signals: Option<&SignalSet>) -> io::Result<Option<ServerEvent>> {
        let now_ns = jissoku_os::clock::monotonic_ns();
        for index in self.current.take_exited() {
            if self.phase == ServerPhase::Serving {
                let fault = self.current.reap(index);
                let why = fault.err().map_or("no reason".to_owned(), |error| error.to_string());
                self.restarts.add(index, why, now_ns);
                if self.shared.service.are_processes() {
                    self.restarts.back_off(now_ns);
                }
            }
        }
        for mut pool in std::mem::take(&mut self.retired) {
            pool.take_exited();
            if pool.is_over() {
                let ended = pool.join();
                self.record_outcome(ended);
            } else {
                self.retired.push(pool);
            }
        }
        let event = self.replace_lost(now_ns, signals)?;
        self.reserve.fill(self.endpoints.count());
        Ok(event)
    }

    /// Restarts a failed worker. Its listeners stay open meanwhile, so no connection is lost. When
    /// the restart budget is exhausted the server stops gracefully and leaves the decision to the
    /// supervisor of the process. A lack of descriptors is retried: connections may take those of
    /// the reserve first.
    fn replace_lost(
        &mut self,
        now_ns: u64,
        signals: Option<&SignalSet>,
    ) -> io::Result<Option<ServerEvent>> {
        if self.phase != ServerPhase::Serving {
            for (index, why) in self.restarts.take_all() {
                self.record_outcome(Err(worker_failure(index, &why)));
            }
            return Ok(None);
        }
        let Some((index, why)) = self.restarts.take_due(now_ns) else { return Ok(None) };
        let are_processes = self.shared.service.are_processes();
        let replaced = if !are_processes && self.restarts.are_too_many(now_ns) {
            Err(io::Error::other(format!("worker {index} has failed once too often: {why}")))
        } else {
            self.reserve.release();
            self.endpoints.assign_one(&self.settings, index).and_then(|listeners| {
                self.current.replace(index, &self.settings, listeners, (&self.shared, signals))
            })
        };
        match replaced {
            Ok(()) => Ok(Some(ServerEvent::WorkerRestarted(index, why))),
            // The signal is handled next.
            Err(error) if StoppedBeforeReady::is_cause_of(&error) => {
                self.restarts.put_off(index, why, now_ns);
                Ok(None)
            }
            Err(error) if is_resource_exhausted(&error) => {
                self.restarts.put_off(index, why, now_ns);
                Ok(None)
            }
            // An application that cannot be imported now may be corrected later.
            Err(error) if are_processes => {
                self.restarts.add(index, error.to_string(), now_ns);
                self.restarts.back_off(now_ns);
                Ok(Some(ServerEvent::WorkerNotRestarted(index, error.to_string())))
            }
            Err(error) => {
                self.record_outcome(Err(error));
                self.stop().map(|()| None)
            }
        }
    }

    fn record_outcome(&mut self, ended: io::Result<()>) {
        self.outcome = std::mem::replace(&mut self.outcome, Ok(())).and(ended);
    }

    /// Waits for the workers to exit.
    ///
    /// # Errors
    /// The first error of a worker.
    pub fn join(self) -> io::Result<()> {
        let mut outcome = self.outcome;
        for pool in self.retired.into_iter().chain([self.current]) {
            outcome = outcome.and(pool.join());
        }
        outcome
    }
}

fn not_started(error: &io::Error) -> String {
    format!("cannot start new workers: {error}")
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::Fixed;
    use crate::server::Server;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn a_worker_that_was_lost_before_a_reload_is_not_replaced_after_it() {
        let two =
            Settings { workers: 2, ..Settings::new("127.0.0.1:0".parse().expect("an address")) };
        let server = Server::listen(two.clone()).expect("a listener");
        let mut running = server.start(Fixed::new("")).expect("it starts");
        running.restarts.add(1, "on purpose".to_owned(), 0);
        let one = Settings { workers: 1, ..two };
        running.reload(&one, Fixed::new(""), None).expect("it reloads");
        let event = running.replace_lost(1, None).expect("nothing is to be done");
        assert!(event.is_none(), "{event:?}");
        running.stop().expect("its workers are woken");
        running.join().expect("its workers end");
    }

    /// As after a failure of the thread that watches the workers.
    #[test]
    fn a_server_that_is_dropped_stops_workers_on_a_thread_of_the_program() {
        let (sender, queue) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let program = thread::spawn(move || queue.into_iter().for_each(|work| work()));
        let run_there = Arc::new(move |work| sender.send(work).expect("the program runs"));
        let service = DynService::from(Fixed::new("")).on_thread(run_there);
        let settings = Settings::new("127.0.0.1:0".parse().expect("an address"));
        let server = Server::listen(Settings { workers: 1, ..settings }).expect("a listener");
        drop(server.start(service).expect("it starts"));
        program.join().expect("its worker ends");
    }
}
