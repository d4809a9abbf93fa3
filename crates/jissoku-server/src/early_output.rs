//! Output that is sent in the middle of a call of the handler.

use std::io;
use std::time::Duration;

use jissoku_os::driver::{SendBuffer, SocketNumber, send_early};
use rustls::ServerConnection;

use crate::tls::{AHEAD_SIZE_MAX, encrypt};

/// What a worker lends to the handler for a call.
#[derive(Debug, Default)]
pub(crate) struct EarlyState {
    /// Set during calls for connections with TLS.
    pub(crate) tls: Option<TlsOutput>,
    /// Bytes that were sent early and are not counted yet.
    pub(crate) sent: usize,
    /// The memory of the last call, for the next one.
    spare: Option<Box<EarlyOutput>>,
}

impl EarlyState {
    /// Lends `output` for a call, with the TLS session of its connection, and leaves an empty one.
    pub(crate) fn lend(
        &mut self,
        socket: SocketNumber,
        output: &mut SendBuffer,
    ) -> Box<EarlyOutput> {
        let mut early = self.spare.take().unwrap_or_else(|| Box::new(EarlyOutput::new(socket)));
        early.socket = socket;
        std::mem::swap(&mut early.output, output);
        if self.tls.is_some() {
            early.tls = self.tls.take();
        }
        early
    }

    /// Takes back what was lent.
    pub(crate) fn take_back(&mut self, mut early: Box<EarlyOutput>, output: &mut SendBuffer) {
        if early.tls.is_some() {
            self.tls = early.tls.take();
        }
        self.sent += std::mem::take(&mut early.sent);
        std::mem::swap(&mut early.output, output);
        // What was written to the place that it left belongs to no response.
        if !early.output.is_empty() {
            early.output = SendBuffer::default();
        }
        self.spare = Some(early);
    }
}

/// The TLS session of a connection, and its records that are not sent yet.
#[derive(Debug)]
pub(crate) struct TlsOutput {
    pub(crate) tls: Box<ServerConnection>,
    pub(crate) records: SendBuffer,
}

/// The output of a connection during a call of its handler. See
/// [`Response::take_early`](crate::Response::take_early).
#[derive(Debug)]
pub struct EarlyOutput {
    socket: SocketNumber,
    output: SendBuffer,
    tls: Option<TlsOutput>,
    sent: usize,
}

impl EarlyOutput {
    fn new(socket: SocketNumber) -> Self {
        Self { socket, output: SendBuffer::default(), tls: None, sent: 0 }
    }

    /// The output, before it is encrypted.
    pub const fn output(&mut self) -> &mut SendBuffer {
        &mut self.output
    }

    /// Sends the output now. While the client does not take it, calls `wait` with a function that
    /// waits, in sum for at most `patience`; the rest is sent later.
    ///
    /// # Errors
    /// The connection has failed: all output is discarded.
    pub fn send(
        &mut self,
        patience: Duration,
        wait: &mut dyn FnMut(&mut dyn FnMut()),
    ) -> io::Result<()> {
        let Self { socket, output, tls, .. } = self;
        let mut send = |output: &mut SendBuffer| send_early(*socket, output, patience, wait);
        let mut sent = 0;
        let result = match tls {
            None => send(output).map(|size| sent += size),
            Some(TlsOutput { tls, records }) => loop {
                let step = encrypt(tls, output, AHEAD_SIZE_MAX, records)
                    .and_then(|()| send(records))
                    .map(|size| sent += size);
                if step.is_err() || output.is_empty() || !records.is_empty() {
                    break step;
                }
            },
        };
        self.sent += sent;
        if result.is_err() {
            self.output = SendBuffer::default();
            if let Some(tls) = &mut self.tls {
                tls.records = SendBuffer::default();
            }
        }
        result
    }
}
