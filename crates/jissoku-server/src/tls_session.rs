//! A TLS session: decrypts input for its connection and encrypts the responses.
//!
//! Responses are buffered as plaintext, large files by reference, and encrypted no faster than the
//! client reads them.

use std::io::BufRead;
use std::sync::Arc;

use jissoku_os::driver::{Action, SendBuffer, UNSENT_MAX};
use rustls::ServerConnection;

use crate::connection::Connection;
use crate::context::WorkerContext;
use crate::early_output::TlsOutput;
use crate::handler::Handler;
use crate::head_check::HeadCheck;
use crate::metrics::Counter;
use crate::tls::{AHEAD_SIZE_MAX, encrypt, flush};
use crate::tls::{Certificates, Tls};

#[derive(Debug)]
pub(crate) struct TlsSession<H: Handler> {
    connection: Connection<H>,
    state: TlsState,
    /// Plaintext that is not encrypted yet.
    pending: SendBuffer,
    /// What the connection requested, once it is sent.
    next: Action,
    certificates: Option<Arc<Certificates>>,
    opened_ns: u64,
    /// The client has closed its side.
    has_ended: bool,
}

#[derive(Debug)]
enum TlsState {
    /// Nothing was received. A silent client costs no key exchange.
    AwaitingHello(Tls),
    /// The handshake is in progress.
    Handshaking(Box<ServerConnection>),
    /// The handshake is complete.
    Established(Box<ServerConnection>),
    /// TLS has failed or was never started. The connection is closing.
    Closed,
}

impl TlsState {
    const fn tls(&mut self) -> Option<&mut ServerConnection> {
        match self {
            Self::Handshaking(tls) | Self::Established(tls) => Some(tls),
            Self::AwaitingHello(_) | Self::Closed => None,
        }
    }
}

impl<H: Handler> TlsSession<H> {
    /// Waits for a handshake.
    pub(crate) fn new(tls: &Tls, connection: Connection<H>, now_ns: u64) -> Self {
        Self {
            connection,
            state: TlsState::AwaitingHello(tls.clone()),
            pending: SendBuffer::default(),
            next: Action::Receive,
            certificates: tls.several().map(Arc::clone),
            opened_ns: now_ns,
            has_ended: false,
        }
    }

    pub(crate) fn into_connection(self) -> Connection<H> {
        self.connection
    }

    /// Whether a header of the PROXY protocol is awaited in front of TLS.
    pub(crate) fn awaits_proxy_header(&self) -> bool {
        self.connection.awaits_proxy_header()
    }

    pub(crate) const fn connection(&mut self) -> &mut Connection<H> {
        &mut self.connection
    }

    /// Leaves TLS if a response was written before the handshake.
    pub(crate) fn close_if(&mut self, next: Action) {
        if next != Action::Receive {
            self.state = TlsState::Closed;
        }
    }

    /// Processes received ciphertext.
    pub(crate) fn on_data(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        if matches!(self.state, TlsState::AwaitingHello(_)) {
            self.detect_protocol(bytes);
            if matches!(self.state, TlsState::Closed) {
                return self.connection.reject_plaintext(bytes, context, output);
            }
        }
        if matches!(self.state, TlsState::Closed) {
            return self.connection.on_data(bytes, context, output);
        }
        let mut plain = self.take_pending(context);
        if self.read(bytes, context, &mut plain, output).is_err() {
            return self.fail(context, output);
        }
        self.encrypt_pending(plain, AHEAD_SIZE_MAX, context, output)
    }

    /// The client has closed its side. A missing `close_notify` (RFC 8446 section 6.1) makes no
    /// difference: a truncated request is not answered anyway.
    pub(crate) fn on_eof(
        &mut self,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        self.has_ended = true;
        if matches!(self.state, TlsState::Closed) {
            self.next = self.connection.on_eof(context, output);
            return self.next;
        }
        let mut plain = self.take_pending(context);
        self.next = self.lend_tls(context, output, |connection, context| {
            connection.on_eof(context, &mut plain)
        });
        self.encrypt_pending(plain, AHEAD_SIZE_MAX, context, output)
    }

    /// As [`Connection::on_unread`].
    pub(crate) fn on_unread(&mut self, context: &mut WorkerContext<H>) -> Action {
        self.next = self.connection.on_unread(context);
        self.next
    }

    /// As [`Connection::on_hangup`].
    pub(crate) fn on_hangup(&mut self, context: &mut WorkerContext<H>) {
        self.connection.on_hangup(context);
    }

    /// As [`Connection::resume`].
    pub(crate) fn resume(
        &mut self,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        if matches!(self.state, TlsState::Closed) {
            return self.connection.resume(unsent, context, output);
        }
        let is_open = matches!(self.state, TlsState::Established(_));
        if !is_open && context.now_ns - self.opened_ns > context.limits.head_ns_max {
            context.telemetry.count(Counter::HandshakeDeadline, 1);
            return Action::Abort;
        }
        let mut plain = self.take_pending(context);
        let waiting = unsent + plain.size();
        self.next = self.lend_tls(context, output, |connection, context| {
            connection.resume(waiting, context, &mut plain)
        });
        if matches!(self.next, Action::Abort | Action::Reset) {
            return self.next;
        }
        let is_wanted = unsent == 0 || (self.next == Action::Flush && unsent <= UNSENT_MAX);
        let ahead = if is_wanted { AHEAD_SIZE_MAX } else { 0 };
        self.encrypt_pending(plain, ahead, context, output)
    }

