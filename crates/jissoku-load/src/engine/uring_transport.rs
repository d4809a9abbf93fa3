//! The transport over `io_uring(7)`: one system call per iteration submits all queued requests and
//! waits for completions; receives are multishot.
//!
//! Sends are queued until the end of the iteration. Other operations are queued too, because the
//! ring is borrowed while completions are delivered. Sockets that are still connecting are watched
//! by epoll, and the epoll descriptor by the ring.

use std::io;
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::time::Duration;

use jissoku_os::epoll::{self, Epoll};
use jissoku_os::uring::{RingClient, RingEvent, RingSend, Timeout};

use crate::engine::connection::{Connection, ConnectionState};
use crate::engine::connections::Connections;
use crate::engine::error::RequestError;
use crate::engine::transport::{Events, STOP, Transport, Wake};
use crate::engine::worker::Worker;
use crate::protocol::request_sequence::RequestSequence;

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
    id: u64,
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

/// Queues operations for the next submission.
#[derive(Debug)]
pub(crate) struct UringTransport {
    epoll: Epoll,
    ops: Vec<RingOp>,
    batch: SendBatch,
    /// The batch of the last iteration, whose memory is reused.
    spare: SendBatch,
}

impl Transport for UringTransport {
    const IS_QUEUED: bool = true;

    fn new() -> io::Result<Self> {
        let (batch, spare) = (SendBatch::default(), SendBatch::default());
        Ok(Self { epoll: Epoll::new()?, ops: vec![RingOp::WatchEpoll], batch, spare })
    }

    fn epoll(&self) -> &Epoll {
        &self.epoll
    }

    /// Queues a multishot receive.
    fn on_connected(&mut self, connection: &Connection, index: usize, _: bool) -> io::Result<()> {
        if let Some(fd) = &connection.socket {
            self.epoll.remove(fd)?;
            self.ops.push(RingOp::Receive(connection.id(index)));
        }
        Ok(())
    }

    fn queue_send(
        &mut self,
        connections: &Connections,
        request_sequence: &RequestSequence<'_>,
        index: usize,
        ready_ns: u64,
    ) {
        let connection = &connections[index];
        let session = connections.session(index);
        let mut range = connection.unsent_end - connection.unsent..connection.unsent_end;
        let is_copy = session.is_some() || request_sequence.has_placeholders();
        let SendBatch { sends, scratch } = &mut self.batch;
        if is_copy {
            let start = scratch.len();
            let bytes =
                session.map_or_else(|| request_sequence.bytes(), |session| session.records());
            scratch.extend_from_slice(&bytes[range]);
            range = start..scratch.len();
        }
        sends.push(QueuedSend { index, id: connection.id(index), range, is_copy, ready_ns });
    }

    fn queued(&self, connections: &Connections) -> impl Iterator<Item = usize> {
        let is_same = |send: &&QueuedSend| connections[send.index].id(send.index) == send.id;
        self.batch.sends.iter().filter(is_same).map(|send| send.index)
    }

    fn await_writable(&mut self, connection: &Connection, index: usize, _: bool) -> io::Result<()> {
        if connection.awaits_writable {
            self.ops.push(RingOp::PollWritable(connection.id(index)));
        }
        Ok(())
    }

    fn cancel(&mut self, connection: &Connection, index: usize) {
        if matches!(connection.state, ConnectionState::Open | ConnectionState::AwaitingClose) {
            let id = connection.id(index);
            self.ops.push(RingOp::CancelReceive(id));
            if connection.awaits_writable {
                self.ops.push(RingOp::CancelPoll(id));
            }
        }
    }
}

impl UringTransport {
    fn submit_ops(&mut self, ring: &mut RingClient, connections: &Connections) {
        for op in self.ops.drain(..) {
            match op {
                RingOp::WatchEpoll => ring.watch(&self.epoll, EPOLL_ID),
                RingOp::CancelReceive(id) => ring.cancel_receive(id),
                RingOp::CancelPoll(id) => ring.cancel_poll(id | WRITABLE_BIT),
                RingOp::Receive(id) | RingOp::PollWritable(id) => {
                    // The connection may have been replaced since.
                    let Some(index) = connections.find(id) else { continue };
                    let Some(fd) = &connections[index].socket else { continue };
                    if matches!(op, RingOp::Receive(_)) {
                        ring.receive(fd, id);
                    } else {
                        ring.poll_writable(fd, id | WRITABLE_BIT);
                    }
                }
            }
        }
    }
}

/// The completions of io_uring.
pub(crate) struct UringEvents {
    ring: RingClient,
}

impl Events<Worker<'_, UringTransport>> for UringEvents {
    fn new() -> io::Result<Self> {
        Ok(Self { ring: RingClient::new()? })
    }

    fn wait(&mut self, worker: &mut Worker<'_, UringTransport>, now_ns: u64) -> io::Result<Wake> {
        worker.transport.submit_ops(&mut self.ring, &worker.connections);
        let timeout = match worker.wait_timeout(now_ns) {
            // A pipeline with capacity left is filled as soon as these requests are submitted.
            _ if worker.plan.pipeline > 1 && !worker.transport.batch.sends.is_empty() => {
                Timeout::NonBlocking
            }
            None => Timeout::Forever,
            Some(time) if time.is_zero() => Timeout::NonBlocking,
            Some(time) => Timeout::For(time),
        };
        self.ring.enter(queued_sends(worker), timeout)?;
        worker.clock.on_wait_ended();
        let batch = mark_submitted(worker, now_ns);
        let mut wake = Wake::Continue;
        self.ring.collect(|event| {
            if on_ring_event(worker, event, &batch) == Wake::Stop {
                wake = Wake::Stop;
            }
        });
        if wake == Wake::Continue {
            reuse_batch(worker, batch);
        }
        Ok(wake)
    }
}

