//! The minimal server over `io_uring(7)`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use jissoku_os::socket;
use jissoku_os::uring::{RingEvent, RingSend, RingServer, Timeout};

use crate::response::{RESPONSE, TerminatorMatcher};

/// The number of the descriptor that stops a worker; no descriptor has it.
const STOP: u64 = (1 << 60) - 1;

/// A connection, by its descriptor.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    matcher: TerminatorMatcher,
    /// Bytes of responses that are to be sent.
    unsent: usize,
    /// Bytes of them that are being sent.
    sending: usize,
    /// The socket is full.
    is_blocked: bool,
}

#[derive(Debug, Default)]
struct Connections {
    by_descriptor: Vec<Option<Connection>>,
    /// Connections with something to send.
    ready: Vec<u64>,
}

/// Serves until `halt` becomes readable. `responses` are repetitions of the response.
///
/// # Errors
/// The error of `io_uring_setup(2)`, `io_uring_register(2)` or `io_uring_enter(2)`.
pub(crate) fn serve(listeners: &[OwnedFd], halt: &UnixStream, responses: &[u8]) -> io::Result<()> {
    let mut ring = RingServer::new()?;
    ring.client().watch(halt, STOP);
    for (listener, number) in listeners.iter().zip(0..) {
        // Inherited by connections. Unix sockets have no such option.
        let _set = socket::set_nodelay(listener);
        ring.accept(listener, number);
    }
    let mut connections = Connections::default();
    let (mut accepted, mut receiving, mut polling) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_over = false;
    while !is_over {
        ring.client().enter(connections.sends(responses), Timeout::Forever)?;
        connections.sent();
        ring.collect(
            |event| match event {
                RingEvent::Bytes { number, bytes, more } => {
                    connections.received(number, bytes);
                    receiving.extend((!more).then_some(number));
                }
                RingEvent::Stopped { number } => receiving.push(number),
                RingEvent::End { number } | RingEvent::Failed { number } => connections.end(number),
                RingEvent::Short { number, outcome } => {
                    connections.short(number, outcome.unwrap_or(0));
                    polling.push(number);
                }
                RingEvent::Ready { number: STOP, .. } => is_over = true,
                RingEvent::Ready { number, .. } => connections.writable(number),
            },
            |listener, outcome, more| accepted.push((listener, outcome, more)),
        );
        for (number, outcome, more) in accepted.drain(..) {
            if let Ok(socket) = outcome {
                let number = connections.add(socket);
                receiving.push(number);
            }
            if let (false, Some(listener)) = (more, index(number).and_then(|at| listeners.get(at)))
            {
                ring.accept(listener, number);
            }
        }
        for number in receiving.drain(..) {
            if let Some(connection) = connections.get(number) {
                ring.client().receive(&connection.socket, number);
            }
        }
        for number in polling.drain(..) {
            if let Some(connection) = connections.get(number) {
                ring.client().poll_writable(&connection.socket, number);
            }
        }
    }
    Ok(())
}

impl Connections {
    fn get(&mut self, number: u64) -> Option<&mut Connection> {
        self.by_descriptor.get_mut(index(number)?)?.as_mut()
    }

    /// Adds a connection and returns its number.
    fn add(&mut self, socket: OwnedFd) -> u64 {
        let number = u64::from(socket.as_raw_fd().unsigned_abs());
        let at = index(number).unwrap_or(0);
        if self.by_descriptor.len() <= at {
            self.by_descriptor.resize_with(at + 1, || None);
        }
        let matcher = TerminatorMatcher::default();
        let connection = Connection { socket, matcher, unsent: 0, sending: 0, is_blocked: false };
        self.by_descriptor[at] = Some(connection);
        number
    }

    fn end(&mut self, number: u64) {
        if let Some(slot) = index(number).and_then(|at| self.by_descriptor.get_mut(at)) {
            *slot = None;
        }
    }

    fn received(&mut self, number: u64, bytes: &[u8]) {
        let Some(connection) = self.get(number) else { return };
        let size = connection.matcher.count_requests(bytes) * RESPONSE.len();
        let is_first = connection.unsent == 0 && size > 0;
        connection.unsent += size;
        if is_first {
            self.ready.push(number);
        }
    }

    /// Only `size` bytes of the last send were sent.
    fn short(&mut self, number: u64, size: usize) {
        if let Some(connection) = self.get(number) {
            connection.unsent += connection.sending.saturating_sub(size);
            connection.is_blocked = true;
        }
    }

    fn writable(&mut self, number: u64) {
        let Some(connection) = self.get(number) else { return };
        connection.is_blocked = false;
        self.ready.push(number);
    }

    /// The sends of this iteration; what does not fit into `responses` is sent in the next.
    fn sends<'a>(&'a mut self, responses: &'a [u8]) -> impl Iterator<Item = RingSend<'a>> {
        let Self { by_descriptor, ready } = self;
        for &number in &*ready {
            let slot = index(number).and_then(|at| by_descriptor.get_mut(at));
            if let Some(connection) = slot.and_then(Option::as_mut) {
                let room = responses.len() - first_byte(connection.unsent);
                connection.sending =
                    if connection.is_blocked { 0 } else { connection.unsent.min(room) };
                connection.unsent -= connection.sending;
            }
        }
        ready.iter().filter_map(|&number| {
            let connection = by_descriptor.get(index(number)?)?.as_ref()?;
            let start = first_byte(connection.unsent + connection.sending);
            let bytes = &responses[start..start + connection.sending];
            let socket = connection.socket.as_fd();
            (!bytes.is_empty()).then_some(RingSend { socket, bytes, number })
        })
    }

    /// The sends were submitted.
    fn sent(&mut self) {
        let Self { by_descriptor, ready } = self;
        ready.retain(|&number| {
            let slot = index(number).and_then(|at| by_descriptor.get(at));
            slot.and_then(Option::as_ref).is_some_and(|connection| connection.unsent > 0)
        });
    }
}

/// The index of the next byte within its response when `unsent` bytes are left; all responses are
/// the same.
const fn first_byte(unsent: usize) -> usize {
    (RESPONSE.len() - unsent % RESPONSE.len()) % RESPONSE.len()
}

fn index(number: u64) -> Option<usize> {
    usize::try_from(number).ok()
}
