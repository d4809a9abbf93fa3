//! All connections of a worker: the requests in flight on them, their unsent bytes, and their TLS
//! sessions.

mod reading;

use std::collections::HashMap;
use std::io;
use std::ops::{Index, IndexMut};

use jissoku_os::socket;

use crate::engine::connection::{Connection, ConnectionState, RequestTimes, compact_index};
use crate::plan::tls::Tls;
use crate::protocol::request_sequence::RequestSequence;
use crate::protocol::response_reader::ResponseReader;
use crate::protocol::tls_session::TlsSession;
use crate::protocol::upgrade::WebSocketStates;

/// The connections of a worker, by index.
#[derive(Debug)]
pub(crate) struct Connections {
    slots: Vec<Connection>,
    /// One slot per connection and pipelined request.
    request_times: Vec<RequestTimes>,
    /// Requests in flight on one connection, at most.
    depth: u16,
    /// TLS state by connection; empty if no target uses TLS.
    tls_sessions: Vec<Option<Box<TlsSession>>>,
    /// When the first part of a response came that comes in several, by connection.
    first_read_ns: Vec<u64>,
    /// Scratch buffer for decrypted bytes.
    pub(crate) plaintext: Vec<u8>,
    /// Unsent bytes of requests with placeholders, by connection.
    unsent_copies: HashMap<u32, Vec<u8>>,
    /// An idle response reader, for reuse.
    spare_reader: Option<Box<ResponseReader>>,
    pub(crate) websockets: WebSocketStates,
}

impl Index<usize> for Connections {
    type Output = Connection;

    #[inline]
    fn index(&self, index: usize) -> &Connection {
        &self.slots[index]
    }
}

impl IndexMut<usize> for Connections {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Connection {
        &mut self.slots[index]
    }
}

impl Connections {
    /// No connections, with up to `depth` requests in flight on each.
    pub(crate) fn new(depth: u16) -> Self {
        Self {
            slots: Vec::new(),
            request_times: Vec::new(),
            depth,
            tls_sessions: Vec::new(),
            first_read_ns: Vec::new(),
            plaintext: Vec::new(),
            unsent_copies: HashMap::new(),
            spare_reader: None,
            websockets: WebSocketStates::default(),
        }
    }

    /// Adds `count` slots for connections to a target. They start at different requests of its
    /// cycle of `specs`, so that all are in flight all the time.
    pub(crate) fn add_slots(&mut self, target: u16, specs: usize, count: usize, tls: Option<&Tls>) {
        let specs = (0..specs).filter_map(|spec| u16::try_from(spec).ok());
        self.slots.extend(specs.cycle().take(count).map(|spec| Connection::new(target, spec)));
        let depth = usize::from(self.depth);
        self.request_times.resize(depth * self.slots.len(), RequestTimes::default());
        self.first_read_ns.resize(self.slots.len(), 0);
        if tls.is_some() || self.has_tls() {
            self.tls_sessions.resize_with(self.slots.len(), || None);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter()
    }

    /// The index of a connection, if it has not been replaced and responses can come on it.
    pub(crate) fn find(&self, id: u64) -> Option<usize> {
        let index = usize::try_from(id & u64::from(u32::MAX)).ok()?;
        let connection = self.slots.get(index)?;
        (connection.id(index) == id && connection.readable().is_some()).then_some(index)
    }

    /// Adds `count` requests that are due and sent at `now_ns` to an idle connection.
    pub(crate) fn begin_batch(&mut self, index: usize, count: u16, now_ns: u64) {
        let connection = &mut self.slots[index];
        connection.outstanding = count;
        connection.oldest = 0;
        let first = index * usize::from(self.depth);
        let times = RequestTimes { due_ns: now_ns, sent_ns: now_ns };
        self.request_times[first..first + usize::from(count)].fill(times);
    }

    /// Adds one request.
    pub(crate) fn begin_request(&mut self, index: usize, times: RequestTimes) {
        let connection = &mut self.slots[index];
        let slot = (connection.oldest + connection.outstanding) % self.depth;
        connection.outstanding += 1;
        self.request_times[index * usize::from(self.depth) + usize::from(slot)] = times;
    }

    /// Removes the oldest request, and returns its connection too.
    #[inline]
    pub(crate) fn end_request(&mut self, index: usize) -> (&mut Connection, RequestTimes) {
        let connection = &mut self.slots[index];
        let slot = connection.oldest;
        connection.oldest = if slot + 1 == self.depth { 0 } else { slot + 1 };
        connection.outstanding -= 1;
        let times = self.request_times[index * usize::from(self.depth) + usize::from(slot)];
        (connection, times)
    }

    /// The times of the oldest request.
    pub(crate) fn oldest_request(&self, index: usize) -> RequestTimes {
        self.request_times[index * usize::from(self.depth) + usize::from(self.slots[index].oldest)]
    }

    /// Sets the send time of a connection's queued requests. Returns the due time of the last one,
    /// and how long they have been queued.
    ///
    /// A connection queues nothing while earlier requests are queued, so these are the newest: one
    /// in the open loop, all in the closed loop, where a request is due when it is sent.
    pub(crate) fn stamp(&mut self, index: usize, sent_ns: u64, is_closed: bool) -> (u64, u64) {
        let Connection { oldest, outstanding, .. } = self.slots[index];
        let first = if is_closed { 0 } else { outstanding.saturating_sub(1) };
        let (mut due_ns, mut queued_ns) = (sent_ns, 0);
        for place in first..outstanding {
            let slot = oldest + place;
            let slot = if slot < self.depth { slot } else { slot - self.depth };
            let place = index * usize::from(self.depth) + usize::from(slot);
            let times = &mut self.request_times[place];
            queued_ns += sent_ns.saturating_sub(times.sent_ns);
            times.sent_ns = sent_ns;
            if is_closed {
                times.due_ns = sent_ns;
            }
            due_ns = times.due_ns;
        }
        (due_ns, queued_ns)
    }

    /// The times of all requests in flight, with their targets.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (u16, RequestTimes)> {
        let depth = usize::from(self.depth);
        self.slots.iter().enumerate().flat_map(move |(index, connection)| {
            (0..connection.outstanding).map(move |place| {
                let slot = (usize::from(connection.oldest) + usize::from(place)) % depth;
                (connection.target, self.request_times[index * depth + slot])
            })
        })
    }

