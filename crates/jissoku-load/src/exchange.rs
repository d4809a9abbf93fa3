//! The life of a request: sending it, reading its response, counting both.

use std::mem;

use jissoku_os::epoll::Interest;
use jissoku_os::socket::{self, Received};

use crate::connection::{ConnectionState, RequestTimes, compact_index};
use crate::error::RequestError;
use crate::reader::{Progress, Reader, ResponseInfo};
use crate::request_log::RequestOutcome;
use crate::worker::Worker;

impl Worker<'_> {
    /// Sends a full pipeline of requests (closed loop) in one piece.
    pub(crate) fn send_batch(&mut self, index: usize, now_ns: u64) {
        let depth = self.plan.pipeline;
        let connection = &mut self.connections[index];
        let target = &mut self.targets[usize::from(connection.target)];
        let most = target.budget.min(u64::from(connection.requests_left));
        let count = u16::try_from(most).map_or(depth, |most| most.min(depth));
        if count == 0 {
            return;
        }
        target.prepare_requests(count, connection);
        connection.outstanding = count;
        connection.oldest = 0;
        let first = index * usize::from(depth);
        let times = RequestTimes { due_ns: now_ns, sent_ns: now_ns };
        self.request_times[first..first + usize::from(count)].fill(times);
        self.schedule_timeout_check(index, now_ns);
        self.dispatch(index, now_ns);
    }

    /// Sends the prepared requests, immediately (epoll) or with the next submission (io_uring).
    /// They could have been sent from `ready_ns` on.
    #[inline]
    pub(crate) fn dispatch(&mut self, index: usize, ready_ns: u64) {
        if !self.tls_sessions.is_empty() {
            self.encrypt(index);
        }
        if self.ring_queue.is_some() {
            self.queue_send(index, ready_ns);
        } else {
            self.flush(index);
        }
    }

    /// Sends the bytes that the kernel has not accepted yet.
    pub(crate) fn flush(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let target = &mut self.targets[usize::from(connection.target)];
        let Some(fd) = &connection.socket else { return };
        let awaits_writable = connection.awaits_writable;
        while connection.unsent > 0 {
            let session = self.tls_sessions.get(index).and_then(Option::as_ref);
            let all =
                session.map_or_else(|| target.request_cycle.bytes(), |session| session.records());
            let mut bytes = &all[..connection.unsent_end];
            if awaits_writable && let Some(copy) = self.unsent_copies.get(&compact_index(index)) {
                bytes = copy;
            }
            match socket::send(fd, &bytes[bytes.len() - connection.unsent..]) {
                Ok(0) => break,
                Ok(count) => {
                    connection.unsent -= count;
                    target.counters.bytes_sent += count as u64;
                }
                Err(_) => return self.fail_connection(index, RequestError::Write),
            }
        }
        let wanted = connection.unsent > 0;
        connection.awaits_writable = wanted;
        if self.ring_queue.is_some() {
            if wanted {
                return self.queue_poll_writable(index);
            }
        } else if wanted != awaits_writable {
            let writable = if wanted { Interest::OUT } else { Interest::empty() };
            let interest = Interest::IN | Interest::RDHUP | Interest::ET | writable;
            if self.epoll.modify(fd, index as u64, interest).is_err() {
                return self.fail_connection(index, RequestError::Write);
            }
        }
        let is_plain = self.tls_sessions.get(index).is_none_or(Option::is_none);
        if wanted && !awaits_writable && is_plain && target.request_cycle.has_placeholders() {
            // The template's bytes are overwritten before the kernel accepts the rest, so keep a
            // copy.
            let end = connection.unsent_end;
            let rest = &target.request_cycle.bytes()[end - connection.unsent..end];
            self.unsent_copies.insert(compact_index(index), rest.to_vec());
        }
        if awaits_writable && !wanted {
            self.unsent_copies.remove(&compact_index(index));
            let now_ns = self.clock.now_ns();
            self.send_next(index, now_ns);
        }
    }

    /// Reads from a socket. A read that does not fill the buffer has drained it, unless the end of
    /// the connection was reported too: with edge-triggered epoll that is not reported again.
    pub(crate) fn receive(&mut self, index: usize, flags: Interest, buffer: &mut [u8]) {
        let ends = flags.intersects(Interest::RDHUP | Interest::HUP | Interest::ERR);
        while let Some(fd) = self.connections[index].readable() {
            match socket::receive(fd, buffer) {
                Ok(Received::Bytes(count)) => {
                    let now_ns = self.received_ns();
                    self.on_bytes(index, &buffer[..count], now_ns);
                    if ends {
                        continue;
                    }
                    self.send_next(index, now_ns);
                    if count < buffer.len() {
                        return;
                    }
                }
                Ok(Received::NotYet) => return,
                Ok(Received::End) => return self.on_eof(index),
                Err(_) => return self.fail_connection(index, RequestError::Read),
            }
        }
    }

    /// Handles bytes received at `now_ns`, decrypting them if needed.
    #[inline]
    pub(crate) fn on_bytes(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let target = usize::from(self.connections[index].target);
        self.targets[target].counters.bytes_received += bytes.len() as u64;
        if self.tls_sessions.is_empty() {
            self.on_plaintext(index, bytes, now_ns);
        } else {
            self.decrypt(index, bytes, now_ns);
        }
    }

    /// Handles response bytes received at `now_ns`.
    pub(crate) fn on_plaintext(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let target = usize::from(self.connections[index].target);
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.connections[index].outstanding == 0 {
                self.targets[target].counters.record_error(RequestError::Malformed, 1);
                self.targets[target].counters.unsolicited += 1;
                return self.fail_connection(index, RequestError::Closed);
            }
            match self.read_response(index, rest) {
                Progress::Incomplete => return,
                Progress::Invalid => {
                    self.record_response(index, (0, Some(RequestError::Malformed)), now_ns);
                    return self.fail_connection(index, RequestError::Closed);
                }
                Progress::Complete(response, size) => {
                    self.record_response(index, (response.status, response.error), now_ns);
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

    #[inline]
    fn read_response(&mut self, index: usize, bytes: &[u8]) -> Progress {
        let connection = &mut self.connections[index];
        let target = &mut self.targets[usize::from(connection.target)];
        if connection.reader.is_none()
            && let Some((response, size)) =
                target.request_cycle.matchers[usize::from(connection.awaited_spec)].recognise(bytes)
        {
            return Progress::Complete(response, size);
        }
        let mut reader =
            connection.reader.take().or_else(|| self.spare_reader.take()).unwrap_or_default();
        let starts = reader.is_fresh();
        let progress =
            reader.feed(bytes, target.request_cycle.context(usize::from(connection.awaited_spec)));
        match progress {
            Progress::Incomplete => {
                connection.reader = Some(reader);
                return progress;
            }
            Progress::Complete(response, size) if starts => {
                let matchers =
                    &mut target.request_cycle.matchers[usize::from(connection.awaited_spec)];
                matchers.update(&bytes[..size], response);
            }
            Progress::Complete(..) | Progress::Invalid => {}
        }
        if reader.is_fresh() {
            self.spare_reader = Some(reader);
        }
        progress
    }

    /// Counts the outcome of a connection's oldest request.
    #[inline]
    fn record_response(
        &mut self,
        index: usize,
        (status, error): (u16, Option<RequestError>),
        now_ns: u64,
    ) {
        let depth = self.plan.pipeline;
        let connection = &mut self.connections[index];
        let times = self.request_times[index * usize::from(depth) + usize::from(connection.oldest)];
        connection.oldest += 1;
        if connection.oldest == depth {
            connection.oldest = 0;
        }
        connection.outstanding -= 1;
        let target = &mut self.targets[usize::from(connection.target)];
        let spec = connection.awaited_spec;
        connection.awaited_spec = target.request_cycle.spec_after(spec, 1);
        target.in_flight -= 1;
        let service_ns = now_ns.saturating_sub(times.sent_ns);
        let latency_ns = now_ns.saturating_sub(times.due_ns);
        let late = service_ns > self.plan.timeout_ns;
        let error = error.or(late.then_some(RequestError::Timeout));
        if let Some(request_log) = &mut self.request_log {
            let kind = error.map_or(RequestOutcome::Ok, RequestOutcome::Failed);
            request_log.note(connection.target, times, now_ns, (status, kind));
        }
        match error {
            None => target.counters.record_success(spec, latency_ns, service_ns),
            Some(error) => {
                target.counters.record_error(error, 1);
                if error == RequestError::Timeout {
                    target.counters.record_unanswered(latency_ns, service_ns);
                }
            }
        }
        let window = &mut self.window;
        let gap_ns = now_ns.saturating_sub(mem::replace(&mut window.last_response_ns, now_ns));
        window.longest_gap_ns = window.longest_gap_ns.max(gap_ns);
    }

    /// Sends the next request (closed loop), or puts the connection in the queue of free ones (open
    /// loop).
    pub(crate) fn send_next(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        // A response may come before its request was sent completely; the connection continues
        // after that.
        if connection.state != ConnectionState::Open || connection.unsent > 0 {
            return;
        }
        if self.plan.pace.is_closed() {
            if connection.outstanding == 0 && !connection.is_queued && !self.think(index, now_ns) {
                self.send_batch(index, now_ns);
            }
        } else if !connection.is_queued && connection.has_capacity(self.plan.pipeline) {
            connection.is_queued = true;
            connection.since_ns = now_ns;
            self.targets[usize::from(connection.target)].free.push_back(compact_index(index));
        }
    }

    /// Handles a connection after its last response. A server that announced the close gets time
    /// for it: a reset at that moment would look like an error to it.
    fn await_close(&mut self, index: usize, response: ResponseInfo, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.outstanding > 0 || response.keeps_alive {
            return self.fail_connection(index, RequestError::Closed);
        }
        connection.state = ConnectionState::AwaitingClose;
        connection.since_ns = now_ns;
        self.schedule_timeout_check(index, now_ns);
    }

    /// The server has closed its side.
    pub(crate) fn on_eof(&mut self, index: usize) {
        let is_cut = self.is_truncated(index);
        let connection = &mut self.connections[index];
        if connection.outstanding > 0 {
            let request_cycle = &self.targets[usize::from(connection.target)].request_cycle;
            let awaited_spec = request_cycle.context(usize::from(connection.awaited_spec));
            let mut reader: Box<Reader> = connection.reader.take().unwrap_or_default();
            let now_ns = self.clock.now_ns();
            // A body delimited by the end of the connection may have been truncated if TLS did not
            // end properly.
            let cut = is_cut.then_some(RequestError::Length);
            let found = match reader.end(awaited_spec) {
                Ok(response) => (response.status, response.error.or(cut)),
                Err(error) => (0, Some(error)),
            };
            self.record_response(index, found, now_ns);
        }
        self.fail_connection(index, RequestError::Closed);
    }

    /// Closes a connection, fails all requests on it, and opens a new one in its slot.
    pub(crate) fn fail_connection(&mut self, index: usize, error: RequestError) {
        let now_ns = self.clock.now_ns();
        while self.connections[index].outstanding > 0 {
            self.record_response(index, (0, Some(error)), now_ns);
        }
        self.replace(index);
    }
}
