//! A ring for servers: a [`RingClient`] that also accepts.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::client::{RingClient, RingEvent};

/// An `io_uring(7)` with listeners. It must stay on the thread that created it.
#[derive(Debug)]
pub struct RingServer {
    client: RingClient,
}

impl RingServer {
    /// Opens a ring.
    ///
    /// # Errors
    /// As [`RingClient::new`].
    pub fn new() -> io::Result<Self> {
        Ok(Self { client: RingClient::new()? })
    }

    /// Accepts connections until that fails. `number` is below 2^61.
    pub fn accept(&mut self, listener: impl AsFd, number: u64) {
        self.client.ring.accept(listener, number);
    }

    /// Receiving, sending and polling.
    pub const fn client(&mut self) -> &mut RingClient {
        &mut self.client
    }

    /// Delivers all events: those of [`RingClient::collect`] to `on_event`, and results of accepts to
    /// `accepted`, with the number of the listener and whether the accept is still active.
    pub fn collect(
        &mut self,
        on_event: impl FnMut(RingEvent<'_>),
        accepted: impl FnMut(u64, io::Result<OwnedFd>, bool),
    ) {
        self.client.collect_all(on_event, accepted);
    }
}
