//! How a running server ends: at once, after its requests, or by handing its connections over.

use std::io;
use std::time::Duration;

use super::{RunningServer, STOP_ACCEPTING_WAIT, ServerPhase};
use crate::server::endpoints::Endpoints;
use crate::shutdown::{ABORT, MOVE_DRAIN, RELOAD_DRAIN, STOP_DRAIN};

impl RunningServer {
    /// Stops accepting; workers exit once requests in flight are answered.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn stop(&mut self) -> io::Result<()> {
        self.stop_with(STOP_DRAIN)
    }

    /// Drains all workers: another process accepts on the same sockets.
    ///
    /// Returns once no worker accepts any more, or after [`STOP_ACCEPTING_WAIT`] at most for each
    /// pool.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn hand_over(&mut self) -> io::Result<()> {
        let woken = self.leave(RELOAD_DRAIN);
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
        self.leave(MOVE_DRAIN)
    }

    /// Stops all workers at once.
    ///
    /// # Errors
    /// The error of waking a worker.
    pub fn abandon(&mut self) -> io::Result<()> {
        self.stop_with(ABORT)
    }

    /// How long connections are served, once the server is ending.
    pub fn time_of_end(&self) -> Duration {
        let limits = &self.settings.limits;
        Duration::from_nanos(if self.is_stop {
            limits.stop_ns_max
        } else {
            limits.drain_ns_max.max(limits.drain_streams_ns_max)
        })
    }

    fn stop_with(&mut self, signal: u8) -> io::Result<()> {
        self.endpoints.remove_files(&Endpoints::default());
        self.is_stop = true;
        self.leave(signal)
    }

    /// Closes the listeners, of which each worker has duplicates: it closes the last one after its queue
    /// is empty.
    fn leave(&mut self, signal: u8) -> io::Result<()> {
        self.endpoints = Endpoints::default();
        if self.phase == ServerPhase::Serving {
            self.phase = ServerPhase::Stopping;
        }
        self.pools().try_for_each(|pool| pool.shut_down(signal))
    }
}
