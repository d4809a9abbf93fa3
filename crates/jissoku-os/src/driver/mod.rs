//! Drives connections: takes them, receives into one hot buffer, hands the bytes to a [`Handler`], and
//! sends what it answers.
//!
//! The interface speaks of what is *done* (bytes have come, output has gone) and never of readiness, so
//! that a driver for another kernel interface can stand beside this one unseen. A driver owes its
//! handler this:
//!
//! - one receive buffer per driver, so that an idle connection holds none;
//! - all output of one call, and of calls that follow before the next wait, leaves in one send;
//! - no more is received from a client that does not take its answers;
//! - running out of descriptors pauses the taking of connections, and nothing else;
//! - time is read once per wake-up, and told.
//!
//! It knows neither what the bytes mean nor when a client is too slow: the handler is asked once a second.

mod epoll;
mod listener;
mod output;
mod round;
mod slots;
mod tick;
mod uring;
mod waker;

use std::io;
use std::os::fd::BorrowedFd;

pub use listener::Listener;
pub use output::Output;
pub use slots::Key;
pub use waker::Waker;

/// What a connection needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More bytes from the peer.
    Receive,
    /// Another [`Handler::proceed`], once the output has gone and others had their turn.
    Proceed,
    /// Nothing, until the handler names the connection in [`Handler::due`].
    Hold,
    /// To tell the peer that nothing more will be sent, once the output has gone; bytes are still
    /// received.
    Finish,
    /// To be closed, once the output has gone.
    Close,
    /// To be closed now, whatever has not gone.
    Abort,
}

/// Who asks for a [`Handler::proceed`] of its own accord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// One connection, which may be gone by now.
    One(Key),
    /// Everybody.
    All,
}

/// What one turn of the driver was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Connections, or time.
    Ordinary,
    /// Somebody called [`Waker::wake`].
    Woken,
}

/// A connection that was just taken.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its name from now on.
    pub key: Key,
    /// Which of the driver's listeners it came through, by its place in the list.
    pub listener: usize,
    /// Its socket, for questions about the peer. It is not to be read or written.
    pub socket: BorrowedFd<'a>,
}

/// Answers bytes with bytes. One handler belongs to one driver and one thread.
pub trait Handler {
    /// What is remembered of a connection between two calls. It should be small: ten thousand may be idle.
    type Connection;

    /// A connection was taken.
    fn open(&mut self, arrival: &Arrival<'_>) -> Self::Connection;

    /// Bytes have come, at least one. They are gone after the call.
    fn receive(
        &mut self,
        connection: &mut Self::Connection,
        bytes: &[u8],
        output: &mut Output,
    ) -> Next;

    /// The peer will send no more; it may still wait for answers. [`Next::Receive`] closes.
    fn end(&mut self, connection: &mut Self::Connection, output: &mut Output) -> Next;

    /// Something other than bytes has happened: it was asked for by [`Next::Proceed`] or [`Due`], or a
    /// second has passed. `unsent` bytes of earlier output are still waiting for the peer.
    fn proceed(
        &mut self,
        connection: &mut Self::Connection,
        unsent: usize,
        output: &mut Output,
    ) -> Next;

    /// The connection is gone, whoever ended it.
    fn close(&mut self, connection: Self::Connection);

    /// The driver woke up, at `now_ns` on the monotonic clock. Comes first in every turn.
    fn wake(&mut self, now_ns: u64);

    /// When [`Handler::due`] wants to be asked at the latest, on the monotonic clock.
    fn deadline_ns(&self) -> Option<u64>;

    /// Whom to call [`Handler::proceed`] for now, one after the other until there is none left.
    fn due(&mut self) -> Option<Due>;
}

/// Which kernel interface moves the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The one that is right for most: epoll, until a measurement says otherwise.
    #[default]
    Auto,
    /// Readiness: `epoll(7)`.
    Epoll,
    /// Completion: `io_uring(7)`, where [`crate::uring::is_available`].
    Uring,
}

/// How a driver is set up.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Connections held at once; at this number no more are taken until one closes.
    pub connections_max: usize,
    /// The kernel interface.
    pub choice: Choice,
}

impl Default for Settings {
    fn default() -> Self {
        Self { connections_max: 65_536, choice: Choice::Auto }
    }
}

/// Everything that one thread drives.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one driver per thread")]
pub enum Driver<H: Handler> {
    /// Over `epoll(7)`.
    Epoll(epoll::Driver<H>),
    /// Over `io_uring(7)`.
    Uring(uring::Driver<H>),
}

impl<H: Handler> Driver<H> {
    /// Drives the connections that come through `listeners`, from the next [`Driver::turn`] on; `waker`
    /// ends its waiting. A driver stays on the thread that made it.
    ///
    /// # Errors
    /// The error of making what it needs of the kernel; `EMFILE` for example. `Unsupported` when
    /// `io_uring` was asked for by name and is not to be had.
    pub fn new(listeners: Vec<Listener>, waker: Waker, settings: Settings) -> io::Result<Self> {
        Ok(match settings.choice {
            Choice::Auto | Choice::Epoll => {
                Self::Epoll(epoll::Driver::new(listeners, waker, settings)?)
            }
            Choice::Uring => Self::Uring(uring::Driver::new(listeners, waker, settings)?),
        })
    }

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        match self {
            Self::Epoll(driver) => driver.connections(),
            Self::Uring(driver) => driver.connections(),
        }
    }

    /// Waits for something to happen and deals with all that has.
    ///
    /// # Errors
    /// The error of `epoll_wait(2)` or `io_uring_enter(2)`. What goes wrong with one connection ends that
    /// connection only.
    #[inline]
    pub fn turn(&mut self, handler: &mut H) -> io::Result<Turn> {
        match self {
            Self::Epoll(driver) => driver.turn(handler),
            Self::Uring(driver) => driver.turn(handler),
        }
    }

    /// Takes what the kernel has accepted for us, and closes the listeners: the first half of stopping.
    ///
    /// # Errors
    /// The error of `epoll_ctl(2)` or `io_uring_enter(2)`.
    pub fn stop_listening(&mut self, handler: &mut H) -> io::Result<()> {
        match self {
            Self::Epoll(driver) => driver.stop_listening(handler),
            Self::Uring(driver) => driver.stop_listening(handler),
        }
    }

    /// Closes every connection without a word. The driver is of no use afterwards.
    pub fn close_all(&mut self, handler: &mut H) {
        match self {
            Self::Epoll(driver) => driver.close_all(handler),
            Self::Uring(driver) => driver.close_all(handler),
        }
    }
}

#[cfg(test)]
mod tests;
