//! Request timeouts. All requests have the same one, so a FIFO queue of connections suffices,
//! checked several times per timeout. A late response is judged by its own time (`exchange.rs`), so
//! the counts are exact; only giving up may be late, by up to an eighth of the timeout.

use std::io;

use crate::connection::ConnectionState;
use crate::error::RequestError;
use crate::worker::Worker;

/// Checks per timeout; the counts are exact all the same.
const CHECKS_PER_TIMEOUT: u64 = 8;

impl Worker<'_> {
    /// Schedules a timeout check for a connection, if there is none yet.
    pub(crate) fn schedule_timeout_check(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        if !connection.has_timeout_check {
            connection.has_timeout_check = true;
            let at_ns = now_ns + self.plan.timeout_ns / CHECKS_PER_TIMEOUT;
            self.timers.add_timeout_check(index, at_ns);
        }
    }

    /// Fails requests whose timeout has expired. Checks that are due soon are made together.
    pub(crate) fn check_timeouts(&mut self, now_ns: u64) {
        let step_ns = self.plan.timeout_ns / CHECKS_PER_TIMEOUT;
        let soon_ns = now_ns + step_ns / CHECKS_PER_TIMEOUT;
        for _ in 0..self.timers.timeout_checks() {
            let Some(index) = self.timers.pop_timeout_check(soon_ns) else { return };
            self.connections[index].has_timeout_check = false;
            match self.waiting_since(index) {
                Some(since_ns) if since_ns + self.plan.timeout_ns <= now_ns => {
                    self.time_out(index);
                }
                Some(_) => self.schedule_timeout_check(index, now_ns),
                None => {}
            }
        }
    }

    fn waiting_since(&self, index: usize) -> Option<u64> {
        let connection = &self.connections[index];
        match connection.state {
            ConnectionState::Closed => None,
            ConnectionState::Connecting
            | ConnectionState::Handshaking
            | ConnectionState::AwaitingClose => Some(connection.since_ns),
            ConnectionState::Open if connection.outstanding == 0 => None,
            ConnectionState::Open => {
                let first = index * usize::from(self.plan.pipeline);
                Some(self.request_times[first + usize::from(connection.oldest)].sent_ns)
            }
        }
    }

    fn time_out(&mut self, index: usize) {
        match self.connections[index].state {
            ConnectionState::Connecting | ConnectionState::Handshaking => {
                self.fail_to_connect(index, io::ErrorKind::TimedOut.into());
            }
            ConnectionState::Open | ConnectionState::AwaitingClose | ConnectionState::Closed => {
                self.fail_connection(index, RequestError::Timeout);
            }
        }
    }
}
