//! A pool of worker threads with the same content and settings.

use std::fmt::Display;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jissoku_os::driver::Waker;
use jissoku_os::poll;

use super::signals::SignalSet;
use crate::connection_limiter::ConnectionLimiter;
use crate::dyn_service::DynService;
use crate::settings::Settings;
use crate::shutdown::{RELOAD_DRAIN, STOP_DRAIN, ShutdownSignal};
use crate::worker_thread::{ReadySender, WorkerListeners, WorkerThread};

/// What the workers of a pool share.
#[derive(Clone, Debug)]
pub(super) struct SharedState {
    pub(super) service: DynService,
    /// Counts the connections of all pools.
    pub(super) limiter: Arc<ConnectionLimiter>,
}

/// Workers that were started together and are stopped together.
#[derive(Debug)]
pub(super) struct WorkerPool {
    order: Arc<ShutdownSignal>,
    wakers: Vec<Waker>,
    /// The threads; `None` for one that has failed.
    workers: Vec<Option<JoinHandle<io::Result<()>>>>,
    /// Receives the index of every worker that exits.
    exited: UnixStream,
    exit_tx: UnixStream,
    /// Workers that were ready and have not exited.
    running_count: usize,
    /// Start signals of workers; dropped to cancel them.
    start_signals: Vec<Sender<()>>,
    /// Every worker holds a duplicate while it accepts; this one is for workers to come.
    accepting: Option<UnixStream>,
    /// Reports end of file when the last duplicate is closed.
    accepting_ended: UnixStream,
}

impl WorkerPool {
    /// A pool without workers.
    ///
    /// # Errors
    /// The error of creating its sockets: descriptors are exhausted.
    pub(super) fn new() -> io::Result<Self> {
        let (exited, exit_tx) = UnixStream::pair()?;
        exited.set_nonblocking(true)?;
        let (accepting, accepting_ended) = UnixStream::pair()?;
        Ok(Self {
            order: Arc::default(),
            wakers: Vec::new(),
            workers: Vec::new(),
            exited,
            exit_tx,
            running_count: 0,
            start_signals: Vec::new(),
            accepting: Some(accepting),
            accepting_ended,
        })
    }

