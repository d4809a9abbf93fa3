//! A ring for those who ask: what leaves in a turn goes with the next wait, and what comes is told piece by
//! piece.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::report::{Received, Report};
use super::ring::{Bytes, Parcel, Ring, Wait};

/// How long to wait for something to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    None,
    /// So long at most.
    For(Duration),
    /// For ever.
    Endless,
}

/// Bytes that are to leave on a socket.
#[derive(Debug)]
pub struct Letter<'a> {
    /// Where they leave.
    pub socket: BorrowedFd<'a>,
    /// What leaves.
    pub bytes: &'a [u8],
    /// What an [`Event::Short`] calls the letter.
    pub number: u64,
}

/// What has happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// Bytes came. Unless it `goes_on`, receiving must be asked for again.
    Bytes {
        /// As given to [`Client::receive`].
        number: u64,
        /// What came.
        bytes: &'a [u8],
        /// Whether more will be told without being asked for.
        goes_on: bool,
    },
    /// The peer will send no more.
    End {
        /// As given to [`Client::receive`].
        number: u64,
    },
    /// Receiving failed.
    Failed {
        /// As given to [`Client::receive`].
        number: u64,
    },
    /// Receiving stopped, for want of a buffer, and must be asked for again.
    Stopped {
        /// As given to [`Client::receive`].
        number: u64,
    },
    /// What was watched is ready. Unless it `goes_on`, watching must be asked for again.
    Ready {
        /// As given to [`Client::watch`] or [`Client::await_room`].
        number: u64,
        /// Whether it will be told of again without being asked for.
        goes_on: bool,
    },
    /// A letter has not left, or only the front of it.
    Short {
        /// The letter's.
        number: u64,
        /// How much of it left, or why nothing did.
        outcome: io::Result<usize>,
    },
}

/// An `io_uring(7)` with receive buffers. It stays on the thread that made it.
pub struct Client {
    ring: Ring,
    reports: Vec<Report>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Opens a ring.
    ///
    /// # Errors
    /// The error of `io_uring_setup(2)` or `io_uring_register(2)`.
    pub fn new() -> io::Result<Self> {
        Ok(Self { ring: Ring::new()?, reports: Vec::new() })
    }

    /// Tells of whatever comes on a socket, until its end or until told not to. Numbers are smaller than
    /// 2^61.
    pub fn receive(&mut self, socket: impl AsFd, number: u64) {
        self.ring.receive(socket, number);
    }

    /// Ends [`Client::receive`]; it would keep the connection open although its socket is closed here.
    pub fn cancel_receive(&mut self, number: u64) {
        self.ring.cancel_receive(number);
    }

    /// Tells whenever there is something to read.
    pub fn watch(&mut self, source: impl AsFd, number: u64) {
        self.ring.watch(source, number);
    }

    /// Tells once when there is room to send.
    pub fn await_room(&mut self, socket: impl AsFd, number: u64) {
        self.ring.await_room(socket, number);
    }

    /// Ends [`Client::await_room`].
    pub fn cancel_room(&mut self, number: u64) {
        self.ring.cancel_room(number);
    }

    /// Sends the letters, as far as there is room for each, and waits for something to tell.
    ///
    /// # Errors
    /// The error of `io_uring_enter(2)`. The ring is of no use after one.
    #[expect(single_use_lifetimes, reason = "an `impl Trait` cannot do without the name")]
    pub fn enter<'a>(
        &mut self,
        letters: impl Iterator<Item = Letter<'a>>,
        patience: Patience,
    ) -> io::Result<()> {
        let parcels = letters.map(|Letter { socket, bytes, number }| Parcel {
            socket,
            bytes: Bytes::whole(bytes),
            index: number,
        });
        let wait = match patience {
            Patience::None => Wait::Not,
            Patience::For(time) => Wait::For(time),
            Patience::Endless => Wait::Long,
        };
        self.ring.enter(parcels, wait)
    }

    /// Tells of everything that has happened: first of letters that did not leave, since what comes may
    /// lead to others on the same sockets.
    pub fn collect(&mut self, mut tell: impl FnMut(Event<'_>)) {
        let Self { ring, reports } = self;
        ring.collect(reports);
        for report in reports.extract_if(.., |report| matches!(report, Report::Short { .. })) {
            if let Report::Short { index, outcome } = report {
                tell(Event::Short { number: index, outcome });
            }
        }
        for report in reports.drain(..) {
            match report {
                Report::Received { number, what, goes_on } => match what {
                    Received::Bytes(filled) => {
                        tell(Event::Bytes { number, bytes: ring.bytes(&filled), goes_on });
                        ring.give_back(filled);
                    }
                    Received::End => tell(Event::End { number }),
                    Received::Failed => tell(Event::Failed { number }),
                    Received::Starved => tell(Event::Stopped { number }),
                    Received::Cancelled => {}
                },
                Report::Ready { number, goes_on } => tell(Event::Ready { number, goes_on }),
                // No listener is ours, and letters have had their turn.
                Report::Accepted { .. } | Report::Short { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn client() -> Option<Client> {
        let client = super::super::is_available().then(Client::new);
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
        let letter = Letter { socket: near.as_fd(), bytes: b"ask", number: 0 };
        client.enter([letter].into_iter(), Patience::None).expect("it is taken");
        let mut asked = [0; 3];
        far.read_exact(&mut asked).expect("it came");
        far.write_all(b"answer").expect("somebody listens");
        drop(far);
        let (mut seen, mut ended) = (Vec::new(), false);
        while !ended {
            client.enter(std::iter::empty(), Patience::Endless).expect("it goes on");
            client.collect(|event| match event {
                Event::Bytes { number: 7, bytes, .. } => seen.extend_from_slice(bytes),
                Event::End { number: 7 } => ended = true,
                Event::Stopped { .. } | Event::Ready { .. } => {}
                other => unreachable!("{other:?}"),
            });
        }
        assert_eq!((&asked, &seen[..]), (b"ask", &b"answer"[..]));
    }

    #[test]
    fn a_letter_that_does_not_fit_is_told_of() {
        let Some(mut client) = client() else { return };
        let (near, _far) = UnixStream::pair().expect("a pair can be had");
        let much = vec![0; 4 << 20];
        let letter = Letter { socket: near.as_fd(), bytes: &much, number: 3 };
        client.enter([letter].into_iter(), Patience::None).expect("it is taken");
        let mut left = 0;
        client.collect(|event| match event {
            Event::Short { number: 3, outcome } => left = outcome.expect("some of it fits"),
            other => unreachable!("{other:?}"),
        });
        assert!((1..much.len()).contains(&left));
    }
}
