//! The transport over `epoll(7)`: a receive and a send per request, sockets registered once,
//! edge-triggered.

use std::io;
use std::time::Duration;

use jissoku_os::epoll::{self, Epoll, Event, Interest};
use jissoku_os::socket::{self, Received};

use crate::engine::connection::{Connection, ConnectionState};
use crate::engine::connections::Connections;
use crate::engine::error::RequestError;
use crate::engine::timers::TIMER;
use crate::engine::transport::{Events, STOP, Transport, Wake};
use crate::engine::worker::Worker;
use crate::protocol::request_sequence::RequestSequence;

/// Events returned by one wait, at most.
const EVENTS: usize = 512;

/// Size of the shared read buffer; a larger one does not stay in the cache.
const BUFFER_SIZE: usize = 64 * 1024;

/// The interest in a connection that is established.
const READABLE: Interest = Interest::IN.union(Interest::RDHUP).union(Interest::ET);

/// Sends at once.
#[derive(Debug)]
pub(crate) struct EpollTransport {
    epoll: Epoll,
}

impl Transport for EpollTransport {
    const IS_QUEUED: bool = false;

    fn new() -> io::Result<Self> {
        Ok(Self { epoll: Epoll::new()? })
    }

    fn epoll(&self) -> &Epoll {
        &self.epoll
    }

    fn on_connected(
        &mut self,
        connection: &Connection,
        index: usize,
        is_single_use: bool,
    ) -> io::Result<()> {
        // On Unix sockets every read by the server would report writability again.
        match &connection.socket {
            Some(fd) if !is_single_use => self.epoll.modify(fd, index as u64, READABLE),
            Some(_) | None => Ok(()),
        }
    }

    fn queue_send(&mut self, _: &Connections, _: &RequestSequence<'_>, _: usize, _: u64) {}

    fn queued(&self, _: &Connections) -> impl Iterator<Item = usize> {
        std::iter::empty()
    }

    fn await_writable(
        &mut self,
        connection: &Connection,
        index: usize,
        did_wait: bool,
    ) -> io::Result<()> {
        let wants = connection.awaits_writable;
        match &connection.socket {
            Some(fd) if wants != did_wait => {
                let interest = if wants { READABLE | Interest::OUT } else { READABLE };
                self.epoll.modify(fd, index as u64, interest)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn cancel(&mut self, _: &Connection, _: usize) {}
}

/// The events of epoll.
pub(crate) struct EpollEvents {
    events: Box<[Event; EVENTS]>,
    buffer: Vec<u8>,
}

impl Events<Worker<'_, EpollTransport>> for EpollEvents {
    fn new() -> io::Result<Self> {
        Ok(Self { events: Box::new([epoll::no_event(); EVENTS]), buffer: vec![0; BUFFER_SIZE] })
    }

    fn wait(&mut self, worker: &mut Worker<'_, EpollTransport>, now_ns: u64) -> io::Result<Wake> {
        let timeout = timeout_or_timer(worker, now_ns)?;
        let count = worker.transport.epoll.wait(&mut self.events[..], timeout)?;
        worker.clock.on_wait_ended();
        for event in &self.events[..count] {
            match event.data.u64() {
                STOP => return Ok(Wake::Stop),
                TIMER => worker.timers.on_expired(),
                _ => on_event(worker, event, &mut self.buffer),
            }
        }
        Ok(Wake::Continue)
    }
}

/// In the closed loop, replaces the timeout by a timer that is armed a few times per second: a wait
/// with a timeout costs the kernel one timer per call.
fn timeout_or_timer(
    worker: &mut Worker<'_, EpollTransport>,
    now_ns: u64,
) -> io::Result<Option<Duration>> {
    let timeout = worker.wait_timeout(now_ns);
    if !worker.sends_only_on_response() || timeout.is_none_or(|timeout| timeout.is_zero()) {
        return Ok(timeout);
    }
    worker.timers.arm(now_ns)?;
    Ok(None)
}

fn on_event(worker: &mut Worker<'_, EpollTransport>, event: &Event, buffer: &mut [u8]) {
    let Ok(index) = usize::try_from(event.data.u64()) else { return };
    if index >= worker.connections.len() {
        return;
    }
    match worker.connections[index].state {
        ConnectionState::Connecting | ConnectionState::Handshaking | ConnectionState::Upgrading => {
            worker.on_connect_event(index);
        }
        ConnectionState::Open | ConnectionState::AwaitingClose => {
            let flags = event.flags;
            if flags.contains(Interest::OUT) && worker.connections[index].unsent > 0 {
                worker.flush(index);
            }
            receive(worker, index, flags, buffer);
        }
        ConnectionState::Closed => {}
    }
}

/// Reads from a socket. A read that does not fill the buffer has drained it, unless the end of the
/// connection was reported too: with edge-triggered epoll that is not reported again.
fn receive(
    worker: &mut Worker<'_, EpollTransport>,
    index: usize,
    flags: Interest,
    buffer: &mut [u8],
) {
    let ends = flags.intersects(Interest::RDHUP | Interest::HUP | Interest::ERR);
    while let Some(fd) = worker.connections[index].readable() {
        match socket::receive(fd, buffer) {
            Ok(Received::Bytes(count)) => {
                let now_ns = worker.clock.received_ns();
                worker.on_bytes(index, &buffer[..count], now_ns);
                if ends {
                    continue;
                }
                worker.send_next(index, now_ns);
                if count < buffer.len() {
                    return;
                }
            }
            Ok(Received::NotYet) => return,
            Ok(Received::End) => return worker.on_eof(index),
            Err(error) => return worker.fail_io(index, RequestError::Read, &error),
        }
    }
}
