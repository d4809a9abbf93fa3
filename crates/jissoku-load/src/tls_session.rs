//! TLS on one connection: handshake, encryption of requests, decryption of responses.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;

use jissoku_os::socket::{self, Received};
use rustls::{ClientConnection, HandshakeKind};

use crate::connection::ConnectionState;
use crate::error::RequestError;
use crate::tls::Tls;
use crate::worker::Worker;

/// Size of reads during the handshake.
const PIECE_SIZE: usize = 16 * 1024;

/// TLS state of one connection.
#[derive(Debug)]
pub(crate) struct TlsSession {
    tls: ClientConnection,
    /// Encrypted records to be sent.
    out: Vec<u8>,
    /// Whether the server has sent `close_notify`.
    has_ended: bool,
}

impl TlsSession {
    fn new(tls: &Tls) -> io::Result<Self> {
        let tls = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
        let mut tls = tls.map_err(io::Error::other)?;
        tls.set_buffer_limit(None);
        Ok(Self { tls, out: Vec::new(), has_ended: false })
    }

    /// Continues the handshake as far as possible without blocking; returns true when it is
    /// complete.
    fn handshake(&mut self, fd: impl AsFd) -> io::Result<bool> {
        let mut piece = [0; PIECE_SIZE];
        loop {
            self.collect_output();
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
                    let read = self.decrypt(&piece[..count], &mut plain);
                    if read.is_err() {
                        // Sends the alert, if there is one; the peer may be gone.
                        self.collect_output();
                        let _heard = socket::send(&fd, &self.out);
                    }
                    read?;
                    if !plain.is_empty() {
                        return Err(io::Error::other("unsolicited data after the handshake"));
                    }
                }
                Received::NotYet => return Ok(false),
                Received::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Encrypts `plain`, after any data that TLS itself has to send.
    fn encrypt(&mut self, plain: &[u8]) {
        self.out.clear();
        // There is no buffer limit, and writing to memory cannot fail.
        let _taken = self.tls.writer().write_all(plain);
        self.collect_output();
    }

    /// Decrypts `bytes` and appends the result to `plain`.
    fn decrypt(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
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

    fn collect_output(&mut self) {
        while self.tls.wants_write() && self.tls.write_tls(&mut self.out).is_ok_and(|size| size > 0)
        {
        }
    }

    /// The encrypted records; unsent ones are at the end.
    #[inline]
    pub(crate) fn records(&self) -> &[u8] {
        &self.out
    }
}

impl Worker<'_> {
    #[inline]
    pub(crate) fn session(&self, index: usize) -> Option<&TlsSession> {
        self.tls_sessions.get(index)?.as_deref()
    }

    /// Starts the TLS handshake on an established connection.
    pub(crate) fn start_tls(&mut self, index: usize, tls: &Tls, now_ns: u64) {
        match TlsSession::new(tls) {
            Ok(session) => self.tls_sessions[index] = Some(Box::new(session)),
            Err(error) => return self.fail_to_connect(index, error),
        }
        let connection = &mut self.connections[index];
        connection.state = ConnectionState::Handshaking;
        connection.since_ns = now_ns;
        self.handshake(index);
    }

    /// Continues a handshake.
    pub(crate) fn handshake(&mut self, index: usize) {
        let Some(Some(session)) = self.tls_sessions.get_mut(index) else { return };
        let Some(fd) = &self.connections[index].socket else { return };
        let is_done = match session.handshake(fd) {
            Ok(is_done) => is_done,
            Err(error) => return self.fail_to_connect(index, error),
        };
        if is_done {
            let is_resumed = session.tls.handshake_kind() == Some(HandshakeKind::Resumed);
            let now_ns = self.clock.now_ns();
            let connection = &self.connections[index];
            let target = &mut self.targets[usize::from(connection.target)];
            target.handshake.record(now_ns.saturating_sub(connection.since_ns));
            target.resumed += u64::from(is_resumed);
            self.on_connected(index);
        }
    }

    /// Encrypts the requests that a connection is about to send.
    pub(crate) fn encrypt(&mut self, index: usize) {
        let Some(Some(session)) = self.tls_sessions.get_mut(index) else { return };
        let connection = &mut self.connections[index];
        let request_cycle = &self.targets[usize::from(connection.target)].request_cycle;
        let start = connection.unsent_end - connection.unsent;
        session.encrypt(&request_cycle.bytes()[start..connection.unsent_end]);
        connection.unsent = session.out.len();
        connection.unsent_end = connection.unsent;
    }

    /// Decrypts and handles records received at `now_ns`.
    pub(crate) fn decrypt(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let Some(Some(session)) = self.tls_sessions.get_mut(index) else {
            return self.on_plaintext(index, bytes, now_ns);
        };
        let generation = self.connections[index].generation;
        let mut plain = std::mem::take(&mut self.plaintext);
        let opened = session.decrypt(bytes, &mut plain);
        let has_ended = session.has_ended;
        self.on_plaintext(index, &plain, now_ns);
        plain.clear();
        self.plaintext = plain;
        // Handling them may have replaced the connection.
        if self.connections[index].generation == generation {
            if opened.is_err() {
                self.fail_connection(index, RequestError::Read);
            } else if has_ended {
                self.on_eof(index);
            }
        }
    }

    /// Whether a connection ended without `close_notify`, so that data may have been truncated.
    pub(crate) fn is_truncated(&self, index: usize) -> bool {
        self.session(index).is_some_and(|session| !session.has_ended)
    }

    /// Drops the TLS state, after sending `close_notify` if the connection was established (RFC
    /// 8446 section 6.1).
    pub(crate) fn drop_tls(&mut self, index: usize) {
        let Some(mut session) = self.tls_sessions.get_mut(index).and_then(Option::take) else {
            return;
        };
        let connection = &self.connections[index];
        let is_established =
            matches!(connection.state, ConnectionState::Open | ConnectionState::AwaitingClose);
        if let Some(fd) =
            connection.socket.as_ref().filter(|_| is_established && connection.unsent == 0)
        {
            session.tls.send_close_notify();
            session.encrypt(&[]);
            // If it does not fit the send buffer, the end of the connection has to do.
            let _heard = socket::send(fd, &session.out);
        }
    }
}
