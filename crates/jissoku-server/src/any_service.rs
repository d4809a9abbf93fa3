//! Services of any type, so that servers and their owners need no type parameter.
//!
//! The one dynamic call starts a worker. From there on the types are known.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use crate::handler::Service;
use crate::metrics::Metrics;
use crate::worker_thread::WorkerThread;

/// A service of any type.
#[derive(Clone, Debug)]
pub struct AnyService(Arc<dyn RunWorker>);

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

impl<S: Service> From<S> for AnyService {
    fn from(service: S) -> Self {
        Self(Arc::new(service))
    }
}

impl AnyService {
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
