//! TLS on one connection: handshake, encryption of requests, decryption of responses.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;

use jissoku_os::socket::{self, Received};
use rustls::{ClientConnection, HandshakeKind};

use crate::plan::tls::Tls;

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
    pub(crate) fn new(tls: &Tls) -> io::Result<Self> {
        let tls = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
        let mut tls = tls.map_err(io::Error::other)?;
        tls.set_buffer_limit(None);
        Ok(Self { tls, out: Vec::new(), has_ended: false })
    }

    /// Continues the handshake as far as possible without blocking; returns true when it is
    /// complete.
    pub(crate) fn handshake(&mut self, fd: impl AsFd) -> io::Result<bool> {
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
                        // Sends the alert, if there is one. The error is ignored: the peer may have
                        // closed the connection.
                        self.collect_output();
                        let _sent = socket::send(&fd, &self.out);
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
    pub(crate) fn encrypt(&mut self, plain: &[u8]) {
        self.out.clear();
        // There is no buffer limit, and writing to memory cannot fail.
        let _infallible = self.tls.writer().write_all(plain);
        self.collect_output();
    }

    /// Decrypts `bytes` and appends the result to `plain`.
    pub(crate) fn decrypt(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
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

    /// Whether the handshake resumed an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether the server has sent `close_notify`; without it, data may have been truncated.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Sends `close_notify` (RFC 8446 section 6.1).
    pub(crate) fn close(&mut self, fd: impl AsFd) {
        self.tls.send_close_notify();
        self.encrypt(&[]);
        // The error is ignored: if the send buffer is full, the end of the connection has to do.
        let _sent = socket::send(fd, &self.out);
    }

    /// The encrypted records; unsent ones are at the end.
    #[inline]
    pub(crate) fn records(&self) -> &[u8] {
        &self.out
    }
}
