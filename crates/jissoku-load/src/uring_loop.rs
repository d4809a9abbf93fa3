//! The event loop over io_uring: one system call per iteration submits all queued requests and
//! waits for completions; receives are multishot.
//!
//! Sends are queued until the end of the iteration. Other operations are queued too, because the
//! ring is borrowed while completions are delivered. Sockets that are still connecting are watched
//! by epoll, and the epoll descriptor by the ring.

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd as _;

use jissoku_os::epoll;
use jissoku_os::uring::{RingClient, RingEvent, RingSend, Timeout};

use crate::connection::{Connection, ConnectionState, RequestTimes, compact_index};
use crate::counters::Counters;
use crate::error::RequestError;
use crate::plan::Plan;
use crate::window::{Timing, WorkerResult};
use crate::worker::{STOP, Worker};

/// Identifies the epoll descriptor's events; connections have smaller ids.
const EPOLL_ID: u64 = (1 << 61) - 1;

/// Set in the id of a poll for writability.
const WRITABLE_BIT: u64 = 1 << 60;

/// Epoll events taken at once.
const EVENTS: usize = 64;

/// A ring operation to submit between two iterations, by connection id.
#[derive(Debug)]
enum RingOp {
    Receive(u64),
    CancelReceive(u64),
    PollWritable(u64),
    CancelPoll(u64),
    WatchEpoll,
}

/// Requests to be sent with the next submission.
#[derive(Debug)]
struct QueuedSend {
    index: usize,
    /// Identifies the connection and its generation.
    number: u64,
    /// Range in the request cycle's bytes, or in `scratch`.
    range: Range<usize>,
    is_copy: bool,
    /// When the connection was ready for a due request (open loop).
    ready_ns: u64,
}

/// The sends of one iteration.
#[derive(Debug, Default)]
struct SendBatch {
    sends: Vec<QueuedSend>,
    /// Copies of bytes that change from one request to the next.
    scratch: Vec<u8>,
}

/// Operations queued for the next submission.
#[derive(Debug, Default)]
pub(crate) struct RingQueue {
    batch: SendBatch,
    ops: Vec<RingOp>,
    /// The batch of the last iteration, whose memory is reused.
    spare: SendBatch,
}