    /// Distinguishes TLS from plaintext HTTP by the first byte: a handshake begins with 22 (RFC
    /// 8446 section 5.1), a request with a letter.
    fn detect_protocol(&mut self, bytes: &[u8]) {
        let is_text = bytes.first().is_some_and(u8::is_ascii_alphabetic);
        self.state = match std::mem::replace(&mut self.state, TlsState::Closed) {
            TlsState::AwaitingHello(_) if is_text => TlsState::Closed,
            TlsState::AwaitingHello(tls) => TlsState::Handshaking(Box::new(tls.accept())),
            wire => wire,
        };
    }

    /// Decrypts input and passes it to the connection.
    fn read(
        &mut self,
        bytes: &[u8],
        context: &mut WorkerContext<H>,
        plain: &mut SendBuffer,
        output: &mut SendBuffer,
    ) -> Result<(), rustls::Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(tls) = self.state.tls() else { return Ok(()) };
            // All plaintext is consumed after each step, so there is room; after close_notify
            // nothing more is read.
            if tls.read_tls(&mut rest).unwrap_or(0) == 0 {
                break;
            }
            let state = tls.process_new_packets()?;
            if !tls.is_handshaking() {
                self.finish_handshake(context);
            }
            let mut decrypted = std::mem::take(&mut context.decrypted);
            while self.decrypt(&mut decrypted) {
                // It keeps or discards what is not to be parsed now.
                self.next = self.lend_tls(context, output, |connection, context| {
                    connection.on_data(&decrypted, context, plain)
                });
            }
            context.decrypted = decrypted;
            if state.peer_has_closed() && !self.has_ended {
                self.has_ended = true;
                self.next = self.lend_tls(context, output, |connection, context| {
                    connection.on_eof(context, plain)
                });
            }
        }
        Ok(())
    }

    /// Moves the next plaintext to `decrypted`. Returns whether there is any.
    fn decrypt(&mut self, decrypted: &mut Vec<u8>) -> bool {
        decrypted.clear();
        let Some(tls) = self.state.tls() else { return false };
        let mut reader = tls.reader();
        if let Ok(chunk) = reader.fill_buf() {
            decrypted.extend_from_slice(chunk);
            reader.consume(decrypted.len());
        }
        !decrypted.is_empty()
    }

    /// Calls `call` while TLS is at the disposal of the handler, for output that is sent early.
    fn lend_tls(
        &mut self,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
        call: impl FnOnce(&mut Connection<H>, &mut WorkerContext<H>) -> Action,
    ) -> Action {
        let (tls, state): (_, fn(_) -> _) =
            match std::mem::replace(&mut self.state, TlsState::Closed) {
                TlsState::Handshaking(tls) => (tls, TlsState::Handshaking),
                TlsState::Established(tls) => (tls, TlsState::Established),
                other => {
                    self.state = other;
                    return call(&mut self.connection, context);
                }
            };
        context.early.tls = Some(TlsOutput { tls, records: std::mem::take(output) });
        let next = call(&mut self.connection, context);
        if let Some(TlsOutput { tls, records }) = context.early.tls.take() {
            self.state = state(tls);
            *output = records;
        }
        next
    }

    fn finish_handshake(&mut self, context: &mut WorkerContext<H>) {
        self.state = match std::mem::replace(&mut self.state, TlsState::Closed) {
            TlsState::Handshaking(tls) => {
                context.telemetry.count(Counter::HandshakesDone, 1);
                if let (Some(certificates), Some(name)) = (&self.certificates, tls.server_name()) {
                    self.connection.set_head_check(HeadCheck::of_name(certificates, name));
                }
                TlsState::Established(tls)
            }
            wire => wire,
        };
    }

    /// Encrypts up to `ahead` bytes and returns what the driver is to do next.
    fn encrypt_pending(
        &mut self,
        mut plain: SendBuffer,
        ahead: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        if !plain.is_empty() && !matches!(self.state, TlsState::Established(_)) {
            // The connection is over the limit, and the 503 cannot be encrypted yet.
            return Action::Close;
        }
        let Some(tls) = self.state.tls() else {
            context.return_plain_buffer(plain);
            return self.next;
        };
        if encrypt(tls, &mut plain, ahead, output).is_err() {
            // A file has become shorter: the response cannot be completed.
            return Action::Abort;
        }
        if !plain.is_empty() {
            self.pending = plain;
            return if self.next == Action::Flush { Action::Flush } else { Action::Yield };
        }
        context.return_plain_buffer(plain);
        let next = match self.next {
            Action::Receive if self.has_ended => {
                // Nothing may follow the close_notify, such as a 408 while the output is not sent.
                self.connection.end_input();
                Action::Close
            }
            next => next,
        };
        if matches!(next, Action::Close | Action::ShutdownWrite) {
            // rustls sends it once.
            tls.send_close_notify();
            flush(tls, output);
        }
        next
    }

    /// Sends the alert and lingers.
    fn fail(&mut self, context: &mut WorkerContext<H>, output: &mut SendBuffer) -> Action {
        if !matches!(self.state, TlsState::Established(_)) {
            context.telemetry.count(Counter::HandshakesFailed, 1);
        }
        if let Some(tls) = self.state.tls() {
            flush(tls, output);
        }
        self.state = TlsState::Closed;
        self.connection.linger(context)
    }

    /// The pending plaintext, or an empty buffer.
    fn take_pending(&mut self, context: &mut WorkerContext<H>) -> SendBuffer {
        if self.pending.is_empty() {
            context.take_plain_buffer()
        } else {
            std::mem::take(&mut self.pending)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