fn queued_sends<'w>(worker: &'w Worker<'_, UringTransport>) -> impl Iterator<Item = RingSend<'w>> {
    let SendBatch { sends, scratch } = &worker.transport.batch;
    sends.iter().zip(0..).filter_map(move |(send, place)| {
        let connection = &worker.connections[send.index];
        let target = &worker.dispatcher.targets[usize::from(connection.target)];
        let bytes = if send.is_copy { scratch } else { target.request_sequence.bytes() };
        let socket = connection.socket.as_ref()?.as_fd();
        let is_same = connection.id(send.index) == send.id;
        is_same.then_some(RingSend { socket, bytes: &bytes[send.range.clone()], number: place })
    })
}

/// Marks the queued requests as sent at `sent_ns`; short sends are reported later.
fn mark_submitted(worker: &mut Worker<'_, UringTransport>, sent_ns: u64) -> SendBatch {
    let transport = &mut worker.transport;
    let batch = mem::replace(&mut transport.batch, mem::take(&mut transport.spare));
    let is_closed = worker.plan.pace.is_closed();
    for send in &batch.sends {
        let connection = &mut worker.connections[send.index];
        if connection.id(send.index) == send.id {
            connection.unsent = 0;
            let counters = &mut worker.recorder.counters[usize::from(connection.target)];
            let (due_ns, queued_ns) = worker.connections.stamp(send.index, sent_ns, is_closed);
            counters.bytes_sent += send.range.len() as u64;
            counters.queued_ns += queued_ns;
            if !is_closed {
                counters.lag.record(sent_ns.saturating_sub(due_ns));
                counters.lateness.record(sent_ns.saturating_sub(send.ready_ns));
            }
        }
    }
    batch
}

/// Continues connections whose pipeline has capacity, and keeps the batch's memory.
fn reuse_batch(worker: &mut Worker<'_, UringTransport>, mut batch: SendBatch) {
    if worker.plan.pipeline > 1 {
        let now_ns = worker.clock.now_ns();
        batch.sends.iter().for_each(|send| worker.send_next(send.index, now_ns));
    }
    batch.sends.clear();
    batch.scratch.clear();
    worker.transport.spare = batch;
}

/// Handles a completion.
fn on_ring_event(
    worker: &mut Worker<'_, UringTransport>,
    event: RingEvent<'_>,
    batch: &SendBatch,
) -> Wake {
    match event {
        RingEvent::Bytes { number, bytes, more } => {
            let Some(index) = worker.connections.find(number) else { return Wake::Continue };
            let now_ns = worker.clock.received_ns();
            if !more {
                worker.transport.ops.push(RingOp::Receive(number));
            }
            worker.on_bytes(index, bytes, now_ns);
            worker.send_next(index, now_ns);
        }
        RingEvent::End { number } => {
            if let Some(index) = worker.connections.find(number) {
                worker.on_eof(index);
            }
        }
        RingEvent::Failed { number } => {
            if let Some(index) = worker.connections.find(number) {
                worker.fail_connection(index, RequestError::Read);
            }
        }
        RingEvent::Stopped { number } => worker.transport.ops.push(RingOp::Receive(number)),
        RingEvent::Short { number, outcome } => {
            let place = usize::try_from(number).ok();
            if let Some(send) = place.and_then(|place| batch.sends.get(place)) {
                on_short_send(worker, send, &batch.scratch, outcome);
            }
        }
        RingEvent::Ready { number: EPOLL_ID, more } => return drain_epoll(worker, more),
        RingEvent::Ready { number, .. } => {
            if let Some(index) = worker.connections.find(number & !WRITABLE_BIT) {
                worker.flush(index);
            }
        }
    }
    Wake::Continue
}

/// Handles a short or failed send: the rest waits for writability.
fn on_short_send(
    worker: &mut Worker<'_, UringTransport>,
    send: &QueuedSend,
    scratch: &[u8],
    outcome: io::Result<usize>,
) {
    let index = send.index;
    if worker.connections[index].id(index) != send.id {
        return;
    }
    let sent = match outcome {
        Ok(sent) => sent,
        Err(error) => return worker.fail_io(index, RequestError::Write, &error),
    };
    let left = send.range.len() - sent;
    let connection = &mut worker.connections[index];
    (connection.unsent, connection.awaits_writable) = (left, true);
    worker.recorder.counters[usize::from(connection.target)].bytes_sent -= left as u64;
    worker.transport.ops.push(RingOp::PollWritable(connection.id(index)));
    if send.is_copy {
        worker.connections.keep_copy(index, &scratch[send.range.end - left..send.range.end]);
    }
}

fn drain_epoll(worker: &mut Worker<'_, UringTransport>, more: bool) -> Wake {
    let mut events = [epoll::no_event(); EVENTS];
    while let Ok(count @ 1..) = worker.transport.epoll.wait(&mut events, Some(Duration::ZERO)) {
        for event in &events[..count] {
            match usize::try_from(event.data.u64()) {
                _ if event.data.u64() == STOP => return Wake::Stop,
                Ok(index) if index < worker.connections.len() => worker.on_connect_event(index),
                Ok(_) | Err(_) => {}
            }
        }
    }
    if !more {
        worker.transport.ops.push(RingOp::WatchEpoll);
    }
    Wake::Continue
}