    /// Starts a worker for each of `assigned` and waits until each is ready. No thread accepts
    /// before [`WorkerPool::start_accepting`]; a process does as soon as it is ready. A signal of
    /// `signals` to stop ends processes that are not ready, and is left to be read.
    ///
    /// # Errors
    /// The error of creating a thread or its resources. Other workers may be ready: call
    /// [`WorkerPool::cancel`] or [`WorkerPool::drain_unused`].
    pub(super) fn prepare(
        &mut self,
        settings: &Settings,
        assigned: Vec<WorkerListeners>,
        shared: &SharedState,
        signals: Option<&SignalSet>,
    ) -> io::Result<()> {
        let results = StartResults::new()?;
        let mut outcome = Ok(());
        for (index, listeners) in assigned.into_iter().enumerate() {
            let ready = results.sender();
            match self.spawn_worker(index, settings, shared, (listeners, ready)) {
                Ok(spawned) => {
                    self.wakers.push(spawned.waker);
                    self.workers.push(Some(spawned.thread));
                    self.start_signals.push(spawned.start_signal);
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        for _ in 0..self.workers.len() {
            match self.await_ready(&results, signals)? {
                Ok(()) => self.running_count += 1,
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// Waits until a worker reports whether it is ready.
    ///
    /// # Errors
    /// The error of `poll(2)`, or of waking a worker.
    fn await_ready(
        &self,
        results: &StartResults,
        signals: Option<&SignalSet>,
    ) -> io::Result<io::Result<()>> {
        let mut is_stopping = false;
        loop {
            if let Ok(result) = results.receiver.try_recv() {
                return Ok(result);
            }
            let mut sources = vec![results.waker.as_fd()];
            if let Some(signals) = signals.filter(|_| !is_stopping) {
                sources.extend([signals.terminate.as_fd(), signals.interrupt.as_fd()]);
            }
            let ready = poll::wait_readable(&sources, None)?;
            results.waker.take();
            if ready[1..].contains(&true) {
                is_stopping = true;
                self.shut_down(STOP_DRAIN)?;
            }
        }
    }

    /// Lets the workers accept connections.
    pub(super) fn start_accepting(&mut self) {
        for start_signal in self.start_signals.drain(..) {
            // A worker that has exited since is restarted like any other.
            let _sent = start_signal.send(());
        }
    }

    /// Stops workers that have not started to accept, at once.
    pub(super) fn cancel(mut self) {
        self.start_signals.clear();
        // Their errors are already reported.
        let _ended = self.join();
    }

    /// Drains the workers of a pool that is not needed after all: those that are processes may have
    /// accepted connections.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub(super) fn drain_unused(&mut self) -> io::Result<()> {
        self.start_accepting();
        self.shut_down(RELOAD_DRAIN)
    }

    /// Joins a worker that has reported its exit, and returns its result.
    pub(super) fn reap(&mut self, index: usize) -> io::Result<()> {
        self.workers[index].take().map_or(Ok(()), outcome_of)
    }

    /// Starts a worker in place of one that has exited, and waits until it is ready.
    ///
    /// # Errors
    /// The error of creating a thread or its resources. The place stays empty then.
    pub(super) fn replace(
        &mut self,
        index: usize,
        settings: &Settings,
        listeners: WorkerListeners,
        (shared, signals): (&SharedState, Option<&SignalSet>),
    ) -> io::Result<()> {
        let results = StartResults::new()?;
        let ready = results.sender();
        let spawned = self.spawn_worker(index, settings, shared, (listeners, ready))?;
        let old_waker = std::mem::replace(&mut self.wakers[index], spawned.waker);
        if let Err(error) = self.await_ready(&results, signals)? {
            self.wakers[index] = old_waker;
            // Its error was received, or its panic was printed.
            let _ended = spawned.thread.join();
            return Err(error);
        }
        self.running_count += 1;
        self.workers[index] = Some(spawned.thread);
        self.start_signals.push(spawned.start_signal);
        self.start_accepting();
        Ok(())
    }

    fn spawn_worker(
        &self,
        index: usize,
        settings: &Settings,
        shared: &SharedState,
        (listeners, ready): (WorkerListeners, ReadySender),
    ) -> io::Result<SpawnedWorker> {
        let waker = Waker::new()?;
        let (start_signal, start_rx) = mpsc::channel();
        let worker = WorkerThread {
            index: u16::try_from(index).map_err(io::Error::other)?,
            settings: settings.clone(),
            listeners,
            limiter: Arc::clone(&shared.limiter),
            order: Arc::clone(&self.order),
            waker: waker.clone(),
            accepting: self.accepting.as_ref().map(UnixStream::try_clone).transpose()?,
            ready,
            start_rx,
            exit_tx: self.exit_tx.try_clone()?,
        };
        let service = shared.service.clone();
        let thread = thread::Builder::new().name(format!("worker-{index}"));
        let thread = thread.spawn(move || service.run_worker(worker))?;
        Ok(SpawnedWorker { waker, thread, start_signal })
    }

    /// Waits until no worker accepts any more, for at most `timeout`.
    pub(super) fn wait_until_not_accepting(&mut self, timeout: Duration) {
        self.accepting = None;
        let timeout = self.accepting_ended.set_read_timeout(Some(timeout));
        // Nothing is ever sent: the read ends with end of file or a timeout.
        let _gone = timeout.and_then(|()| self.accepting_ended.read(&mut [0]));
    }

    /// Requests the workers to end in this way.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub(super) fn shut_down(&self, signal: u8) -> io::Result<()> {
        self.order.request(signal);
        self.wakers.iter().try_for_each(Waker::wake)
    }

    /// Workers that have exited since the last call; does not wait.
    pub(super) fn take_exited(&mut self) -> Vec<usize> {
        // Each index is written atomically, so none is read in halves.
        let mut numbers = [0; 64];
        let size = (&self.exited).read(&mut numbers).unwrap_or(0);
        let number = |bytes: &[u8; 2]| usize::from(u16::from_ne_bytes(*bytes));
        let exited: Vec<usize> = numbers[..size].as_chunks().0.iter().map(number).collect();
        self.running_count -= exited.len();
        exited
    }

    /// Whether all workers have exited.
    pub(super) const fn is_over(&self) -> bool {
        self.running_count == 0
    }

    /// Waits for the workers to exit.
    ///
    /// # Errors
    /// The first error of a worker, with its index.
    pub(super) fn join(mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        for (index, worker) in std::mem::take(&mut self.workers).into_iter().enumerate() {
            let Some(worker) = worker else { continue };
            outcome = outcome.and(outcome_of(worker).map_err(|why| worker_failure(index, &why)));
        }
        outcome
    }
}

impl Drop for WorkerPool {
    /// Stops the workers: their owner has failed, and nothing else could end those that run on a
    /// thread of the program.
    fn drop(&mut self) {
        // A worker without a waker has ended.
        let _woken = self.shut_down(STOP_DRAIN);
    }
}

/// The error of a worker that has failed and is not replaced, because the server stops.
pub(super) fn worker_failure(index: usize, why: &impl Display) -> io::Error {
    io::Error::other(format!("worker {index} has failed: {why}"))
}

/// Joins a worker and returns its result.
fn outcome_of(worker: JoinHandle<io::Result<()>>) -> io::Result<()> {
    worker.join().unwrap_or_else(|_| Err(io::Error::other("a panic in jissoku, printed above")))
}

impl AsFd for WorkerPool {
    /// Becomes readable when a worker exits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.exited.as_fd()
    }
}

/// Receives the results of the starts of workers, each of which wakes.
#[derive(Debug)]
struct StartResults {
    receiver: Receiver<io::Result<()>>,
    tx: Sender<io::Result<()>>,
    waker: Waker,
}

impl StartResults {
    fn new() -> io::Result<Self> {
        let (tx, receiver) = mpsc::channel();
        Ok(Self { receiver, tx, waker: Waker::new()? })
    }

    fn sender(&self) -> ReadySender {
        ReadySender::new(self.tx.clone(), self.waker.clone())
    }
}

/// A worker thread that is starting.
#[derive(Debug)]
struct SpawnedWorker {
    waker: Waker,
    thread: JoinHandle<io::Result<()>>,
    start_signal: Sender<()>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::Fixed;
    use crate::limits::Limits;

    fn shared() -> SharedState {
        let limiter = Arc::new(ConnectionLimiter::new(&Limits::DEFAULT));
        SharedState { service: Fixed::new("").into(), limiter }
    }

    #[test]
    fn a_worker_that_cannot_take_a_place_is_not_counted_as_ended() {
        let settings = Settings::new("127.0.0.1:0".parse().expect("an address"));
        let mut pool = WorkerPool::new().expect("there are descriptors");
        pool.prepare(&settings, vec![WorkerListeners::default()], &shared(), None)
            .expect("a worker can be made");
        let nowhere = Settings { cores: vec![4095], ..settings };
        let failed = pool.replace(0, &nowhere, WorkerListeners::default(), (&shared(), None));
        assert!(failed.is_err(), "there is no such core");
        // The failure was returned by `replace`, and is not reported again as an exit.
        assert_eq!(pool.take_exited(), Vec::<usize>::new());
        assert!(!pool.is_over(), "the first one is there");
    }
}
