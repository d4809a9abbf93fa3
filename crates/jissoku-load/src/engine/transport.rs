//! The interface to the kernel that a worker runs over: `epoll_transport.rs` and
//! `uring_transport.rs`.
//!
//! It has two halves, because requests are submitted while events are handled: a [`Transport`]
//! belongs to the worker, and [`Events`] calls the worker.

use std::io;

use jissoku_os::epoll::Epoll;

use crate::engine::connection::Connection;
use crate::engine::connections::Connections;
use crate::protocol::request_sequence::RequestSequence;

/// Token of the descriptor that stops the worker.
pub(crate) const STOP: u64 = u64::MAX;

/// Whether the worker continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Continue,
    Stop,
}

/// What a worker submits.
pub(crate) trait Transport: Sized {
    /// Whether requests are sent by the next wait, or at once.
    const IS_QUEUED: bool;

    fn new() -> io::Result<Self>;

    /// Watches sockets that are connecting, timers, and the descriptor that stops the worker.
    fn epoll(&self) -> &Epoll;

    /// Expects responses on a connection that was just established.
    fn on_connected(
        &mut self,
        connection: &Connection,
        index: usize,
        is_single_use: bool,
    ) -> io::Result<()>;

    /// Queues the prepared requests of a connection, which could have been sent from `ready_ns` on
    /// (if `IS_QUEUED`).
    fn queue_send(
        &mut self,
        connections: &Connections,
        request_sequence: &RequestSequence<'_>,
        index: usize,
        ready_ns: u64,
    );

    /// The connections with queued requests.
    fn queued(&self, connections: &Connections) -> impl Iterator<Item = usize>;

    /// Called when a connection has tried to send; it had waited for writability before if
    /// `did_wait`.
    fn await_writable(
        &mut self,
        connection: &Connection,
        index: usize,
        did_wait: bool,
    ) -> io::Result<()>;

    /// Cancels the operations of a connection that is about to be closed.
    fn cancel(&mut self, connection: &Connection, index: usize);
}

/// Waits for events, and calls the worker `W` for each.
pub(crate) trait Events<W>: Sized {
    fn new() -> io::Result<Self>;

    /// Submits what is queued, waits as long as the worker may block at `now_ns`, and handles all
    /// events.
    fn wait(&mut self, worker: &mut W, now_ns: u64) -> io::Result<Wake>;
}
