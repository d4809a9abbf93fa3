//! One connection behind TLS: its handshake, and its requests and answers on their way through the keys.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;

use jissoku_os::socket::{self, Received};
use rustls::{ClientConnection, HandshakeKind};

use crate::connection::Phase;
use crate::fault::Fault;
use crate::thread::Thread;
use crate::tls::Tls;

/// Records of a handshake are read in pieces of this size.
const PIECE_SIZE: usize = 16 * 1024;

/// A connection's keys, and what is on its way.
#[derive(Debug)]
pub(crate) struct Session {
    tls: ClientConnection,
    /// Records that are to be sent.
    out: Vec<u8>,
    /// The server has said that it will send no more.
    has_ended: bool,
}

impl Session {
    fn new(tls: &Tls) -> io::Result<Self> {
        let tls = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
        let mut tls = tls.map_err(io::Error::other)?;
        tls.set_buffer_limit(None);
        Ok(Self { tls, out: Vec::new(), has_ended: false })
    }

    /// Shakes hands as far as it goes without waiting; true when that is done.
    fn shake(&mut self, fd: impl AsFd) -> io::Result<bool> {
        let mut piece = [0; PIECE_SIZE];
        loop {
            self.draw();
            while !self.out.is_empty() {
                match socket::send(&fd, &self.out)? {
                    0 => return Ok(false),
                    count => drop(self.out.drain(..count)),
                }
            }
            if !self.tls.is_handshaking() {
                return Ok(true);
            }
            match socket::receive(&fd, &mut piece)? {
                Received::Bytes(count) => {
                    let mut plain = Vec::new();
                    let read = self.open(&piece[..count], &mut plain);
                    if read.is_err() {
                        // The alert that says what was wrong; nobody may be there to hear it.
                        self.draw();
                        let _heard = socket::send(&fd, &self.out);
                    }
                    read?;
                    if !plain.is_empty() {
                        return Err(io::Error::other("it answered before it was asked"));
                    }
                }
                Received::NotYet => return Ok(false),
                Received::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Makes records of what is to be sent, behind those that TLS itself wants to send.
    fn seal(&mut self, plain: &[u8]) {
        self.out.clear();
        // Without a limit everything is taken, and memory takes every record.
        let _taken = self.tls.writer().write_all(plain);
        self.draw();
    }

    /// Adds what has come in the clear to `plain`.
    fn open(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.has_ended {
            if self.tls.read_tls(&mut rest)? == 0 {
                break;
            }
            let state = self.tls.process_new_packets().map_err(io::Error::other)?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            self.tls.reader().read_exact(&mut plain[start..])?;
            self.has_ended = state.peer_has_closed();
        }
        Ok(())
    }

    fn draw(&mut self) {
        while self.tls.wants_write() && self.tls.write_tls(&mut self.out).is_ok_and(|size| size > 0)
        {
        }
    }

    /// Records that have not left yet lie at the end of these.
    #[inline]
    pub(crate) fn records(&self) -> &[u8] {
        &self.out
    }
}

impl Thread<'_> {
    #[inline]
    pub(crate) fn session(&self, index: usize) -> Option<&Session> {
        self.sessions.get(index)?.as_deref()
    }

    /// A socket stands, and hands are shaken on it.
    pub(crate) fn greet(&mut self, index: usize, tls: &Tls, now_ns: u64) {
        match Session::new(tls) {
            Ok(session) => self.sessions[index] = Some(Box::new(session)),
            Err(error) => return self.fail_to_connect(index, error),
        }
        let connection = &mut self.connections[index];
        connection.phase = Phase::Shaking;
        connection.since_ns = now_ns;
        self.shake(index);
    }

    /// Goes on with a handshake.
    pub(crate) fn shake(&mut self, index: usize) {
        let Some(Some(session)) = self.sessions.get_mut(index) else { return };
        let Some(fd) = &self.connections[index].socket else { return };
        let is_done = match session.shake(fd) {
            Ok(is_done) => is_done,
            Err(error) => return self.fail_to_connect(index, error),
        };
        if is_done {
            let is_resumed = session.tls.handshake_kind() == Some(HandshakeKind::Resumed);
            let now_ns = self.clock.now_ns();
            let connection = &self.connections[index];
            let lane = &mut self.lanes[usize::from(connection.lane)];
            lane.handshake.record(now_ns.saturating_sub(connection.since_ns));
            lane.resumed += u64::from(is_resumed);
            self.stand(index);
        }
    }

    /// Makes records of the requests that a connection is about to send.
    pub(crate) fn seal(&mut self, index: usize) {
        let Some(Some(session)) = self.sessions.get_mut(index) else { return };
        let connection = &mut self.connections[index];
        let rotation = &self.lanes[usize::from(connection.lane)].rotation;
        let start = connection.unsent_end - connection.unsent;
        session.seal(&rotation.bytes()[start..connection.unsent_end]);
        connection.unsent = session.out.len();
        connection.unsent_end = connection.unsent;
    }

    /// Takes records that came at `now_ns`.
    pub(crate) fn unseal(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let Some(Some(session)) = self.sessions.get_mut(index) else {
            return self.take(index, bytes, now_ns);
        };
        let generation = self.connections[index].generation;
        let mut plain = std::mem::take(&mut self.plain);
        let opened = session.open(bytes, &mut plain);
        let has_ended = session.has_ended;
        self.take(index, &plain, now_ns);
        plain.clear();
        self.plain = plain;
        // What was taken may have been the last of this connection.
        if self.connections[index].generation == generation {
            if opened.is_err() {
                self.lose(index, Fault::Read);
            } else if has_ended {
                self.end(index);
            }
        }
    }

    /// Whether the end of a connection was not announced, so that somebody else may have cut it.
    pub(crate) fn is_cut(&self, index: usize) -> bool {
        self.session(index).is_some_and(|session| !session.has_ended)
    }

    /// Drops a connection's keys; a server that it stood with is told of the end (RFC 8446 section 6.1).
    pub(crate) fn forget(&mut self, index: usize) {
        let Some(mut session) = self.sessions.get_mut(index).and_then(Option::take) else { return };
        let connection = &self.connections[index];
        let stands = matches!(connection.phase, Phase::Open | Phase::Ending);
        if let Some(fd) = connection.socket.as_ref().filter(|_| stands && connection.unsent == 0) {
            session.tls.send_close_notify();
            session.seal(&[]);
            // If there is no room for it, the end itself has to do.
            let _heard = socket::send(fd, &session.out);
        }
    }
}
