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
    stage: Stage,
    /// What the handler has requested last.
    next: Action,
    /// The server has sent `close_notify` (RFC 8446 section 6.1).
    has_ended: bool,
    /// The handler knows that the server has ended.
    end_is_reported: bool,
    failure: Option<TlsFailure>,
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The connection below is being established: nothing can be sent.
    Connecting,
    Handshaking,
    Established,
    /// It closes when all is sent, of which `close_notify` or an alert is the last.
    Closing,
    /// The same, and the handler has aborted it.
    Aborted,
}

const fn goes_on(next: Action) -> bool {
    !matches!(next, Action::Close | Action::Abort | Action::Reset)
}

/// Whether the handler takes bytes, or their end.
const fn receives(next: Action) -> bool {
    matches!(next, Action::Receive | Action::ShutdownWrite)
}

impl UpstreamSession {
    pub(crate) fn new(token: u64, opening: &TlsOpening) -> Result<Self, Error> {
        Ok(Self {
            token,
            tls: opening.client.session(&opening.name)?,
            stage: Stage::Connecting,
            next: Action::Receive,
            has_ended: false,
            end_is_reported: false,
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
        match (self.stage, kind) {
            // The server does not read.
            (Stage::Aborted, _) => Action::Abort,
            (Stage::Closing, UpstreamEventKind::Resumed { .. }) => {
                self.call(kind, context, output);
                if goes_on(self.next) { Action::Close } else { self.next }
            }
            (Stage::Closing, _) => Action::Close,
            (_, UpstreamEventKind::Connected) => {
                self.stage = Stage::Handshaking;
                flush(&mut self.tls, output);
                Action::Receive
            }
            (_, UpstreamEventKind::Resumed { unsent }) => {
                self.call(kind, context, output);
                self.conclude(unsent, context, output)
            }
            (_, UpstreamEventKind::Data { bytes, unsent }) => {
                self.on_data((bytes, unsent), context, output)
            }
            (Stage::Established, UpstreamEventKind::Eof { .. }) => {
                self.report_end(context, output);
                // The server may be gone, so that an aborted connection gets no close_notify.
                self.conclude(usize::MAX, context, output)
            }
            (_, UpstreamEventKind::Eof { .. }) => self.close(),
        }
    }

    /// The connection closes without another word.
    const fn close(&mut self) -> Action {
        self.stage = Stage::Closing;
        Action::Close
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
        if self.stage == Stage::Handshaking && outcome.is_ok() && !self.tls.is_handshaking() {
            self.stage = Stage::Established;
            self.call(UpstreamEventKind::Connected, context, output);
        }
        if !plain.is_empty() && self.stage == Stage::Established && goes_on(self.next) {
            let kind = UpstreamEventKind::Data { bytes: &plain, unsent };
            self.call(kind, context, output);
        }
        context.decrypted = plain;
        if let Err(error) = outcome
            && goes_on(self.next)
        {
            self.failure = Some(TlsFailure::from(&error));
            return self.close();
        }
        if self.has_ended && self.stage == Stage::Handshaking {
            return self.close();
        }
        self.conclude(unsent, context, output)
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

    /// Calls the handler, and encrypts its output if it can be sent.
    fn call<H: Handler>(
        &mut self,
        kind: UpstreamEventKind<'_>,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) {
        let mut plain = context.take_plain_buffer();
        self.next = context.call_outbound(self.token, kind, &mut plain);
        if self.stage == Stage::Established && !plain.is_empty() {
            let is_sent = !matches!(self.next, Action::Abort | Action::Reset)
                && encrypt(&mut self.tls, &mut plain, usize::MAX, output).is_ok();
            if !is_sent {
                // The server must not take what it has for all.
                self.next = Action::Reset;
            }
        }
        if plain.is_empty() {
            context.return_plain_buffer(plain);
        }
    }

    /// Calls the handler for the end of the server, once.
    fn report_end<H: Handler>(&mut self, context: &mut WorkerContext<H>, output: &mut SendBuffer) {
        if !std::mem::replace(&mut self.end_is_reported, true) {
            let kind = UpstreamEventKind::Eof { is_clean: self.has_ended };
            self.call(kind, context, output);
        }
    }

    /// What the driver is to do after an event, before which `unsent` bytes were not sent.
    fn conclude<H: Handler>(
        &mut self,
        unsent: usize,
        context: &mut WorkerContext<H>,
        output: &mut SendBuffer,
    ) -> Action {
        if self.has_ended && receives(self.next) {
            self.report_end(context, output);
        }
        if self.stage != Stage::Established && goes_on(self.next) {
            return Action::Receive;
        }
        if self.stage == Stage::Connecting {
            return self.next;
        }
        let next = match self.next {
            // As the driver does at the end of the connection below, which may come later or never.
            Action::Receive | Action::ShutdownWrite if self.end_is_reported => self.close(),
            Action::Close => self.close(),
            // Nothing is missing before the end.
            Action::Abort if unsent == 0 => {
                self.stage = Stage::Aborted;
                Action::Close
            }
            next => next,
        };
        if matches!(next, Action::Close | Action::ShutdownWrite) {
            // rustls sends it once.
            self.tls.send_close_notify();
            flush(&mut self.tls, output);
        }
        next
    }
}
