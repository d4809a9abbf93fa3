//! Services of any type, so that servers and their owners need no type parameter.
//!
//! The one dynamic call starts a worker. From there on the types are known.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;

use crate::handler::Service;
use crate::metrics::Metrics;
use crate::worker_thread::WorkerThread;

/// A service of any type.
#[derive(Clone, Debug)]
pub struct DynService(Arc<dyn RunWorker>);

pub(crate) trait RunWorker: Debug + Send + Sync {
    fn report_to(&self, metrics: &Metrics);

    /// Whether workers are processes of their own.
    fn are_processes(&self) -> bool {
        false
    }

    fn run_worker(self: Arc<Self>, thread: WorkerThread) -> io::Result<()>;
}

impl<S: Service> RunWorker for S {
    fn report_to(&self, metrics: &Metrics) {
        Service::report_to(self, metrics);
    }

    fn run_worker(self: Arc<Self>, thread: WorkerThread) -> io::Result<()> {
        let (mut thread, mut outcome) = (Some(thread), Ok(()));
        Service::run_worker(&*self, &mut || {
            outcome = thread.take().map_or(Ok(()), |thread| thread.run(&self));
        });
        outcome
    }
}

impl<S: Service> From<S> for DynService {
    fn from(service: S) -> Self {
        Self(Arc::new(service))
    }
}

impl DynService {
    /// The same content, whose workers run on the thread that calls what `run_there` gets, one after
    /// the other. The thread of each worker waits for that meanwhile.
    #[must_use]
    pub fn on_thread(self, run_there: RunThere) -> Self {
        Self::of(OnThread { inner: self, run_there })
    }

    /// Workers of another kind than threads that run a [`Service`].
    pub(crate) fn of(workers: impl RunWorker + 'static) -> Self {
        Self(Arc::new(workers))
    }

    pub(crate) fn report_to(&self, metrics: &Metrics) {
        self.0.report_to(metrics);
    }

    /// Whether workers are processes of their own.
    pub(crate) fn are_processes(&self) -> bool {
        self.0.are_processes()
    }

    /// Runs a worker on this thread until it is shut down.
    pub(crate) fn run_worker(self, thread: WorkerThread) -> io::Result<()> {
        self.0.run_worker(thread)
    }
}

/// Passes a function to another thread, which calls it.
pub type RunThere = Arc<dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync>;

/// A service whose workers run on a thread that exists already, such as the main thread.
struct OnThread {
    inner: DynService,
    run_there: RunThere,
}

impl Debug for OnThread {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OnThread").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl RunWorker for OnThread {
    fn report_to(&self, metrics: &Metrics) {
        self.inner.report_to(metrics);
    }

    fn are_processes(&self) -> bool {
        self.inner.are_processes()
    }

    fn run_worker(self: Arc<Self>, thread: WorkerThread) -> io::Result<()> {
        let (sender, outcome) = mpsc::channel();
        let inner = self.inner.clone();
        (self.run_there)(Box::new(move || {
            // Its receiver waits for it.
            let _sent = sender.send(inner.run_worker(thread));
        }));
        // Without an outcome there was a panic, which is printed.
        outcome
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("a panic in jissoku, printed above")))
    }
}
