//! One client behind TLS: bytes of the wire in, plain bytes to its connection, answers encrypted.
//!
//! The connection does not know. What it puts out waits here in the clear, large files still on disk, and
//! is encrypted no faster than the client takes it.

use std::io::{self, BufRead, Write};

use jissoku_os::driver::{Next, Output};
use rustls::ServerConnection;

use super::Tls;
use crate::connection::Connection;
use crate::metrics::Figure;
use crate::worker::Desk;

/// How much is encrypted ahead of a client that takes it slowly.
const AHEAD_SIZE_MAX: usize = 256 * 1024;

/// What one record holds at most (RFC 8446 section 5.1).
const RECORD_SIZE: usize = 16 * 1024;

/// A client, its keys and its connection.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection,
    wire: Wire,
    /// Answers that are not encrypted yet.
    pending: Output,
    /// What the connection wants once they have gone.
    next: Next,
    opened_ns: u64,
    /// The client will send no more.
    has_ended: bool,
}

/// What the bytes on the wire are.
#[derive(Debug)]
enum Wire {
    /// Unknown as yet: nothing has come. Who says nothing costs no keys.
    Silent(Tls),
    /// Records of a handshake.
    Handshake(Box<ServerConnection>),
    /// Records of requests and answers.
    Secure(Box<ServerConnection>),
    /// Nothing that could be decrypted. The connection is on its way to its end.
    Bare,
}

impl Wire {
    const fn tls(&mut self) -> Option<&mut ServerConnection> {
        match self {
            Self::Handshake(tls) | Self::Secure(tls) => Some(tls),
            Self::Silent(_) | Self::Bare => None,
        }
    }
}

impl Session {
    /// Waits for a handshake.
    pub(crate) fn new(tls: &Tls, connection: Connection, now_ns: u64) -> Self {
        Self {
            connection,
            wire: Wire::Silent(tls.clone()),
            pending: Output::default(),
            next: Next::Receive,
            opened_ns: now_ns,
            has_ended: false,
        }
    }

    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Bytes have come over the wire.
    pub(crate) fn receive(&mut self, bytes: &[u8], desk: &mut Desk, output: &mut Output) -> Next {
        if matches!(self.wire, Wire::Silent(_)) {
            self.begin(bytes);
            if matches!(self.wire, Wire::Bare) {
                return self.connection.refuse_plain(bytes, desk, output);
            }
        }
        if matches!(self.wire, Wire::Bare) {
            return self.connection.receive(bytes, desk, output);
        }
        let mut plain = self.take_pending(desk);
        if self.read(bytes, desk, &mut plain).is_err() {
            return self.give_up(desk, output);
        }
        self.settle(plain, AHEAD_SIZE_MAX, desk, output)
    }

    /// The client will send no more bytes. Without the alert that TLS wants before that
    /// (RFC 8446 section 6.1) it is the same: a request that was cut short is not answered anyway.
    pub(crate) fn end(&mut self, desk: &mut Desk, output: &mut Output) -> Next {
        self.has_ended = true;
        self.next = self.connection.end();
        if matches!(self.wire, Wire::Bare) {
            return self.next;
        }
        let plain = self.take_pending(desk);
        self.settle(plain, AHEAD_SIZE_MAX, desk, output)
    }

    /// As [`Connection::proceed`].
    pub(crate) fn proceed(&mut self, unsent: usize, desk: &mut Desk, output: &mut Output) -> Next {
        if matches!(self.wire, Wire::Bare) {
            return self.connection.proceed(unsent, desk, output);
        }
        let is_open = matches!(self.wire, Wire::Secure(_));
        if !is_open && desk.now_ns() - self.opened_ns > desk.limits().head_ns_max {
            desk.observer().count(Figure::HandshakeDeadline, 1);
            return Next::Abort;
        }
        let mut plain = self.take_pending(desk);
        let waiting = unsent + plain.size();
        self.next = self.connection.proceed(waiting, desk, &mut plain);
        if self.next == Next::Abort {
            return Next::Abort;
        }
        let ahead = if unsent == 0 { AHEAD_SIZE_MAX } else { 0 };
        self.settle(plain, ahead, desk, output)
    }