impl Worker<'_> {
    /// Like [`Worker::run`], over io_uring.
    pub(crate) fn run_uring(
        mut self,
        mut ring: RingClient,
        timing: Timing,
        place: (usize, usize),
    ) -> io::Result<WorkerResult> {
        ring.watch(&self.epoll, EPOLL_ID);
        self.wait_for_start(timing, place)?;
        loop {
            let mut now_ns = self.clock.now_ns();
            self.window.note_iteration(now_ns);
            if now_ns >= self.timers.next_ns() {
                if self.run_timers(now_ns, timing) {
                    return Ok(self.close());
                }
                now_ns = self.clock.now_ns();
            }
            if self.is_done() {
                return Ok(self.close());
            }
            if self.is_slice_over(now_ns) && self.next_slice(now_ns, timing) {
                return Ok(self.close());
            }
            let now_ns = self.send_due(now_ns);
            self.submit_ops(&mut ring);
            let timeout = match self.wait_timeout(now_ns) {
                // A pipeline with capacity left is filled as soon as these requests are submitted.
                _ if self.plan.pipeline > 1 && self.has_queued_sends() => Timeout::NonBlocking,
                None => Timeout::Forever,
                Some(time) if time.is_zero() => Timeout::NonBlocking,
                Some(time) => Timeout::For(time),
            };
            ring.enter(self.queued_sends(), timeout)?;
            self.on_wait_ended();
            let batch = self.mark_submitted(now_ns);
            let mut halted = false;
            ring.collect(|event| halted |= self.on_ring_event(event, &batch));
            if halted {
                return Ok(self.close());
            }
            self.reuse_batch(batch);
        }
    }

    /// Queues the prepared requests of a connection. In the open loop they could have been sent
    /// from `ready_ns` on.
    pub(crate) fn queue_send(&mut self, index: usize, ready_ns: u64) {
        let Some(ring_queue) = &mut self.ring_queue else { return };
        let connection = &self.connections[index];
        let request_cycle = &self.targets[usize::from(connection.target)].request_cycle;
        let session = self.tls_sessions.get(index).and_then(Option::as_ref);
        let mut range = connection.unsent_end - connection.unsent..connection.unsent_end;
        let is_copy = session.is_some() || request_cycle.has_placeholders();
        let SendBatch { sends, scratch } = &mut ring_queue.batch;
        if is_copy {
            let start = scratch.len();
            let bytes = session.map_or_else(|| request_cycle.bytes(), |session| session.records());
            scratch.extend_from_slice(&bytes[range]);
            range = start..scratch.len();
        }
        sends.push(QueuedSend {
            index,
            number: connection_id(index, connection),
            range,
            is_copy,
            ready_ns,
        });
    }

    /// Queues a multishot receive for a new connection.
    pub(crate) fn queue_receive(&mut self, index: usize) -> io::Result<()> {
        let connection = &self.connections[index];
        if let (Some(ring_queue), Some(fd)) = (&mut self.ring_queue, &connection.socket) {
            self.epoll.remove(fd)?;
            ring_queue.ops.push(RingOp::Receive(connection_id(index, connection)));
        }
        Ok(())
    }

    /// Cancels the operations of a connection that is about to be closed.
    pub(crate) fn queue_cancel(&mut self, index: usize) {
        let connection = &self.connections[index];
        if let Some(ring_queue) = &mut self.ring_queue
            && matches!(connection.state, ConnectionState::Open | ConnectionState::AwaitingClose)
        {
            let number = connection_id(index, connection);
            ring_queue.ops.push(RingOp::CancelReceive(number));
            if connection.awaits_writable {
                ring_queue.ops.push(RingOp::CancelPoll(number));
            }
        }
    }

    fn submit_ops(&mut self, ring: &mut RingClient) {
        let Some(ring_queue) = &mut self.ring_queue else { return };
        for op in ring_queue.ops.drain(..) {
            match op {
                RingOp::WatchEpoll => ring.watch(&self.epoll, EPOLL_ID),
                RingOp::CancelReceive(number) => ring.cancel_receive(number),
                RingOp::CancelPoll(number) => ring.cancel_poll(number | WRITABLE_BIT),
                RingOp::Receive(number) | RingOp::PollWritable(number) => {
                    // The connection may have been replaced since.
                    let Some(index) = find_connection(&self.connections, number) else { continue };
                    let Some(fd) = &self.connections[index].socket else { continue };
                    if matches!(op, RingOp::Receive(_)) {
                        ring.receive(fd, number);
                    } else {
                        ring.poll_writable(fd, number | WRITABLE_BIT);
                    }
                }
            }
        }
    }

    fn queued_sends(&self) -> impl Iterator<Item = RingSend<'_>> {
        let batch = self.ring_queue.iter().map(|ring_queue| &ring_queue.batch);
        let sends =
            batch.flat_map(|batch| batch.sends.iter().zip(0..).map(move |send| (batch, send)));
        sends.filter_map(|(batch, (send, place))| {
            let connection = &self.connections[send.index];
            let request_cycle = &self.targets[usize::from(connection.target)].request_cycle;
            let bytes = if send.is_copy { &batch.scratch } else { request_cycle.bytes() };
            let socket = connection.socket.as_ref()?.as_fd();
            let is_same = connection_id(send.index, connection) == send.number;
            is_same.then_some(RingSend { socket, bytes: &bytes[send.range.clone()], number: place })
        })
    }

    /// Marks the queued requests as sent at `sent_ns`; short sends are reported later.
    fn mark_submitted(&mut self, sent_ns: u64) -> SendBatch {
        let Some(ring_queue) = &mut self.ring_queue else { return SendBatch::default() };
        let batch = mem::replace(&mut ring_queue.batch, mem::take(&mut ring_queue.spare));
        let (depth, is_closed) = (usize::from(self.plan.pipeline), self.plan.pace.is_closed());
        for send in &batch.sends {
            let connection = &mut self.connections[send.index];
            if connection_id(send.index, connection) == send.number {
                connection.unsent = 0;
                let counters = &mut self.targets[usize::from(connection.target)].counters;
                counters.bytes_sent += send.range.len() as u64;
                let request_times = &mut self.request_times[send.index * depth..][..depth];
                let due_ns =
                    set_sent_times(self.plan, connection, request_times, sent_ns, counters);
                if !is_closed {
                    counters.lag.record(sent_ns.saturating_sub(due_ns));
                    counters.lateness.record(sent_ns.saturating_sub(send.ready_ns));
                }
            }
        }
        batch
    }

    /// Sets the send time of requests that are queued and not submitted to `now_ns`, so that time
    /// in the queue does not count across an edge of the window.
    pub(crate) fn set_queued_sent_times(&mut self, now_ns: u64) {
        let Some(ring_queue) = &self.ring_queue else { return };
        let depth = usize::from(self.plan.pipeline);
        for send in &ring_queue.batch.sends {
            let connection = &self.connections[send.index];
            if connection_id(send.index, connection) == send.number {
                let counters = &mut self.targets[usize::from(connection.target)].counters;
                let request_times = &mut self.request_times[send.index * depth..][..depth];
                set_sent_times(self.plan, connection, request_times, now_ns, counters);
            }
        }
    }

    fn has_queued_sends(&self) -> bool {
        self.ring_queue.as_ref().is_some_and(|ring_queue| !ring_queue.batch.sends.is_empty())
    }

    /// Continues connections whose pipeline has capacity, and keeps the batch's memory.
    fn reuse_batch(&mut self, mut batch: SendBatch) {
        if self.plan.pipeline > 1 {
            let now_ns = self.clock.now_ns();
            batch.sends.iter().for_each(|send| self.send_next(send.index, now_ns));
        }
        batch.sends.clear();
        batch.scratch.clear();
        if let Some(ring_queue) = &mut self.ring_queue {
            ring_queue.spare = batch;
        }
    }

    /// Handles a completion; returns true when the worker is to stop.
    fn on_ring_event(&mut self, event: RingEvent<'_>, batch: &SendBatch) -> bool {
        match event {
            RingEvent::Bytes { number, bytes, more } => {
                let Some(index) = find_connection(&self.connections, number) else { return false };
                let now_ns = self.received_ns();
                if !more {
                    self.queue_op(RingOp::Receive(number));
                }
                self.on_bytes(index, bytes, now_ns);
                self.send_next(index, now_ns);
            }
            RingEvent::End { number } => {
                if let Some(index) = find_connection(&self.connections, number) {
                    self.on_eof(index);
                }
            }
            RingEvent::Failed { number } => {
                if let Some(index) = find_connection(&self.connections, number) {
                    self.fail_connection(index, RequestError::Read);
                }
            }
            RingEvent::Stopped { number } => self.queue_op(RingOp::Receive(number)),
            RingEvent::Short { number, outcome } => {
                let place = usize::try_from(number).ok();
                if let Some(send) = place.and_then(|place| batch.sends.get(place)) {
                    self.on_short_send(send, &batch.scratch, outcome.ok());
                }
            }
            RingEvent::Ready { number: EPOLL_ID, more } => return self.drain_epoll(more),
            RingEvent::Ready { number, .. } => {
                if let Some(index) = find_connection(&self.connections, number & !WRITABLE_BIT) {
                    self.flush(index);
                }
            }
        }
        false
    }

    pub(crate) fn queue_poll_writable(&mut self, index: usize) {
        self.queue_op(RingOp::PollWritable(connection_id(index, &self.connections[index])));
    }

    fn queue_op(&mut self, op: RingOp) {
        if let Some(ring_queue) = &mut self.ring_queue {
            ring_queue.ops.push(op);
        }
    }

    /// Handles a short or failed send: the rest waits for writability.
    fn on_short_send(&mut self, send: &QueuedSend, scratch: &[u8], sent: Option<usize>) {
        let index = send.index;
        let Some(sent) = sent else { return self.fail_connection(index, RequestError::Write) };
        let left = send.range.len() - sent;
        let connection = &mut self.connections[index];
        (connection.unsent, connection.awaits_writable) = (left, true);
        let counters = &mut self.targets[usize::from(connection.target)].counters;
        counters.bytes_sent -= left as u64;
        if send.is_copy {
            let rest = &scratch[send.range.end - left..send.range.end];
            self.unsent_copies.insert(compact_index(index), rest.to_vec());
        }
        self.queue_poll_writable(index);
    }

    fn drain_epoll(&mut self, more: bool) -> bool {
        let mut events = [epoll::no_event(); EVENTS];
        while let Ok(count @ 1..) = self.epoll.wait(&mut events, Some(std::time::Duration::ZERO)) {
            for event in &events[..count] {
                match usize::try_from(event.data.u64()) {
                    _ if event.data.u64() == STOP => return true,
                    Ok(index) if index < self.connections.len() => self.on_connect_event(index),
                    Ok(_) | Err(_) => {}
                }
            }
        }
        if !more {
            self.queue_op(RingOp::WatchEpoll);
        }
        false
    }
}

