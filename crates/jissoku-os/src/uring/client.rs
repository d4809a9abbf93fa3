//! Rings for clients and servers: sends are submitted with the next wait, and events are delivered to
//! a callback.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::cqe::{Completion, Received};
use super::ring::{Ring, SendData, SendRequest, Wait};

/// The timeout of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Do not wait.
    NonBlocking,
    /// Wait for at most this time.
    For(Duration),
    /// Wait without limit.
    Forever,
}

/// Bytes to send.
#[derive(Debug)]
pub struct RingSend<'a> {
    /// The socket.
    pub socket: BorrowedFd<'a>,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Its number in [`RingEvent::Short`].
    pub number: u64,
}

/// A completed operation.
#[derive(Debug)]
pub enum RingEvent<'a> {
    /// Bytes were received. Without `more`, receiving has to be started again.
    Bytes {
        /// As given to [`RingClient::receive`].
        number: u64,
        /// The received bytes.
        bytes: &'a [u8],
        /// Whether the multishot receive is still active.
        more: bool,
    },
    /// End of file.
    End {
        /// As given to [`RingClient::receive`].
        number: u64,
    },
    /// Receiving failed.
    Failed {
        /// As given to [`RingClient::receive`].
        number: u64,
    },
    /// Receiving stopped for lack of buffers, and has to be started again.
    Stopped {
        /// As given to [`RingClient::receive`].
        number: u64,
    },
    /// A polled descriptor is ready. Without `more`, polling has to be started again.
    Ready {
        /// As given to [`RingClient::watch`] or [`RingClient::poll_writable`].
        number: u64,
        /// Whether the poll is still active.
        more: bool,
    },
    /// A send has failed or was short.
    Short {
        /// The number of the send.
        number: u64,
        /// The sent size, or the error.
        outcome: io::Result<usize>,
    },
}

/// An `io_uring(7)` with provided buffers. It must stay on the thread that created it.
pub struct RingClient {
    ring: Ring,
    completions: Vec<Completion>,
}

impl fmt::Debug for RingClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

impl RingClient {
    /// Opens a ring.
    ///
    /// # Errors
    /// The error of `io_uring_setup(2)` or `io_uring_register(2)`.
    pub fn new() -> io::Result<Self> {
        Ok(Self { ring: Ring::new()?, completions: Vec::new() })
    }

    /// Receives from a socket until end of file or until cancelled. `number` is below 2^61.
    pub fn receive(&mut self, socket: impl AsFd, number: u64) {
        self.ring.receive(socket, number);
    }

    /// Ends [`RingClient::receive`]; an active receive keeps the connection open after its socket
    /// is closed.
    pub fn cancel_receive(&mut self, number: u64) {
        self.ring.cancel_receive(number);
    }

    /// Reports whenever `source` is readable.
    pub fn watch(&mut self, source: impl AsFd, number: u64) {
        self.ring.watch(source, number);
    }

    /// Reports once when `socket` is writable.
    pub fn poll_writable(&mut self, socket: impl AsFd, number: u64) {
        self.ring.poll_writable(socket, number);
    }

    /// Ends [`RingClient::poll_writable`].
    pub fn cancel_poll(&mut self, number: u64) {
        self.ring.cancel_poll(number);
    }

