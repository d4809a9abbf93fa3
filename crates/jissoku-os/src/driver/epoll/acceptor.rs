//! The listeners of a driver, and the pause while resources are exhausted.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use super::accept_budget::AcceptBudget;
use crate::driver::listener::{ACCEPT_PAUSE_NS, Listener};
use crate::epoll::{Epoll, Interest};
use crate::socket;
use crate::socket::is_resource_exhausted;

/// Tokens of listeners: no connection has such a token, because there are fewer than 2^31.
const TOKENS: u64 = 0xffff_ffff_8000_0000;

/// The result of an accept.
#[derive(Debug)]
pub(super) enum AcceptResult {
    Connection(OwnedFd, Option<SocketAddr>),
    /// Another driver has sent it.
    Moved(OwnedFd),
    /// No connection is queued, or this accept failed.
    NoConnection,
    /// Descriptors, memory or connection slots are exhausted.
    Exhausted,
}

/// All listeners of one driver.
#[derive(Debug)]
pub(super) struct Acceptor {
    listeners: Vec<Listener>,
    /// How many accepts to try, of each listener.
    budgets: Vec<AcceptBudget>,
    /// Whether connections are accepted: not during a pause, and not after the end.
    is_open: bool,
    /// Whether the listeners are registered with epoll.
    is_registered: bool,
    /// When a pause ends.
    resume_ns: Option<u64>,
}

impl Acceptor {
    pub(super) fn new(listeners: Vec<Listener>, epoll: &Epoll) -> io::Result<Self> {
        let budgets = vec![AcceptBudget::new(); listeners.len()];
        let mut acceptor =
            Self { listeners, budgets, is_open: false, is_registered: false, resume_ns: None };
        acceptor.open(epoll)?;
        Ok(acceptor)
    }

    /// The listener of an event.
    pub(super) fn index_of(token: u64) -> Option<usize> {
        token.checked_sub(TOKENS).and_then(|index| usize::try_from(index).ok())
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.resume_ns.is_some()
    }

    pub(super) const fn resume_ns(&self) -> Option<u64> {
        self.resume_ns
    }

    /// Accepts a connection of the listener with this index.
    pub(super) fn accept(&self, index: usize) -> AcceptResult {
        if !self.is_open {
            return AcceptResult::NoConnection;
        }
        let Some(listener) = self.listeners.get(index) else { return AcceptResult::NoConnection };
        if let Listener::Moved(queue) = listener {
            // An error concerns one connection, which could not be received because descriptors are
            // exhausted; the kernel has closed it.
            let moved = socket::receive_connection(queue).ok().flatten();
            return moved.map_or(AcceptResult::NoConnection, AcceptResult::Moved);
        }
        match socket::accept_from(listener.fd()) {
            Ok(Some((connection, peer))) => AcceptResult::Connection(connection, peer),
            Err(error) if is_resource_exhausted(&error) => AcceptResult::Exhausted,
            // Other errors concern a single connection (`accept(2)`).
            Ok(None) | Err(_) => AcceptResult::NoConnection,
        }
    }

    /// The number of accepts to try at a listener that is ready.
    pub(super) fn limit(&self, index: usize) -> usize {
        self.budgets.get(index).map_or(0, |budget| budget.limit())
    }

    /// Records how many connections were accepted.
    pub(super) fn record(&mut self, index: usize, count: usize) {
        if let Some(budget) = self.budgets.get_mut(index) {
            budget.update(count);
        }
    }

    /// Pauses accepting for a while, or until a connection closes; the kernel queues connections.
    ///
    /// A level-triggered listener that stays registered would wake the driver all the time.
    pub(super) fn pause(&mut self, epoll: &Epoll, now_ns: u64) -> io::Result<()> {
        self.resume_ns = Some(now_ns + ACCEPT_PAUSE_NS);
        self.is_open = false;
        self.unregister(epoll)
    }

    /// Unregisters the listeners, which can still be accepted from.
    ///
    /// Closing them is not enough: the registration lives as long as any duplicate is open
    /// (`epoll(7)`, question 6), and would swallow wake-ups of other drivers.
    pub(super) fn unregister(&mut self, epoll: &Epoll) -> io::Result<()> {
        if std::mem::replace(&mut self.is_registered, false) {
            self.listeners.iter().try_for_each(|listener| epoll.remove(listener.fd()))?;
        }
        Ok(())
    }

    /// Ends a pause at `now_ns`.
    pub(super) const fn resume_at(&mut self, now_ns: u64) {
        self.resume_ns = Some(now_ns);
    }

    pub(super) fn open(&mut self, epoll: &Epoll) -> io::Result<()> {
        self.resume_ns = None;
        self.is_open = true;
        if std::mem::replace(&mut self.is_registered, true) {
            return Ok(());
        }
        for (listener, token) in self.listeners.iter().zip(TOKENS..) {
            let interest = match listener {
                Listener::PerWorker(_) | Listener::SharedWakeAll(_) => Interest::IN,
                Listener::SharedExclusive(_) | Listener::Moved(_) => {
                    Interest::IN | Interest::EXCLUSIVE
                }
            };
            epoll.add(listener.fd(), token, interest)?;
        }
        Ok(())
    }

    /// The number of listeners.
    pub(super) fn count(&self) -> usize {
        self.listeners.len()
    }

    /// Closes the listeners, which are unregistered already.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
        self.is_open = false;
        self.resume_ns = None;
    }
}