    /// Finds out from the first byte whether this is TLS: a handshake begins with 22 (RFC 8446 section 5.1),
    /// a request with a letter.
    fn begin(&mut self, bytes: &[u8]) {
        let is_text = bytes.first().is_some_and(u8::is_ascii_alphabetic);
        self.wire = match std::mem::replace(&mut self.wire, Wire::Bare) {
            Wire::Silent(_) if is_text => Wire::Bare,
            Wire::Silent(tls) => Wire::Handshake(Box::new(tls.accept())),
            wire => wire,
        };
    }

    /// Decrypts what has come and has the connection deal with it.
    fn read(
        &mut self,
        bytes: &[u8],
        desk: &mut Desk,
        plain: &mut Output,
    ) -> Result<(), rustls::Error> {
        let Self { connection, wire, next, has_ended, .. } = self;
        let Some(tls) = wire.tls() else { return Ok(()) };
        let mut rest = bytes;
        while !rest.is_empty() {
            // All plain bytes are taken after each step, so there is room; after the client's farewell
            // nothing is read any more.
            if tls.read_tls(&mut rest).unwrap_or(0) == 0 {
                break;
            }
            let state = tls.process_new_packets()?;
            let mut reader = tls.reader();
            while let Ok(chunk @ [_, ..]) = reader.fill_buf() {
                let size = chunk.len();
                // Whatever comes behind the last request that is answered goes nowhere.
                if !matches!(next, Next::Close | Next::Abort) {
                    *next = connection.receive(chunk, desk, plain);
                }
                reader.consume(size);
            }
            if state.peer_has_closed() && !*has_ended {
                *has_ended = true;
                *next = connection.end();
            }
        }
        if !tls.is_handshaking() {
            self.open(desk);
        }
        Ok(())
    }

    fn open(&mut self, desk: &mut Desk) {
        self.wire = match std::mem::replace(&mut self.wire, Wire::Bare) {
            Wire::Handshake(tls) => {
                desk.observer().count(Figure::HandshakesDone, 1);
                Wire::Secure(tls)
            }
            wire => wire,
        };
    }

    /// Encrypts up to `ahead` bytes, and says what is needed next.
    fn settle(
        &mut self,
        mut plain: Output,
        ahead: usize,
        desk: &mut Desk,
        output: &mut Output,
    ) -> Next {
        if !plain.is_empty() && !matches!(self.wire, Wire::Secure(_)) {
            // There is no room for another connection, and no key to say so with.
            return Next::Close;
        }
        let Some(tls) = self.wire.tls() else {
            desk.keep_plain(plain);
            return self.next;
        };
        if seal(tls, &mut plain, ahead, output).is_err() {
            // A file has changed under our hands: the answer cannot be completed truthfully.
            return Next::Abort;
        }
        if !plain.is_empty() {
            self.pending = plain;
            return Next::Proceed;
        }
        desk.keep_plain(plain);
        let next = match self.next {
            Next::Receive if self.has_ended => Next::Close,
            next => next,
        };
        if matches!(next, Next::Close | Next::Finish) {
            // Said once, however often it is called for.
            tls.send_close_notify();
            flush(tls, output);
        }
        next
    }

    /// Tells the client what was wrong with its records, and waits a little for it to read that.
    fn give_up(&mut self, desk: &mut Desk, output: &mut Output) -> Next {
        if !matches!(self.wire, Wire::Secure(_)) {
            desk.observer().count(Figure::HandshakesFailed, 1);
        }
        if let Some(tls) = self.wire.tls() {
            flush(tls, output);
        }
        self.wire = Wire::Bare;
        self.connection.linger(desk)
    }

    /// What is not encrypted yet, or an empty output with room.
    fn take_pending(&mut self, desk: &mut Desk) -> Output {
        if self.pending.is_empty() { desk.take_plain() } else { std::mem::take(&mut self.pending) }
    }
}

/// Takes records to an output, which takes everything.
struct Records<'a>(&'a mut Output);

impl Write for Records<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encrypts `plain` until it is empty or `ahead` bytes have come of it.
fn seal(
    tls: &mut ServerConnection,
    plain: &mut Output,
    ahead: usize,
    output: &mut Output,
) -> io::Result<()> {
    let before = output.size();
    flush(tls, output);
    let mut record = [0; RECORD_SIZE];
    while !plain.is_empty() && output.size() - before < ahead {
        let size = plain.take(&mut record)?;
        tls.writer().write_all(&record[..size])?;
        flush(tls, output);
    }
    Ok(())
}

fn flush(tls: &mut ServerConnection, output: &mut Output) {
    while tls.wants_write() && tls.write_tls(&mut Records(output)).is_ok_and(|size| size > 0) {}
}
