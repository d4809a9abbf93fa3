//! The life of a connection: connecting, established, replaced after its end.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::Duration;

use jissoku_os::epoll::{self, Interest};
use jissoku_os::socket;

use crate::connection::{ConnectionState, compact_index};
use crate::error::RequestError;
use crate::plan::Reuse;
use crate::worker::Worker;

/// Delay before a failed connection attempt is repeated.
const RETRY_NS: u64 = 10_000_000;

/// Concurrent connection attempts at the start; the accept queue of every common server holds this
/// many.
const CONNECTING_MAX: usize = 128;

impl Worker<'_> {
    /// Connects all connections, at most `CONNECTING_MAX` at a time, until all are established or the
    /// timeout expires.
    pub(crate) fn connect_all(&mut self) -> Result<(), (usize, io::Error)> {
        let give_up_ns = self.clock.now_ns().saturating_add(self.plan.timeout_ns);
        let mut events = [epoll::no_event(); CONNECTING_MAX];
        let mut wanted: VecDeque<usize> = (0..self.connections.len()).collect();
        for target in &self.targets {
            let spare_slots: HashSet<usize> =
                target.spare_slots.iter().map(|&index| index as usize).collect();
            wanted.retain(|index| !spare_slots.contains(index));
        }
        loop {
            let room = CONNECTING_MAX.saturating_sub(self.connecting_count()).min(wanted.len());
            for next in wanted.drain(..room) {
                self.connect(next);
            }
            let all = wanted.is_empty();
            let now_ns = self.clock.now_ns();
            if all
                && (self.connecting_count() == 0 && !self.timers.has_retries()
                    || self.is_refused_everywhere())
            {
                return self.check_connected();
            }
            if now_ns >= give_up_ns {
                return self.check_connected();
            }
            let timeout = Duration::from_nanos((give_up_ns - now_ns).min(RETRY_NS));
            let count = self.epoll.wait(&mut events, Some(timeout)).map_err(|error| (0, error))?;
            for event in &events[..count] {
                match usize::try_from(event.data.u64()) {
                    Ok(index) if index < self.connections.len() => self.on_connect_event(index),
                    // The stop descriptor: the event loop handles it.
                    _ => return Ok(()),
                }
            }
            self.retry(self.clock.now_ns());
        }
    }

    fn connecting_count(&self) -> usize {
        self.connections
            .iter()
            .filter(|found| {
                matches!(found.state, ConnectionState::Connecting | ConnectionState::Handshaking)
            })
            .count()
    }

    /// Whether a target refused all connections. A full accept queue (`EAGAIN`) is no refusal.
    fn is_refused_everywhere(&self) -> bool {
        (0..self.targets.len()).any(|target| {
            let refused = |error: &io::Error| error.kind() != io::ErrorKind::WouldBlock;
            self.targets[target].last_error.as_ref().is_some_and(refused)
                && self.states_of_target(target).all(|state| state == ConnectionState::Closed)
        })
    }

    /// Fails with the first target that has no connection, and its last error.
    fn check_connected(&mut self) -> Result<(), (usize, io::Error)> {
        for target in 0..self.targets.len() {
            let wants =
                self.targets[target].budget > 0 && self.states_of_target(target).next().is_some();
            if wants && self.states_of_target(target).all(|state| state != ConnectionState::Open) {
                let error = self.targets[target].last_error.take();
                return Err((target, error.unwrap_or_else(|| io::ErrorKind::TimedOut.into())));
            }
        }
        Ok(())
    }

    fn states_of_target(&self, target: usize) -> impl Iterator<Item = ConnectionState> {
        let here = self.connections.iter().filter(move |found| usize::from(found.target) == target);
        here.map(|found| found.state)
    }

    /// Starts a connection, if there are requests left to send on it.
    pub(crate) fn connect(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let target = &mut self.targets[usize::from(connection.target)];
        let wanted = match self.plan.reuse {
            Reuse::KeepAlive | Reuse::Requests(_) => target.budget > 0,
            // Each such connection carries one request, so no more are opened than requests remain.
            Reuse::Close => target.budget > target.unused_connections,
        };
        if !wanted {
            return;
        }
        target.unused_connections += 1;
        connection.requests_left = match self.plan.reuse {
            Reuse::KeepAlive => u32::MAX,
            Reuse::Close => 1,
            Reuse::Requests(count) => count,
        };
        connection.state = ConnectionState::Connecting;
        connection.since_ns = self.clock.now_ns();
        let since_ns = connection.since_ns;
        let interest = Interest::IN | Interest::OUT | Interest::RDHUP | Interest::ET;
        let local = self.plan.local.get(index % self.plan.local.len().max(1)).copied();
        let connected =
            socket::connect_from(target.endpoint, local, self.plan.buffering).and_then(|fd| {
                self.epoll.add(&fd, index as u64, interest)?;
                Ok(fd)
            });
        match connected {
            Ok(fd) => {
                connection.socket = Some(fd);
                self.schedule_timeout_check(index, since_ns);
            }
            Err(error) => self.fail_to_connect(index, error),
        }
    }

    /// Handles readiness of a socket that is connecting or in its TLS handshake.
    pub(crate) fn on_connect_event(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(fd) = connection.socket.as_ref() else { return };
        match connection.state {
            ConnectionState::Connecting => {}
            ConnectionState::Handshaking => return self.handshake(index),
            ConnectionState::Closed | ConnectionState::Open | ConnectionState::AwaitingClose => {
                return;
            }
        }
        if let Err(error) = socket::take_error(fd) {
            return self.fail_to_connect(index, error);
        }
        let target = &mut self.targets[usize::from(connection.target)];
        let now_ns = self.clock.now_ns();
        target.connect.record(now_ns.saturating_sub(connection.since_ns));
        match target.tls {
            Some(tls) => self.start_tls(index, tls, now_ns),
            None => self.on_connected(index),
        }
    }

    /// Marks a connection as usable and sends its first request.
    pub(crate) fn on_connected(&mut self, index: usize) {
        let Some(fd) = self.connections[index].socket.as_ref() else { return };
        if self.ring_queue.is_some() {
            if let Err(error) = self.queue_receive(index) {
                return self.fail_to_connect(index, error);
            }
        } else if self.plan.reuse != Reuse::Close {
            // On Unix sockets every read by the server would report writability again.
            let interest = Interest::IN | Interest::RDHUP | Interest::ET;
            if let Err(error) = self.epoll.modify(fd, index as u64, interest) {
                return self.fail_to_connect(index, error);
            }
        }
        let connection = &mut self.connections[index];
        connection.state = ConnectionState::Open;
        let target = &mut self.targets[usize::from(connection.target)];
        target.opened += 1;
        if self.started {
            let now_ns = self.clock.now_ns();
            self.send_next(index, now_ns);
        }
    }

    /// Counts a failed connection attempt and schedules a retry.
    pub(crate) fn fail_to_connect(&mut self, index: usize, error: io::Error) {
        self.drop_tls(index);
        let connection = &mut self.connections[index];
        let target = &mut self.targets[usize::from(connection.target)];
        target.release(connection);
        target.last_error = Some(error);
        target.refused += 1;
        target.counters.record_error(RequestError::Connect, 1);
        if self.started {
            // With a request limit, a failed attempt uses up one request, so that the run ends.
            target.budget = target.budget.saturating_sub(1);
        }
        let at_ns = self.clock.now_ns() + RETRY_NS;
        self.timers.add_retry(index, at_ns);
    }

    /// Retries the failed connections whose delay is over.
    pub(crate) fn retry(&mut self, now_ns: u64) {
        while let Some(index) = self.timers.pop_retry(now_ns) {
            self.connect(index);
        }
    }

    /// Closes a connection and opens a new one in its slot.
    pub(crate) fn replace(&mut self, index: usize) {
        self.queue_cancel(index);
        self.drop_tls(index);
        let connection = &mut self.connections[index];
        let target = &mut self.targets[usize::from(connection.target)];
        if self.plan.reuse != Reuse::KeepAlive
            && let Some(fd) = &connection.socket
        {
            // If this fails, the port stays in TIME_WAIT; nothing else depends on it.
            let _kept = socket::set_linger_zero(fd);
        }
        if connection.awaits_writable {
            self.unsent_copies.remove(&compact_index(index));
        }
        target.release(connection);
        self.connect(index);
    }
}
