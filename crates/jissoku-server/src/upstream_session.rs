//! TLS on a connection that the handler has opened: the handler sends and receives plain text, and the
//! connection is established for it when the handshake is complete.

use std::io::{self, BufRead};

use jissoku_os::driver::{Action, SendBuffer};
use rustls::{ClientConnection, Error};

use crate::context::WorkerContext;
use crate::handler::{Handler, UpstreamEventKind};
use crate::tls::{encrypt, flush};
use crate::tls_client::{TlsFailure, TlsOpening};

/// A TLS session with a server.
#[derive(Debug)]
pub(crate) struct UpstreamSession {
    /// The handler's name of the connection.
    token: u64,
    tls: ClientConnection,
    /// What the handler has requested last.
    next: Action,
    /// Whether the handler knows that the handshake is complete.
    is_established: bool,
    /// The server has sent `close_notify` (RFC 8446 section 6.1).
    has_ended: bool,
    failure: Option<TlsFailure>,
}

/// Whether a connection goes on.
const fn goes_on(next: Action) -> bool {
    !matches!(next, Action::Close | Action::Abort | Action::Reset)
}

impl UpstreamSession {
    pub(crate) fn new(token: u64, opening: &TlsOpening) -> Result<Self, Error> {
        Ok(Self {
            token,
            tls: opening.client.session(&opening.name)?,
            next: Action::Receive,
            is_established: false,
            has_ended: false,
            failure: None,
        })
    }

    pub(crate) const fn token(&self) -> u64 {
        self.token
    }

    /// Why the connection ends, if TLS is the reason.
    pub(crate) fn error(&self) -> Option<io::Error> {
        self.failure.map(io::Error::other)
    }

    /// An event of the connection below.
    pub(crate) fn on_event<H: Handler>(
        &mut self,
        kind: UpstreamEventKind<'_>,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        match kind {
            // The alert is still to be sent.
            UpstreamEventKind::Resumed { .. } if self.failure.is_some() => {
                match self.call(kind, context, output) {
                    next if goes_on(next) => Action::Close,
                    next => next,
                }
            }
            _ if self.failure.is_some() => Action::Close,
            UpstreamEventKind::Connected => {
                flush(&mut self.tls, output);
                Action::Receive
            }
            UpstreamEventKind::Data { bytes, unsent } => {
                self.on_data((bytes, unsent), context, output)
            }
            UpstreamEventKind::Eof { .. } if !self.is_established => Action::Close,
            UpstreamEventKind::Eof { .. } => {
                let kind = UpstreamEventKind::Eof { is_clean: self.has_ended };
                self.call(kind, context, output)
            }
            UpstreamEventKind::Resumed { .. } => self.call(kind, context, output),
        }
    }

    fn on_data<H: Handler>(
        &mut self,
        (bytes, unsent): (&[u8], usize),
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        let mut plain = std::mem::take(&mut context.decrypted);
        plain.clear();
        let outcome = self.decrypt(bytes, &mut plain);
        // Messages of the handshake, or an alert.
        flush(&mut self.tls, output);
        if !self.is_established && outcome.is_ok() && !self.tls.is_handshaking() {
            self.is_established = true;
            self.call(UpstreamEventKind::Connected, context, output);
        }
        if !plain.is_empty() && goes_on(self.next) {
            let kind = UpstreamEventKind::Data { bytes: &plain, unsent };
            self.call(kind, context, output);
        }
        context.decrypted = plain;
        if let Err(error) = outcome
            && goes_on(self.next)
        {
            self.failure = Some(TlsFailure::from(&error));
            return Action::Close;
        }
        if self.has_ended && self.is_established && goes_on(self.next) {
            self.call(UpstreamEventKind::Eof { is_clean: true }, context, output);
        }
        if self.has_ended && !self.is_established { Action::Close } else { self.next }
    }

    /// Decrypts received bytes up to the first error.
    fn decrypt(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.has_ended {
            // All plaintext is taken after each step, so there is room.
            let read = self.tls.read_tls(&mut rest);
            if read.map_err(|error| Error::General(error.to_string()))? == 0 {
                break;
            }
            let state = self.tls.process_new_packets()?;
            let mut reader = self.tls.reader();
            while let Ok(chunk) = reader.fill_buf()
                && !chunk.is_empty()
            {
                plain.extend_from_slice(chunk);
                let size = chunk.len();
                reader.consume(size);
            }
            self.has_ended = state.peer_has_closed();
        }
        Ok(())
    }

    /// Calls the handler, and encrypts its output.
    fn call<H: Handler>(
        &mut self,
        kind: UpstreamEventKind<'_>,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        let mut plain = context.take_plain_buffer();
        self.next = context.call_outbound(self.token, kind, &mut plain);
        if matches!(self.next, Action::Abort | Action::Reset) {
            return self.next;
        }
        if encrypt(&mut self.tls, &mut plain, usize::MAX, output).is_err() {
            self.next = Action::Abort;
            return self.next;
        }
        context.return_plain_buffer(plain);
        if matches!(self.next, Action::Close | Action::ShutdownWrite) {
            // rustls sends it once.
            self.tls.send_close_notify();
            flush(&mut self.tls, output);
        }
        self.next
    }
}
