//! Where connections come in: the listeners, and the pause when there is no room.

use std::io;
use std::os::fd::OwnedFd;

use super::crowd::Crowd;
use crate::driver::listener::{Listener, PAUSE_NS, is_shortage};
use crate::epoll::{Epoll, Interest};
use crate::socket;

/// Tokens of listeners: no key reaches here, because connections are fewer than 2^31.
const TOKENS: u64 = 0xffff_ffff_8000_0000;

/// What came of asking a listener.
#[derive(Debug)]
pub(super) enum Taken {
    Connection(OwnedFd),
    /// Nobody is waiting, or this listener failed for this one time.
    Nobody,
    /// No connection can be had until a descriptor or a place of ours is free.
    NoRoom,
}

/// All listeners of one driver.
#[derive(Debug)]
pub(super) struct Gate {
    listeners: Vec<Listener>,
    /// One for each listener.
    crowds: Vec<Crowd>,
    is_open: bool,
    is_watched: bool,
    opens_again_ns: Option<u64>,
}

impl Gate {
    pub(super) fn new(listeners: Vec<Listener>, epoll: &Epoll) -> io::Result<Self> {
        let crowds = vec![Crowd::new(); listeners.len()];
        let mut gate =
            Self { listeners, crowds, is_open: false, is_watched: false, opens_again_ns: None };
        gate.open(epoll)?;
        Ok(gate)
    }

    /// Which listener an event is about.
    pub(super) fn index_of(token: u64) -> Option<usize> {
        token.checked_sub(TOKENS).and_then(|index| usize::try_from(index).ok())
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.opens_again_ns.is_some()
    }

    pub(super) const fn opens_again_ns(&self) -> Option<u64> {
        self.opens_again_ns
    }

    pub(super) fn take(&self, index: usize) -> Taken {
        if !self.is_open {
            return Taken::Nobody;
        }
        let Some(listener) = self.listeners.get(index) else { return Taken::Nobody };
        match socket::accept(listener.fd()) {
            Ok(Some(connection)) => Taken::Connection(connection),
            Err(error) if is_shortage(&error) => Taken::NoRoom,
            // Other errors belong to one connection that came and went (`accept(2)`).
            Ok(None) | Err(_) => Taken::Nobody,
        }
    }

    /// How many connections are expected at a listener that has been reported.
    pub(super) fn expected(&self, index: usize) -> usize {
        self.crowds.get(index).map_or(0, |crowd| crowd.size())
    }

    /// So many came when the expected ones were asked for.
    pub(super) fn came(&mut self, index: usize, count: usize) {
        if let Some(crowd) = self.crowds.get_mut(index) {
            crowd.learn(count);
        }
    }

    /// Takes no connection for a while, or until one has closed; the kernel keeps them waiting.
    ///
    /// Left watched, a level-triggered listener that cannot be served would wake us without end.
    pub(super) fn pause(&mut self, epoll: &Epoll, now_ns: u64) -> io::Result<()> {
        self.opens_again_ns = Some(now_ns + PAUSE_NS);
        self.is_open = false;
        self.unwatch(epoll)
    }

    /// Is not woken for connections any more, and can still take them.
    ///
    /// Closing a listener would not do: the watch lives as long as anybody has the listener open (`epoll(7)`,
    /// question 6), and who watches and does not take swallows the wake-ups of the others.
    pub(super) fn unwatch(&mut self, epoll: &Epoll) -> io::Result<()> {
        if std::mem::replace(&mut self.is_watched, false) {
            self.listeners.iter().try_for_each(|listener| epoll.remove(listener.fd()))?;
        }
        Ok(())
    }

    /// Ends a pause sooner.
    pub(super) const fn open_at(&mut self, now_ns: u64) {
        self.opens_again_ns = Some(now_ns);
    }

    pub(super) fn open(&mut self, epoll: &Epoll) -> io::Result<()> {
        self.opens_again_ns = None;
        self.is_open = true;
        if std::mem::replace(&mut self.is_watched, true) {
            return Ok(());
        }
        for (listener, token) in self.listeners.iter().zip(TOKENS..) {
            let interest = match listener {
                Listener::Own(_) | Listener::Herd(_) => Interest::IN,
                Listener::Shared(_) => Interest::IN | Interest::EXCLUSIVE,
            };
            epoll.add(listener.fd(), token, interest)?;
        }
        Ok(())
    }

    /// How many listeners there are.
    pub(super) fn count(&self) -> usize {
        self.listeners.len()
    }

    /// Closes the listeners for good; they were unwatched before.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
        self.is_open = false;
        self.opens_again_ns = None;
    }
}
