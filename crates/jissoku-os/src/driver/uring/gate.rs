//! The listeners of one driver, and the pause when there is no room.
//!
//! The kernel takes connections unasked, so that some may come after the house is full. They are parked:
//! held, but not opened.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::driver::listener::{Listener, PAUSE_NS, is_shortage};
use crate::socket;
use crate::uring::Ring;

/// Connections that may fail in a row before a listener is taken to be out of order.
const FAILURES_MAX: usize = 64;

/// A connection, and the place of the listener that it came through.
pub(super) type Guest = (usize, OwnedFd);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Shut,
    /// The kernel takes connections.
    Open,
    /// Cancelled, which is not reported yet.
    Shutting,
}

#[derive(Debug)]
pub(super) struct Gate {
    listeners: Vec<(Listener, Door)>,
    parked: VecDeque<Guest>,
    opens_again_ns: Option<u64>,
    /// No more is to be taken, for good.
    is_closing: bool,
}

impl Gate {
    /// Opens with the driver's first turn. Not sooner, because whatever was asked of the ring is done even
    /// if the driver ends before it was used, and a connection that is taken then is lost.
    pub(super) fn new(listeners: Vec<Listener>) -> Self {
        let listeners = listeners.into_iter().map(|listener| (listener, Door::Shut)).collect();
        Self { listeners, parked: VecDeque::new(), opens_again_ns: Some(0), is_closing: false }
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.opens_again_ns.is_some()
    }

    pub(super) const fn opens_again_ns(&self) -> Option<u64> {
        self.opens_again_ns
    }

    /// Has connections taken, unless the gate is paused or closing.
    pub(super) fn open(&mut self, ring: &mut Ring) {
        if self.is_paused() || self.is_closing {
            return;
        }
        for ((listener, door), number) in self.listeners.iter_mut().zip(0..) {
            if *door == Door::Shut {
                ring.accept(listener.fd(), number);
                *door = Door::Open;
            }
        }
    }

    /// Takes note that the kernel takes no more connections from a listener.
    pub(super) fn note_shut(&mut self, listener: usize) {
        if let Some((_, door)) = self.listeners.get_mut(listener) {
            *door = Door::Shut;
        }
    }

    /// Takes no connection for a while, or until one has closed; the kernel keeps them waiting.
    pub(super) fn pause(&mut self, ring: &mut Ring, now_ns: u64) {
        self.opens_again_ns = Some(now_ns + PAUSE_NS);
        self.shut(ring);
    }

    fn shut(&mut self, ring: &mut Ring) {
        for ((_, door), number) in self.listeners.iter_mut().zip(0..) {
            if *door == Door::Open {
                ring.cancel_accept(number);
                *door = Door::Shutting;
            }
        }
    }

    /// Ends a pause sooner.
    pub(super) const fn open_at(&mut self, now_ns: u64) {
        self.opens_again_ns = Some(now_ns);
    }

    /// Ends a pause. Who is parked comes first.
    pub(super) const fn resume(&mut self) {
        self.opens_again_ns = None;
    }

    pub(super) fn park(&mut self, guest: Guest) {
        self.parked.push_back(guest);
    }

    pub(super) fn unpark(&mut self) -> Option<Guest> {
        self.parked.pop_front()
    }

    pub(super) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Has the kernel take no more connections; it is done when [`Gate::is_shut`].
    pub(super) fn begin_to_close(&mut self, ring: &mut Ring) {
        self.is_closing = true;
        self.shut(ring);
    }

    pub(super) fn is_shut(&self) -> bool {
        self.listeners.iter().all(|(_, door)| *door == Door::Shut)
    }

    /// Takes one of those who wait at listeners where the kernel takes nobody by itself.
    pub(super) fn take(&mut self) -> Option<Guest> {
        for ((listener, _), number) in self.listeners.iter().zip(0..) {
            for _ in 0..FAILURES_MAX {
                match socket::accept(listener.fd()) {
                    Ok(Some(socket)) => return Some((number, socket)),
                    Ok(None) => break,
                    Err(error) if is_shortage(&error) => return None,
                    // Other errors belong to one connection that came and went (`accept(2)`).
                    Err(_) => {}
                }
            }
        }
        None
    }

    /// Closes the listeners for good. Who is parked still comes in.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
    }
}
