//! The thread of a worker: creates its driver and handler, reports that it is ready, and serves.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use jissoku_os::driver::{self, Backend, Driver, Listener, Waker};

use crate::connection_limiter::ConnectionLimiter;
use crate::handler::{Service, WorkerInfo};
use crate::limits::REFUSALS_MAX;
use crate::settings::Settings;
use crate::shutdown::ShutdownSignal;
use crate::worker::Worker;

#[derive(Debug, Default)]
pub(crate) struct WorkerListeners {
    pub(crate) listeners: Vec<Listener>,
    /// The index of the endpoint of each listener: a worker may have two of one.
    pub(crate) endpoint_indices: Vec<usize>,
    /// How connections are passed on between workers.
    pub(crate) moves: Vec<EndpointMoves>,
}

/// The queue of the connections of one endpoint that workers pass on.
#[derive(Debug)]
pub(crate) struct EndpointMoves {
    pub(crate) endpoint_index: usize,
    /// The address of the endpoint, as it is written in the names of descriptors.
    pub(crate) name: String,
    pub(crate) receiver: OwnedFd,
    pub(crate) sender: OwnedFd,
}

impl WorkerListeners {
    /// Makes listeners of the queues, and returns for each listener the queue to send to.
    fn take_moves(&mut self) -> Vec<Option<Arc<OwnedFd>>> {
        let mut senders = BTreeMap::new();
        for EndpointMoves { endpoint_index, receiver, sender, .. } in self.moves.drain(..) {
            self.listeners.push(Listener::Moved(receiver));
            self.endpoint_indices.push(endpoint_index);
            senders.insert(endpoint_index, Arc::new(sender));
        }
        self.endpoint_indices.iter().map(|index| senders.get(index).map(Arc::clone)).collect()
    }
}

/// What a worker needs to start.
#[derive(Debug)]
pub(crate) struct WorkerThread {
    pub(crate) index: u16,
    pub(crate) settings: Settings,
    pub(crate) listeners: WorkerListeners,
    pub(crate) limiter: Arc<ConnectionLimiter>,
    pub(crate) order: Arc<ShutdownSignal>,
    pub(crate) waker: Waker,
    /// Held while connections are accepted.
    pub(crate) accepting: Option<UnixStream>,
    /// Receives the result of the start.
    pub(crate) ready: ReadySender,
    /// Sends when connections are to be accepted; closed to cancel.
    pub(crate) start_rx: Receiver<()>,
    /// Receives the index when the worker exits.
    pub(crate) exit_tx: UnixStream,
}

type Prepared<H> = (Worker<H>, Driver<Worker<H>>);

impl WorkerThread {
    /// Runs until the worker is shut down.
    ///
    /// # Errors
    /// Waiting for events failed. An error of the start is sent to `ready` instead.
    pub(crate) fn run<S: Service>(mut self, service: &Arc<S>) -> io::Result<()> {
        let (worker, driver) = match self.prepare(service) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.ready.send(Err(error));
                return Ok(());
            }
        };
        // From here on the worker is counted, so its exit has to be reported.
        let _notifier = ExitNotifier(self.exit_tx, self.index);
        self.ready.send(Ok(()));
        match self.start_rx.recv() {
            Ok(()) => worker.run(driver, &self.order),
            // The pool was cancelled.
            Err(_) => Ok(()),
        }
    }

    fn prepare<S: Service>(&mut self, service: &Arc<S>) -> io::Result<Prepared<S::Handler>> {
        let Settings { cores, limits, .. } = &self.settings;
        let index = usize::from(self.index);
        if let Some(&core) = cores.get(index % cores.len().max(1)) {
            jissoku_os::affinity::pin(&[core])?;
        }
        // The default slack would delay every timer by up to 50 us.
        jissoku_os::timer::set_min_timer_slack()?;
        let telemetry = self.settings.telemetry.telemetry();
        let parent = self.settings.parent.clone();
        let info = WorkerInfo { index, parent, counters: telemetry.shard_handle() };
        let handler = service.handler(&info)?;
        let watch = self.settings.hang_watch;
        let heartbeat = watch.map(|watch| watch.start(index, self.waker.clone())).transpose()?;
        let mut listeners = std::mem::take(&mut self.listeners);
        let queues = match self.settings.driver.backend {
            Backend::Auto | Backend::Epoll => listeners.take_moves(),
            Backend::Uring => Vec::new(),
        };
        let limiter = Arc::clone(&self.limiter);
        let mut worker = Worker::new(handler, limiter, &self.settings, telemetry)
            .with_heartbeat(heartbeat)
            .with_listeners(listeners.endpoint_indices, self.accepting.take());
        // Connections over the limit are accepted up to a margin, to be answered with 503.
        let driver_settings = driver::Settings {
            connections_max: limits.connections_max.saturating_add(REFUSALS_MAX),
            ..self.settings.driver
        };
        let mut driver = Driver::new(listeners.listeners, self.waker.clone(), driver_settings)?;
        driver.move_to(queues);
        if let Some(watched) = worker.watched() {
            driver.watch(watched)?;
        }
        Ok((worker, driver))
    }
}

/// Sends the result of a worker's start, once; dropped before, it sends that there is none.
#[derive(Debug)]
pub(crate) struct ReadySender(Option<(Sender<io::Result<()>>, Waker)>);

impl ReadySender {
    /// Sends to `results`, and wakes the receiver.
    pub(crate) const fn new(results: Sender<io::Result<()>>, waker: Waker) -> Self {
        Self(Some((results, waker)))
    }

    pub(crate) fn send(mut self, result: io::Result<()>) {
        self.send_once(result);
    }

    fn send_once(&mut self, result: io::Result<()>) {
        if let Some((results, waker)) = self.0.take() {
            // The pool waits for it, unless it has failed itself.
            let _received = results.send(result);
            let _woken = waker.wake();
        }
    }
}

impl Drop for ReadySender {
    fn drop(&mut self) {
        self.send_once(Err(io::Error::other("a worker did not begin")));
    }
}

/// Reports the exit of a worker, also after a panic. Created once the worker is counted.
#[derive(Debug)]
pub(crate) struct ExitNotifier(pub(crate) UnixStream, pub(crate) u16);

impl Drop for ExitNotifier {
    fn drop(&mut self) {
        // The pool may be gone.
        let _written = self.0.write(&self.1.to_ne_bytes());
    }
}
