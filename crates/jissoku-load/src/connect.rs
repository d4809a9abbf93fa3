//! The life of a connection: connecting, established, timed out, replaced after its end.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use jissoku_os::epoll::{self, Interest};
use jissoku_os::socket;

use crate::connection::{ConnectionState, compact_index};
use crate::error::RequestError;
use crate::options::Reuse;
use crate::tls::Tls;
use crate::tls_session::TlsSession;
use crate::transport::Transport;
use crate::worker::Worker;

/// Delay before a failed connection attempt is repeated.
const RETRY_NS: u64 = 10_000_000;

/// Concurrent connection attempts at the start; the accept queue of every common server holds this
/// many.
const CONNECTING_MAX: usize = 128;

impl<T: Transport> Worker<'_, T> {
    /// Opens `count` connections to each target and waits until all are established or the timeout
    /// expires. Slots for up to `max` connections are allocated.
    ///
    /// # Errors
    /// The target without a single connection, and its last error.
    pub(crate) fn open_connections(
        &mut self,
        count: usize,
        max: usize,
    ) -> Result<(), (usize, io::Error)> {
        let mut wanted = VecDeque::new();
        for (number, target) in (0..).zip(&mut self.dispatcher.targets) {
            let first = self.connections.len();
            self.connections.add_slots(number, target.request_cycle.len(), max, target.tls);
            wanted.extend(first..first + count);
            let spare_slots = first + count..self.connections.len();
            target.spare_slots = spare_slots.rev().map(compact_index).collect();
        }
        self.connect_all(wanted)
    }

    /// Connects, at most `CONNECTING_MAX` at a time, until all are established or the timeout
    /// expires.
    fn connect_all(&mut self, mut wanted: VecDeque<usize>) -> Result<(), (usize, io::Error)> {
        let give_up_ns = self.clock.now_ns().saturating_add(self.plan.timeout_ns);
        let mut events = [epoll::no_event(); CONNECTING_MAX];
        loop {
            let room = CONNECTING_MAX.saturating_sub(self.connecting_count()).min(wanted.len());
            for next in wanted.drain(..room) {
                self.connect(next);
            }
            let is_settled = self.connecting_count() == 0 && !self.timers.has_retries();
            let is_over = wanted.is_empty() && (is_settled || self.is_refused_everywhere());
            let now_ns = self.clock.now_ns();
            if is_over || now_ns >= give_up_ns {
                return self.check_connected();
            }
            let timeout = Duration::from_nanos((give_up_ns - now_ns).min(RETRY_NS));
            let epoll = self.transport.epoll();
            let count = epoll.wait(&mut events, Some(timeout)).map_err(|error| (0, error))?;
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
        let is_connecting = |state: ConnectionState| {
            matches!(
                state,
                ConnectionState::Connecting
                    | ConnectionState::Handshaking
                    | ConnectionState::Upgrading
            )
        };
        self.connections.iter().filter(|found| is_connecting(found.state)).count()
    }

    /// Whether a target refused all connections. A full accept queue (`EAGAIN`) is no refusal.
    fn is_refused_everywhere(&self) -> bool {
        self.dispatcher.targets.iter().enumerate().any(|(number, target)| {
            let refused = |error: &io::Error| error.kind() != io::ErrorKind::WouldBlock;
            target.last_error.as_ref().is_some_and(refused)
                && self.states_of_target(number).all(|state| state == ConnectionState::Closed)
        })
    }

    /// Fails with the first target that has no connection, and its last error.
    fn check_connected(&mut self) -> Result<(), (usize, io::Error)> {
        for number in 0..self.dispatcher.targets.len() {
            let wants = self.dispatcher.targets[number].budget > 0
                && self.states_of_target(number).next().is_some();
            if wants && self.states_of_target(number).all(|state| state != ConnectionState::Open) {
                let error = self.dispatcher.targets[number].last_error.take();
                return Err((number, error.unwrap_or_else(|| io::ErrorKind::TimedOut.into())));
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
        let target = &mut self.dispatcher.targets[usize::from(connection.target)];
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
        let interest = Interest::IN | Interest::OUT | Interest::RDHUP | Interest::ET;
        let local = self.plan.local.get(index % self.plan.local.len().max(1)).copied();
        let connected =
            socket::connect_from(target.endpoint, local, self.plan.buffering).and_then(|fd| {
                self.transport.epoll().add(&fd, index as u64, interest)?;
                Ok(fd)
            });
        match connected {
            Ok(fd) => {
                connection.socket = Some(fd);
                self.timers.add_timeout_check(connection, index, connection.since_ns);
            }
            Err(error) => self.fail_to_connect(index, error),
        }
    }

    /// Handles readiness of a socket that is connecting or in a handshake.
    pub(crate) fn on_connect_event(&mut self, index: usize) {
        let connection = &self.connections[index];
        let Some(fd) = connection.socket.as_ref() else { return };
        match connection.state {
            ConnectionState::Connecting => {}
            ConnectionState::Handshaking => return self.handshake(index),
            ConnectionState::Upgrading => return self.upgrade(index),
            ConnectionState::Closed | ConnectionState::Open | ConnectionState::AwaitingClose => {
                return;
            }
        }
        if let Err(error) = socket::take_error(fd) {
            return self.fail_to_connect(index, error);
        }
        let now_ns = self.clock.now_ns();
        let number = usize::from(connection.target);
        let connecting = &mut self.recorder.connecting[number];
        connecting.connect.record(now_ns.saturating_sub(connection.since_ns));
        let target = &self.dispatcher.targets[number];
        match (target.tls, target.handshake) {
            (Some(tls), _) => self.start_tls(index, tls, now_ns),
            (None, Some(handshake)) => self.start_upgrade(index, handshake),
            (None, None) => self.on_connected(index),
        }
    }

    /// Starts the TLS handshake on an established connection.
    fn start_tls(&mut self, index: usize, tls: &Tls, now_ns: u64) {
        match self.connections.start_tls(index, tls, now_ns) {
            Ok(()) => self.handshake(index),
            Err(error) => self.fail_to_connect(index, error),
        }
    }

    /// Continues a handshake.
    fn handshake(&mut self, index: usize) {
        match self.connections.handshake(index) {
            Ok(false) => {}
            Ok(true) => {
                let connection = &self.connections[index];
                let connecting = &mut self.recorder.connecting[usize::from(connection.target)];
                let now_ns = self.clock.now_ns();
                connecting.handshake.record(now_ns.saturating_sub(connection.since_ns));
                let session = self.connections.session(index);
                connecting.resumed += u64::from(session.is_some_and(TlsSession::is_resumed));
                self.on_connected(index);
            }
            Err(error) => self.fail_to_connect(index, error),
        }
    }

    /// Marks a connection as usable and sends its first request.
    fn on_connected(&mut self, index: usize) {
        if self.establish(index) {
            self.send_first(index);
        }
    }

    /// Marks a connection as usable; returns false if that failed.
    pub(crate) fn establish(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        let is_single_use = self.plan.reuse == Reuse::Close;
        if let Err(error) = self.transport.on_connected(connection, index, is_single_use) {
            self.fail_to_connect(index, error);
            return false;
        }
        connection.state = ConnectionState::Open;
        self.recorder.connecting[usize::from(connection.target)].opened += 1;
        true
    }

    /// Sends the first request on a connection.
    pub(crate) fn send_first(&mut self, index: usize) {
        if self.dispatcher.has_started {
            let now_ns = self.clock.now_ns();
            self.send_next(index, now_ns);
        }
    }

    /// Counts a failed connection attempt and schedules a retry.
    pub(crate) fn fail_to_connect(&mut self, index: usize, error: io::Error) {
        self.connections.drop_tls(index);
        self.connections.websockets.clear(index);
        let connection = &mut self.connections[index];
        let number = usize::from(connection.target);
        let target = &mut self.dispatcher.targets[number];
        target.release(connection);
        target.last_error = Some(error);
        if self.dispatcher.has_started {
            // With a request limit, a failed attempt uses up one request, so that the run ends.
            target.budget = target.budget.saturating_sub(1);
        }
        self.recorder.record_refused(number);
        let at_ns = self.clock.now_ns() + RETRY_NS;
        self.timers.add_retry(index, at_ns);
    }

    /// Retries the failed connections whose delay is over.
    pub(crate) fn retry(&mut self, now_ns: u64) {
        while let Some(index) = self.timers.pop_retry(now_ns) {
            self.connect(index);
        }
    }

    /// Fails connections and requests whose timeout has expired.
    pub(crate) fn check_timeouts(&mut self, now_ns: u64) {
        for _ in 0..self.timers.timeout_checks() {
            let Some(index) = self.timers.pop_timeout_check(now_ns) else { return };
            let since_ns = self.connections.waiting_since(index);
            let connection = &mut self.connections[index];
            connection.has_timeout_check = false;
            let Some(since_ns) = since_ns else { continue };
            if since_ns + self.plan.timeout_ns > now_ns {
                self.timers.add_timeout_check(connection, index, now_ns);
                continue;
            }
            match connection.state {
                ConnectionState::Connecting
                | ConnectionState::Handshaking
                | ConnectionState::Upgrading => {
                    self.fail_to_connect(index, io::ErrorKind::TimedOut.into());
                }
                ConnectionState::Open
                | ConnectionState::AwaitingClose
                | ConnectionState::Closed => self.fail_connection(index, RequestError::Timeout),
            }
        }
    }

    /// Closes a connection and opens a new one in its slot.
    pub(crate) fn replace(&mut self, index: usize) {
        self.transport.cancel(&self.connections[index], index);
        self.send_close_frame(index);
        self.connections.drop_tls(index);
        self.connections.websockets.clear(index);
        if self.connections[index].awaits_writable {
            self.connections.drop_copy(index);
        }
        let connection = &mut self.connections[index];
        if self.plan.reuse != Reuse::KeepAlive
            && let Some(fd) = &connection.socket
        {
            // The error is ignored: the port stays in TIME_WAIT then.
            let _set = socket::set_linger_zero(fd);
        }
        self.dispatcher.targets[usize::from(connection.target)].release(connection);
        self.connect(index);
    }
}