/// Sets the send time of a connection's queued requests, and returns the due time of the last one.
/// A connection queues nothing while earlier requests are queued, so these are the newest: one in
/// the open loop, all in the closed loop, where a request is due when it is sent.
fn set_sent_times(
    plan: &Plan,
    connection: &Connection,
    request_times: &mut [RequestTimes],
    sent_ns: u64,
    counters: &mut Counters,
) -> u64 {
    let (depth, is_closed) = (plan.pipeline, plan.pace.is_closed());
    let outstanding = connection.outstanding;
    let first = if is_closed { 0 } else { outstanding.saturating_sub(1) };
    let mut due_ns = sent_ns;
    for place in first..outstanding {
        let slot = connection.oldest + place;
        let slot = if slot < depth { slot } else { slot - depth };
        let times = &mut request_times[usize::from(slot)];
        counters.queued_ns += sent_ns.saturating_sub(times.sent_ns);
        times.sent_ns = sent_ns;
        if is_closed {
            times.due_ns = sent_ns;
        }
        due_ns = times.due_ns;
    }
    due_ns
}

/// The id of a connection: its index and its generation.
fn connection_id(index: usize, connection: &Connection) -> u64 {
    index as u64 | u64::from(connection.generation) << 32
}

/// The index of a connection, if it has not been replaced.
fn find_connection(connections: &[Connection], wanted: u64) -> Option<usize> {
    let index = usize::try_from(wanted & u64::from(u32::MAX)).ok()?;
    let connection = connections.get(index)?;
    let is_same = connection_id(index, connection) == wanted && connection.readable().is_some();
    is_same.then_some(index)
}
