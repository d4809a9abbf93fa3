//! The listeners of a driver, and the pause while resources are exhausted.
//!
//! With multishot accept some connections may be accepted beyond the limit. They are deferred: kept
//! open, but not processed.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::driver::listener::{ACCEPT_PAUSE_NS, Listener};
use crate::socket;
use crate::socket::is_resource_exhausted;
use crate::uring::Ring;

/// Consecutive accept failures before a listener is skipped.
const ACCEPT_FAILURES_MAX: usize = 64;

/// An accepted socket and the index of its listener.
pub(super) type AcceptedSocket = (usize, OwnedFd);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptState {
    Idle,
    /// A multishot accept is active.
    Armed,
    /// Cancelled, without a completion yet.
    Cancelling,
}

#[derive(Debug)]
pub(super) struct Acceptor {
    listeners: Vec<(Listener, AcceptState)>,
    deferred: VecDeque<AcceptedSocket>,
    resume_ns: Option<u64>,
    /// The driver is shutting down.
    is_closing: bool,
}

impl Acceptor {
    /// Starts paused until the first iteration. Requests that are submitted earlier would complete
    /// even if the driver is dropped before, and their connections would be lost.
    pub(super) fn new(listeners: Vec<Listener>) -> Self {
        let listeners =
            listeners.into_iter().map(|listener| (listener, AcceptState::Idle)).collect();
        Self { listeners, deferred: VecDeque::new(), resume_ns: Some(0), is_closing: false }
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.resume_ns.is_some()
    }

    pub(super) const fn resume_ns(&self) -> Option<u64> {
        self.resume_ns
    }

    /// Starts accepting, unless paused or closing.
    pub(super) fn open(&mut self, ring: &mut Ring) {
        if self.is_paused() || self.is_closing {
            return;
        }
        for ((listener, state), number) in self.listeners.iter_mut().zip(0..) {
            if *state == AcceptState::Idle {
                ring.accept(listener.fd(), number);
                *state = AcceptState::Armed;
            }
        }
    }

    /// Records that the multishot accept of a listener has ended.
    pub(super) fn on_accept_ended(&mut self, listener: usize) {
        if let Some((_, state)) = self.listeners.get_mut(listener) {
            *state = AcceptState::Idle;
        }
    }

    /// Pauses accepting for a while, or until a connection closes; the kernel queues connections.
    pub(super) fn pause(&mut self, ring: &mut Ring, now_ns: u64) {
        self.resume_ns = Some(now_ns + ACCEPT_PAUSE_NS);
        self.cancel_all(ring);
    }

    fn cancel_all(&mut self, ring: &mut Ring) {
        for ((_, state), number) in self.listeners.iter_mut().zip(0..) {
            if *state == AcceptState::Armed {
                ring.cancel_accept(number);
                *state = AcceptState::Cancelling;
            }
        }
    }

    /// Ends a pause at `now_ns`.
    pub(super) const fn resume_at(&mut self, now_ns: u64) {
        self.resume_ns = Some(now_ns);
    }

    /// Ends a pause. Deferred sockets are processed first.
    pub(super) const fn resume(&mut self) {
        self.resume_ns = None;
    }

    pub(super) fn defer(&mut self, accepted: AcceptedSocket) {
        self.deferred.push_back(accepted);
    }

    pub(super) fn next_deferred(&mut self) -> Option<AcceptedSocket> {
        self.deferred.pop_front()
    }

    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Cancels all accepts; done when [`Acceptor::is_idle`].
    pub(super) fn start_closing(&mut self, ring: &mut Ring) {
        self.is_closing = true;
        self.cancel_all(ring);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.listeners.iter().all(|(_, state)| *state == AcceptState::Idle)
    }

    /// Accepts one queued connection, after the multishot accepts have ended.
    pub(super) fn take(&mut self) -> Option<AcceptedSocket> {
        for ((listener, _), number) in self.listeners.iter().zip(0..) {
            for _ in 0..ACCEPT_FAILURES_MAX {
                match socket::accept(listener.fd()) {
                    Ok(Some(socket)) => return Some((number, socket)),
                    Ok(None) => break,
                    Err(error) if is_resource_exhausted(&error) => return None,
                    // Other errors belong to one connection that came and went (`accept(2)`).
                    Err(_) => {}
                }
            }
        }
        None
    }

    /// Closes the listeners. Deferred sockets are still processed.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
    }
}