    /// Since when a connection has waited for its oldest response, or to connect or to be closed.
    pub(crate) fn waiting_since(&self, index: usize) -> Option<u64> {
        let connection = &self.slots[index];
        match connection.state {
            ConnectionState::Closed => None,
            ConnectionState::Connecting
            | ConnectionState::Handshaking
            | ConnectionState::Upgrading
            | ConnectionState::AwaitingClose => Some(connection.since_ns),
            ConnectionState::Open if connection.outstanding == 0 => None,
            ConnectionState::Open => Some(self.oldest_request(index).sent_ns),
        }
    }

    /// Sends unsent bytes as far as the kernel accepts them, and adds their number to `sent`.
    pub(crate) fn send(
        &mut self,
        index: usize,
        request_sequence: &RequestSequence<'_>,
        sent: &mut u64,
    ) -> io::Result<()> {
        let connection = &mut self.slots[index];
        let Some(fd) = &connection.socket else { return Ok(()) };
        while connection.unsent > 0 {
            let session = self.tls_sessions.get(index).and_then(Option::as_ref);
            let all = session.map_or_else(|| request_sequence.bytes(), |session| session.records());
            let mut bytes = &all[..connection.unsent_end];
            if connection.awaits_writable
                && let Some(copy) = self.unsent_copies.get(&compact_index(index))
            {
                bytes = copy;
            }
            match socket::send(fd, &bytes[bytes.len() - connection.unsent..])? {
                0 => break,
                count => {
                    connection.unsent -= count;
                    *sent += count as u64;
                }
            }
        }
        Ok(())
    }

    /// Keeps a copy of unsent bytes whose template is overwritten before the kernel accepts them.
    pub(crate) fn keep_unsent(&mut self, index: usize, request_sequence: &RequestSequence<'_>) {
        let is_plain = self.session(index).is_none();
        if is_plain && request_sequence.has_placeholders() {
            let connection = &self.slots[index];
            let end = connection.unsent_end;
            self.keep_copy(index, &request_sequence.bytes()[end - connection.unsent..end]);
        }
    }

    /// Keeps a copy of unsent bytes.
    pub(crate) fn keep_copy(&mut self, index: usize, bytes: &[u8]) {
        self.unsent_copies.insert(compact_index(index), bytes.to_vec());
    }

    /// Drops the copy of bytes that have been sent, or never will be.
    pub(crate) fn drop_copy(&mut self, index: usize) {
        self.unsent_copies.remove(&compact_index(index));
    }

    /// The WebSocket state of all connections, and one of these.
    pub(crate) fn websockets_mut(&mut self, index: usize) -> (&mut WebSocketStates, &Connection) {
        (&mut self.websockets, &self.slots[index])
    }

    /// Whether any target uses TLS.
    #[inline]
    pub(crate) fn has_tls(&self) -> bool {
        !self.tls_sessions.is_empty()
    }

    #[inline]
    pub(crate) fn session(&self, index: usize) -> Option<&TlsSession> {
        self.tls_sessions.get(index)?.as_deref()
    }

    pub(crate) fn session_mut(&mut self, index: usize) -> Option<&mut TlsSession> {
        self.tls_sessions.get_mut(index)?.as_deref_mut()
    }

    /// Starts a TLS session on an established connection.
    pub(crate) fn start_tls(&mut self, index: usize, tls: &Tls, now_ns: u64) -> io::Result<()> {
        self.tls_sessions[index] = Some(Box::new(TlsSession::new(tls)?));
        let connection = &mut self.slots[index];
        connection.state = ConnectionState::Handshaking;
        connection.since_ns = now_ns;
        Ok(())
    }

    /// Continues a handshake; returns true when it is complete.
    pub(crate) fn handshake(&mut self, index: usize) -> io::Result<bool> {
        let session = self.tls_sessions.get_mut(index).and_then(Option::as_mut);
        match session.zip(self.slots[index].socket.as_ref()) {
            Some((session, fd)) => session.handshake(fd),
            None => Ok(false),
        }
    }

    /// Encrypts the requests that a connection is about to send, if it uses TLS.
    pub(crate) fn encrypt(&mut self, index: usize, request_sequence: &RequestSequence<'_>) {
        let Some(Some(session)) = self.tls_sessions.get_mut(index) else { return };
        let connection = &mut self.slots[index];
        let start = connection.unsent_end - connection.unsent;
        session.encrypt(&request_sequence.bytes()[start..connection.unsent_end]);
        connection.unsent = session.records().len();
        connection.unsent_end = connection.unsent;
    }

    /// Drops the TLS session, after sending `close_notify` if the connection was established.
    pub(crate) fn drop_tls(&mut self, index: usize) {
        let Some(mut session) = self.tls_sessions.get_mut(index).and_then(Option::take) else {
            return;
        };
        let connection = &self.slots[index];
        if let Some(fd) = connection.readable().filter(|_| connection.unsent == 0) {
            session.close(fd);
        }
    }
}