    /// Submits the sends and waits for events.
    ///
    /// # Errors
    /// The error of `io_uring_enter(2)`. The ring must not be used afterwards.
    #[expect(single_use_lifetimes, reason = "an `impl Trait` cannot do without the name")]
    pub fn enter<'a>(
        &mut self,
        sends: impl Iterator<Item = RingSend<'a>>,
        timeout: Timeout,
    ) -> io::Result<()> {
        let requests = sends.map(|RingSend { socket, bytes, number }| SendRequest {
            socket,
            bytes: SendData::whole(bytes),
            index: number,
        });
        let wait = match timeout {
            Timeout::NonBlocking => Wait::NonBlocking,
            Timeout::For(time) => Wait::For(time),
            Timeout::Forever => Wait::Forever,
        };
        self.ring.enter(requests, wait)
    }

    /// Delivers all events: first failed sends, because received bytes may lead to further sends on
    /// the same sockets.
    pub fn collect(&mut self, on_event: impl FnMut(RingEvent<'_>)) {
        self.collect_all(on_event, |_, _, _| ());
    }

    /// As [`RingClient::collect`], with accepted connections: the number of the listener, the
    /// result, and whether the accept is still active.
    fn collect_all(
        &mut self,
        mut on_event: impl FnMut(RingEvent<'_>),
        mut accepted: impl FnMut(u64, io::Result<OwnedFd>, bool),
    ) {
        let Self { ring, completions } = self;
        ring.collect(completions);
        for completion in
            completions.extract_if(.., |completion| matches!(completion, Completion::Short { .. }))
        {
            if let Completion::Short { index, outcome } = completion {
                on_event(RingEvent::Short { number: index, outcome });
            }
        }
        for completion in completions.drain(..) {
            match completion {
                Completion::Received { number, result, more } => match result {
                    Received::Bytes(lease) => {
                        on_event(RingEvent::Bytes { number, bytes: ring.bytes(&lease), more });
                        ring.release(lease);
                    }
                    Received::End => on_event(RingEvent::End { number }),
                    Received::Failed => on_event(RingEvent::Failed { number }),
                    Received::NoBuffers => on_event(RingEvent::Stopped { number }),
                    Received::Cancelled => {}
                },
                Completion::Ready { number, more } => on_event(RingEvent::Ready { number, more }),
                Completion::Accepted { listener, outcome, more } => {
                    accepted(listener, outcome, more);
                }
                // Processed above.
                Completion::Short { .. } => {}
            }
        }
    }
}

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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn client() -> Option<RingClient> {
        let client = super::super::is_available().then(RingClient::new);
        if client.is_none() {
            eprintln!("skipped: this kernel has no io_uring for us");
        }
        client.map(|opened| opened.expect("it has just been opened"))
    }

    #[test]
    fn letters_leave_and_answers_come() {
        let Some(mut client) = client() else { return };
        let (near, mut far) = UnixStream::pair().expect("a pair can be had");
        client.receive(&near, 7);
        let send = RingSend { socket: near.as_fd(), bytes: b"ask", number: 0 };
        client.enter([send].into_iter(), Timeout::NonBlocking).expect("it is taken");
        let mut asked = [0; 3];
        far.read_exact(&mut asked).expect("it came");
        far.write_all(b"answer").expect("it listens");
        drop(far);
        let (mut seen, mut ended) = (Vec::new(), false);
        while !ended {
            client.enter(std::iter::empty(), Timeout::Forever).expect("it goes on");
            client.collect(|event| match event {
                RingEvent::Bytes { number: 7, bytes, .. } => seen.extend_from_slice(bytes),
                RingEvent::End { number: 7 } => ended = true,
                RingEvent::Stopped { .. } | RingEvent::Ready { .. } => {}
                other => unreachable!("{other:?}"),
            });
        }
        assert_eq!((&asked, &seen[..]), (b"ask", &b"answer"[..]));
    }

    #[test]
    fn a_request_that_does_not_fit_is_reported() {
        let Some(mut client) = client() else { return };
        let (near, _far) = UnixStream::pair().expect("a pair can be had");
        let much = vec![0; 4 << 20];
        let send = RingSend { socket: near.as_fd(), bytes: &much, number: 3 };
        client.enter([send].into_iter(), Timeout::NonBlocking).expect("it is taken");
        let mut left = 0;
        client.collect(|event| match event {
            RingEvent::Short { number: 3, outcome } => left = outcome.expect("some of it fits"),
            other => unreachable!("{other:?}"),
        });
        assert!((1..much.len()).contains(&left));
    }
}
