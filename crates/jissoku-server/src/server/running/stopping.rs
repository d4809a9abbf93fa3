//! How a running server ends: at once, after its requests, or by handing its connections over.

use std::io;
use std::time::Duration;

use super::{RunningServer, STOP_ACCEPTING_WAIT, ServerPhase};
use crate::server::endpoints::Endpoints;
use crate::server::worker_pool::WorkerPool;

impl RunningServer {
    /// Stops accepting; workers exit once requests in flight are answered.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn stop(&mut self) -> io::Result<()> {
        self.endpoints.remove_files(&Endpoints::default());
        // The last duplicate of a listener has to be closed by a worker, after its queue is empty.
        self.endpoints = Endpoints::default();
        self.is_stop = true;
        self.enter_stopping();
        self.pools().try_for_each(WorkerPool::drain_for_stop)
    }

    /// Drains all workers: another process accepts on the same sockets.
    ///
    /// Returns once no worker accepts any more, or after [`STOP_ACCEPTING_WAIT`] at most for each
    /// pool.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn hand_over(&mut self) -> io::Result<()> {
        self.endpoints = Endpoints::default();
        self.enter_stopping();
        let woken = self.pools().try_for_each(WorkerPool::drain_for_reload);
        for pool in self.retired.iter_mut().chain([&mut self.current]) {
            pool.wait_until_not_accepting(STOP_ACCEPTING_WAIT);
        }
        woken
    }

    /// As [`RunningServer::hand_over`], for a worker process: passes idle connections on to the
    /// others.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn move_connections(&mut self) -> io::Result<()> {
        self.endpoints = Endpoints::default();
        self.enter_stopping();
        self.pools().try_for_each(WorkerPool::drain_by_moving)
    }

    /// Stops all workers at once.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn abandon(&mut self) -> io::Result<()> {
        self.endpoints.remove_files(&Endpoints::default());
        self.endpoints = Endpoints::default();
        self.is_stop = true;
        self.enter_stopping();
        self.pools().try_for_each(WorkerPool::abort)
    }

    /// How long connections are served, once the server is ending.
    #[must_use]
    pub fn time_of_end(&self) -> Duration {
        let limits = &self.settings.limits;
        Duration::from_nanos(if self.is_stop {
            limits.stop_ns_max
        } else {
            limits.drain_ns_max.max(limits.drain_streams_ns_max)
        })
    }

    fn enter_stopping(&mut self) {
        if self.phase == ServerPhase::Serving {
            self.phase = ServerPhase::Stopping;
        }
    }
}
