//! Where the bytes of a response go while the application is being called. What it passes to `write`
//! is sent although it continues (PEP 3333, "Buffering and Streaming").

use std::time::Duration;

use jissoku_http::date;
use jissoku_os::clock;
use jissoku_os::driver::SendBuffer;
use jissoku_server::EarlyOutput;
use pyo3::prelude::*;

use crate::body_writer::BodyWriter;
use crate::interpreter;
use crate::thread_link::Link;

/// How long all calls of `write` for a response wait for a client that does not read, while the thread
/// belongs to the application. Far below the limit for a worker that hangs.
const WAIT_NS_MAX: u64 = 1_000_000_000;

/// The output of a response.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Nothing is sent before the call ends.
    Deferred(SendBuffer),
    /// The connection, on the thread of its worker, and for how long it was waited for.
    Connection(Box<EarlyOutput>, u64),
    /// The worker, which owns the connection.
    Thread(Box<Link>, SendBuffer),
}

impl Default for Sink {
    fn default() -> Self {
        Self::Deferred(SendBuffer::default())
    }
}

impl Sink {
    pub(crate) const fn output(&mut self) -> &mut SendBuffer {
        match self {
            Self::Connection(early, _) => early.output(),
            Self::Deferred(output) | Self::Thread(_, output) => output,
        }
    }

    /// Sends the output. Returns whether the client is still connected, as far as is known.
    fn send(&mut self, python: Python<'_>, body: &BodyWriter) -> bool {
        match self {
            Self::Deferred(_) => true,
            Self::Connection(early, waited_ns) => {
                let patience = Duration::from_nanos(WAIT_NS_MAX.saturating_sub(*waited_ns));
                let mut wait = |wait: &mut dyn FnMut()| {
                    let start_ns = clock::monotonic_ns();
                    interpreter::release_while(wait);
                    *waited_ns += clock::monotonic_ns() - start_ns;
                };
                early.send(patience, &mut wait).is_ok()
            }
            Self::Thread(link, output) => link.send_part(python, body, std::mem::take(output)),
        }
    }
}

/// A response during the call of the application.
#[derive(Debug)]
pub(crate) struct LiveResponse {
    pub(crate) sink: Sink,
    pub(crate) body: BodyWriter,
    pub(crate) date: [u8; date::SIZE],
    pub(crate) is_disconnected: bool,
}

impl LiveResponse {
    /// Sends the output, unless the client is gone: the application does not learn that, because it would
    /// report an error that is none.
    pub(crate) fn send(&mut self, python: Python<'_>) {
        if !self.is_disconnected {
            self.is_disconnected = !self.sink.send(python, &self.body);
        }
        if self.is_disconnected {
            *self.sink.output() = SendBuffer::default();
        }
    }
}
