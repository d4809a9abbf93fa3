//! The life of a connection: connecting, established, timed out, replaced after its end. `startup`
//! opens those with which a worker begins.

mod startup;

use std::io;

use jissoku_os::epoll::Interest;
use jissoku_os::socket;

use crate::engine::connection::{ConnectionState, TimerKind};
use crate::engine::error::RequestError;
use crate::engine::transport::Transport;
use crate::engine::worker::Worker;
use crate::plan::options::Reuse;
use crate::plan::tls::Tls;
use crate::protocol::tls_session::TlsSession;

/// Delay before a failed connection attempt is repeated.
const RETRY_NS: u64 = 10_000_000;

impl<T: Transport> Worker<'_, T> {
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
            self.timers.cancel(connection, index);
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
                self.timers.set_timeout(connection, index, connection.since_ns);
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
        let (request, now_ns) = ((connection.target, None), self.clock.now_ns());
        self.recorder.add_example(request, RequestError::Connect, now_ns, || error.to_string());
        target.last_error = Some(error);
        // With a request limit, a failed attempt uses up one request, so that the run ends.
        let gives_up = self.dispatcher.has_started && target.is_limited && target.budget > 0;
        if gives_up {
            target.budget -= 1;
        }
        self.recorder.record_refused(number, gives_up);
        let at_ns = now_ns + RETRY_NS;
        self.timers.set(connection, index, TimerKind::Retry, at_ns);
    }

    /// Does what the timers that are due are for.
    pub(crate) fn run_due_timers(&mut self, now_ns: u64) {
        while let Some((index, kind)) = self.timers.take_due(now_ns, &mut self.connections) {
            match kind {
                TimerKind::Timeout => self.check_timeout(index, now_ns),
                TimerKind::Retry => self.connect(index),
                TimerKind::Close => self.replace(index),
                TimerKind::Delay => self.send_delayed(index),
            }
        }
    }

    /// Fails a connection and its requests if the oldest of them has waited for too long.
    fn check_timeout(&mut self, index: usize, now_ns: u64) {
        let Some(since_ns) = self.connections.waiting_since(index) else { return };
        let connection = &mut self.connections[index];
        if since_ns.saturating_add(self.plan.timeout_ns) > now_ns {
            return self.timers.set_timeout(connection, index, since_ns);
        }
        match connection.state {
            ConnectionState::Connecting
            | ConnectionState::Handshaking
            | ConnectionState::Upgrading => {
                self.fail_to_connect(index, io::ErrorKind::TimedOut.into());
            }
            ConnectionState::Open | ConnectionState::AwaitingClose | ConnectionState::Closed => {
                self.fail_connection(index, RequestError::Timeout);
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
        if (self.plan.reuse != Reuse::KeepAlive || connection.requests_left == 0)
            && let Some(fd) = &connection.socket
        {
            // The error is ignored: the port stays in TIME_WAIT then.
            let _set = socket::set_linger_zero(fd);
        }
        self.dispatcher.targets[usize::from(connection.target)].release(connection);
        self.connect(index);
    }
}
