//! The life of a request: sending it, reading its response, counting both.

use std::{io, mem};

use crate::engine::connection::{ConnectionState, RequestTimes, TimerKind};
use crate::engine::error::RequestError;
use crate::engine::transport::Transport;
use crate::engine::worker::Worker;
use crate::plan::options::Idle;
use crate::plan::pace::OnBusy;
use crate::protocol::reader;
use crate::protocol::reader::{ControlFrame, Progress, ResponseInfo};

/// Time for a server to close a connection as it announced: most do in the same moment.
const CLOSE_NS: u64 = 20_000_000;

impl<T: Transport> Worker<'_, T> {
    /// Sends the requests that are due at `now_ns` (open loop), as far as connections are free, and
    /// returns the time afterwards.
    ///
    /// A spinning worker sends one request and then polls for responses, so that a burst of
    /// requests does not delay the reading of responses.
    pub(crate) fn send_due(&mut self, now_ns: u64) -> u64 {
        if self.plan.pace.is_closed() {
            return now_ns;
        }
        let mut now_ns = now_ns;
        loop {
            self.dispatcher.shed_expired(now_ns, &mut self.recorder.counters);
            let next = self.dispatcher.next_due(now_ns, &mut self.connections);
            let Some((index, due_ns)) = next else { break };
            self.send_one(index, RequestTimes { due_ns, sent_ns: now_ns });
            if self.plan.idle == Idle::Spin {
                return now_ns;
            }
            now_ns = self.clock.now_ns();
        }
        match self.plan.on_busy {
            OnBusy::Queue => {}
            OnBusy::Drop => self.dispatcher.shed_due(now_ns, &mut self.recorder.counters),
            OnBusy::Open { .. } => self.open_more(now_ns),
        }
        now_ns
    }

    /// Opens further connections for overdue requests, while all connections are busy.
    fn open_more(&mut self, now_ns: u64) {
        for number in 0..self.dispatcher.targets.len() {
            let wanted = self.dispatcher.wanted_connections(number, now_ns);
            while self.dispatcher.targets[number].unused_connections < wanted
                && let Some(index) = self.dispatcher.targets[number].spare_slots.pop()
            {
                self.connect(index as usize);
            }
        }
    }

    /// Sends one request of the open loop.
    fn send_one(&mut self, index: usize, times: RequestTimes) {
        self.connections.begin_request(index, times);
        let connection = &mut self.connections[index];
        let ready_ns = times.due_ns.max(connection.since_ns);
        let number = usize::from(connection.target);
        let counters = &mut self.recorder.counters[number];
        // A queued request is counted when it is submitted.
        if !T::IS_QUEUED {
            counters.lag.record(times.sent_ns.saturating_sub(times.due_ns));
            counters.lateness.record(times.sent_ns.saturating_sub(ready_ns));
        }
        counters.sent += 1;
        self.dispatcher.targets[number].prepare_requests(1, connection);
        self.dispatcher.add_free(connection, index, times.sent_ns);
        self.timers.watch(connection, index, times.sent_ns);
        self.dispatch(index, ready_ns);
    }

    /// Sends the next request (closed loop), or puts the connection into the queue of free ones
    /// (open loop).
    pub(crate) fn send_next(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        // A response may come before its request was sent completely; the connection continues
        // after that.
        if connection.state != ConnectionState::Open || connection.unsent > 0 {
            return;
        }
        if !self.plan.pace.is_closed() {
            self.dispatcher.add_free(connection, index, now_ns);
        } else if connection.outstanding == 0 && !self.timers.is_delayed(connection, index, now_ns)
        {
            match self.dispatcher.think_ns() {
                None => self.send_batch(index, now_ns),
                Some(think_ns) => {
                    self.timers.delay(connection, index, now_ns.saturating_add(think_ns));
                }
            }
        }
    }

    /// Sends on a connection whose delay is over (closed loop).
    pub(crate) fn send_delayed(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        self.timers.end_delay(connection);
        if connection.outstanding == 0 && connection.unsent == 0 {
            let now_ns = self.clock.now_ns();
            self.send_batch(index, now_ns);
        }
    }

    /// Sends a full pipeline of requests (closed loop) in one piece.
    fn send_batch(&mut self, index: usize, now_ns: u64) {
        let depth = self.plan.pipeline;
        let connection = &mut self.connections[index];
        let number = usize::from(connection.target);
        let target = &mut self.dispatcher.targets[number];
        let most = target.budget.min(u64::from(connection.requests_left));
        let count = u16::try_from(most).map_or(depth, |most| most.min(depth));
        if count == 0 {
            return;
        }
        target.prepare_requests(count, connection);
        self.timers.watch(connection, index, now_ns);
        self.recorder.counters[number].sent += u64::from(count);
        self.connections.begin_batch(index, count, now_ns);
        self.dispatch(index, now_ns);
    }

    /// Sends the prepared requests, at once or with the next submission. They could have been sent
    /// from `ready_ns` on.
    #[inline]
    fn dispatch(&mut self, index: usize, ready_ns: u64) {
        if T::IS_QUEUED || self.connections.has_tls() {
            let number = usize::from(self.connections[index].target);
            let request_sequence = &self.dispatcher.targets[number].request_sequence;
            self.connections.encrypt(index, request_sequence);
            self.transport.queue_send(&self.connections, request_sequence, index, ready_ns);
        }
        if !T::IS_QUEUED {
            self.flush(index);
        }
    }

    /// Sends the bytes that the kernel has not accepted yet.
    pub(crate) fn flush(&mut self, index: usize) {
        let connection = &self.connections[index];
        let (number, did_wait) = (usize::from(connection.target), connection.awaits_writable);
        let request_sequence = &self.dispatcher.targets[number].request_sequence;
        let sent = &mut self.recorder.counters[number].bytes_sent;
        if let Err(error) = self.connections.send(index, request_sequence, sent) {
            return self.fail_io(index, RequestError::Write, &error);
        }
        let connection = &mut self.connections[index];
        let waits = connection.unsent > 0;
        if !waits && !did_wait {
            return;
        }
        connection.awaits_writable = waits;
        if let Err(error) = self.transport.await_writable(connection, index, did_wait) {
            return self.fail_io(index, RequestError::Write, &error);
        }
        if waits && !did_wait {
            self.connections.keep_unsent(index, request_sequence);
        } else if !waits {
            self.connections.drop_copy(index);
            let now_ns = self.clock.now_ns();
            self.send_next(index, now_ns);
        }
    }

    /// Handles bytes received at `now_ns`, decrypting them if needed.
    #[inline]
    pub(crate) fn on_bytes(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let target = usize::from(self.connections[index].target);
        self.recorder.counters[target].bytes_received += bytes.len() as u64;
        if self.connections.has_tls() {
            self.decrypt(index, bytes, now_ns);
        } else {
            self.on_plaintext(index, bytes, now_ns);
        }
    }

    /// Decrypts and handles records received at `now_ns`.
    fn decrypt(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let mut plain = mem::take(&mut self.connections.plaintext);
        let Some(session) = self.connections.session_mut(index) else {
            self.connections.plaintext = plain;
            return self.on_plaintext(index, bytes, now_ns);
        };
        let decrypted = session.decrypt(bytes, &mut plain);
        let has_ended = session.has_ended();
        let id = self.connections[index].id(index);
        self.on_plaintext(index, &plain, now_ns);
        plain.clear();
        self.connections.plaintext = plain;
        // Handling them may have replaced the connection.
        if self.connections[index].id(index) == id {
            if let Err(error) = decrypted {
                self.fail_io(index, RequestError::Read, &error);
            } else if has_ended {
                self.on_eof(index);
            }
        }
    }

    /// Handles response bytes received at `now_ns`.
    fn on_plaintext(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let number = usize::from(self.connections[index].target);
        let mut rest = bytes;
        while !rest.is_empty() {
            let request_sequence = &mut self.dispatcher.targets[number].request_sequence;
            let is_idle = self.connections[index].outstanding == 0;
            if is_idle && !self.connections.is_in_control_frame(index, request_sequence, rest[0]) {
                return self.end_idle(index, rest);
            }
            let is_continued = self.connections[index].reader.is_some();
            match self.connections.read_response(index, request_sequence, rest, now_ns) {
                Progress::Incomplete => return,
                Progress::Control(ControlFrame::Close, _) => {
                    return self.fail_connection(index, RequestError::Closed);
                }
                Progress::Control(ControlFrame::Ping | ControlFrame::Pong, size) => {
                    rest = &rest[size..];
                }
                Progress::Invalid if is_idle => return self.fail_unsolicited(index, rest),
                Progress::Invalid => {
                    let error = RequestError::Malformed;
                    self.add_example(index, error, now_ns, || reader::excerpt(rest));
                    self.end_request(index, (0, Some(RequestError::Malformed)), now_ns);
                    return self.fail_connection(index, RequestError::Closed);
                }
                Progress::Complete(response, size) => {
                    if is_continued || response.error.is_some() {
                        self.handle_response(index, response, is_continued, now_ns);
                    }
                    self.end_request(index, (response.status, response.error), now_ns);
                    rest = &rest[size..];
                    let connection = &self.connections[index];
                    let is_spent = connection.requests_left == 0 && connection.outstanding == 0;
                    if !response.keeps_alive || is_spent {
                        return self.await_close(index, response, now_ns);
                    }
                }
            }
        }
    }

    /// Handles bytes on an idle connection. A 408 is how a server says that it closes one (RFC 9110
    /// section 15.5.9): it belongs to no request, and is no error. Of one that comes in parts, the
    /// first decides.
    #[cold]
    fn end_idle(&mut self, index: usize, bytes: &[u8]) {
        let begins = |head: &[u8]| head.iter().zip(bytes).all(|(wanted, found)| wanted == found);
        if begins(b"HTTP/1.1 408 ") || begins(b"HTTP/1.0 408 ") {
            self.replace(index);
        } else {
            self.fail_unsolicited(index, bytes);
        }
    }

    /// Counts bytes that belong to no request, and replaces the connection.
    #[cold]
    fn fail_unsolicited(&mut self, index: usize, bytes: &[u8]) {
        let (target, now_ns) = (self.connections[index].target, self.clock.now_ns());
        self.recorder.add_example((target, None), RequestError::Malformed, now_ns, || {
            format!("unsolicited: {}", reader::excerpt(bytes))
        });
        let counters = &mut self.recorder.counters[usize::from(target)];
        counters.record_error(RequestError::Malformed, 1);
        counters.unsolicited += 1;
        self.fail_connection(index, RequestError::Closed);
    }

    /// Records of a complete response what only few have: several parts, or an error.
    #[cold]
    fn handle_response(
        &mut self,
        index: usize,
        response: ResponseInfo,
        is_continued: bool,
        now_ns: u64,
    ) {
        let connection = &self.connections[index];
        match response.error {
            Some(error) => {
                let sequence =
                    &self.dispatcher.targets[usize::from(connection.target)].request_sequence;
                if let Some(message) = self.connections.describe(index, sequence, response) {
                    self.add_example(index, error, now_ns, || message);
                }
            }
            None if is_continued => {
                let (target, read_ns) = (connection.target, self.connections.first_read_ns(index));
                let sent_ns = self.connections.oldest_request(index).sent_ns;
                self.recorder.record_first_read(target, sent_ns, read_ns, now_ns);
            }
            None => {}
        }
    }

    /// Keeps what has happened with a connection's oldest request, if it has one.
    fn add_example(
        &mut self,
        index: usize,
        error: RequestError,
        now_ns: u64,
        message: impl FnOnce() -> String,
    ) {
        let connection = &self.connections[index];
        if connection.outstanding > 0 {
            let request = (connection.target, Some(connection.awaited_spec));
            self.recorder.add_example(request, error, now_ns, message);
        }
    }

    /// Counts the outcome of a connection's oldest request.
    #[inline]
    fn end_request(&mut self, index: usize, outcome: (u16, Option<RequestError>), now_ns: u64) {
        let (connection, times) = self.connections.end_request(index);
        let (number, spec) = (connection.target, connection.awaited_spec);
        let target = &mut self.dispatcher.targets[usize::from(number)];
        connection.awaited_spec = target.request_sequence.spec_after(spec, 1);
        target.in_flight -= 1;
        self.recorder.record_response((number, spec), times, outcome, now_ns);
    }

    /// Handles a connection after its last response. A server that announced the close gets
    /// `CLOSE_NS` for it, so that it is the side whose port waits (`TIME_WAIT`), and no reset looks
    /// like an error to it. Then the connection is closed here (RFC 9112 section 9.6).
    fn await_close(&mut self, index: usize, response: ResponseInfo, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.outstanding > 0 || response.keeps_alive {
            return self.fail_connection(index, RequestError::Closed);
        }
        connection.state = ConnectionState::AwaitingClose;
        connection.since_ns = now_ns;
        self.timers.set(connection, index, TimerKind::Close, now_ns.saturating_add(CLOSE_NS));
    }

    /// The server has closed its side.
    pub(crate) fn on_eof(&mut self, index: usize) {
        let connection = &self.connections[index];
        if connection.outstanding > 0 {
            let target = &self.dispatcher.targets[usize::from(connection.target)];
            let now_ns = self.clock.now_ns();
            let outcome = match self.connections.end_response(index, &target.request_sequence) {
                Ok(response) => {
                    self.handle_response(index, response, true, now_ns);
                    (response.status, response.error)
                }
                Err(error) => (0, Some(error)),
            };
            self.end_request(index, outcome, now_ns);
        }
        self.fail_connection(index, RequestError::Closed);
    }

    /// As `fail_connection`, with the error of a system call.
    #[cold]
    pub(crate) fn fail_io(&mut self, index: usize, error: RequestError, cause: &io::Error) {
        let now_ns = self.clock.now_ns();
        self.add_example(index, error, now_ns, || cause.to_string());
        self.fail_connection(index, error);
    }

    /// Closes a connection, fails all requests on it, and opens a new one in its slot.
    pub(crate) fn fail_connection(&mut self, index: usize, error: RequestError) {
        let now_ns = self.clock.now_ns();
        while self.connections[index].outstanding > 0 {
            self.end_request(index, (0, Some(error)), now_ns);
        }
        self.replace(index);
    }
}
