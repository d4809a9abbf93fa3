//! The start of a worker: its connections are opened and awaited before the load begins.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use jissoku_os::epoll;

use super::RETRY_NS;
use crate::engine::connection::{Connection, ConnectionState, TimerKind, compact_index};
use crate::engine::transport::Transport;
use crate::engine::worker::Worker;

/// Concurrent connection attempts at the start; the accept queue of every common server holds this
/// many.
const CONNECTING_MAX: usize = 128;

impl<T: Transport> Worker<'_, T> {
    /// Opens `count` connections to each target and waits until all are established or the timeout
    /// expires. Slots for up to `max` connections are allocated.
    ///
    /// # Errors
    /// The target without a single connection, and its last error.
    pub(crate) fn open_connections(
        &mut self,
        count: usize,
        max: usize,
    ) -> Result<(), (usize, io::Error)> {
        let mut wanted = VecDeque::new();
        for (number, target) in (0..).zip(&mut self.dispatcher.targets) {
            let first = self.connections.len();
            self.connections.add_slots(number, target.request_sequence.len(), max, target.tls);
            wanted.extend(first..first + count);
            let spare_slots = first + count..self.connections.len();
            target.spare_slots = spare_slots.rev().map(compact_index).collect();
        }
        self.connect_all(wanted)
    }

    /// Connects, at most `CONNECTING_MAX` at a time, until all are established or the timeout
    /// expires.
    fn connect_all(&mut self, mut wanted: VecDeque<usize>) -> Result<(), (usize, io::Error)> {
        let give_up_ns = self.clock.now_ns().saturating_add(self.plan.timeout_ns);
        let mut events = [epoll::no_event(); CONNECTING_MAX];
        loop {
            let room = CONNECTING_MAX.saturating_sub(self.connecting_count()).min(wanted.len());
            for next in wanted.drain(..room) {
                self.connect(next);
            }
            let is_retried = |found: &Connection| found.timer == Some(TimerKind::Retry);
            let is_settled =
                self.connecting_count() == 0 && !self.connections.iter().any(is_retried);
            let is_over = wanted.is_empty() && (is_settled || self.is_refused_everywhere());
            let now_ns = self.clock.now_ns();
            if is_over || now_ns >= give_up_ns {
                return self.check_connected();
            }
            let timeout = Duration::from_nanos((give_up_ns - now_ns).min(RETRY_NS));
            let epoll = self.transport.epoll();
            let count = epoll.wait(&mut events, Some(timeout)).map_err(|error| (0, error))?;
            for event in &events[..count] {
                match usize::try_from(event.data.u64()) {
                    Ok(index) if index < self.connections.len() => self.on_connect_event(index),
                    // The stop descriptor: the event loop handles it.
                    _ => return Ok(()),
                }
            }
            self.run_due_timers(self.clock.now_ns());
        }
    }

    fn connecting_count(&self) -> usize {
        let is_connecting = |state: ConnectionState| {
            matches!(
                state,
                ConnectionState::Connecting
                    | ConnectionState::Handshaking
                    | ConnectionState::Upgrading
            )
        };
        self.connections.iter().filter(|found| is_connecting(found.state)).count()
    }

    /// Whether a target refused all connections. A full accept queue (`EAGAIN`) is no refusal.
    fn is_refused_everywhere(&self) -> bool {
        self.dispatcher.targets.iter().enumerate().any(|(number, target)| {
            let refused = |error: &io::Error| error.kind() != io::ErrorKind::WouldBlock;
            target.last_error.as_ref().is_some_and(refused)
                && self.states_of_target(number).all(|state| state == ConnectionState::Closed)
        })
    }

    /// Fails with the first target that has no connection, and its last error.
    fn check_connected(&mut self) -> Result<(), (usize, io::Error)> {
        for number in 0..self.dispatcher.targets.len() {
            let wants = self.dispatcher.targets[number].budget > 0
                && self.states_of_target(number).next().is_some();
            if wants && self.states_of_target(number).all(|state| state != ConnectionState::Open) {
                let error = self.dispatcher.targets[number].last_error.take();
                return Err((number, error.unwrap_or_else(|| io::ErrorKind::TimedOut.into())));
            }
        }
        Ok(())
    }

    fn states_of_target(&self, target: usize) -> impl Iterator<Item = ConnectionState> {
        let here = self.connections.iter().filter(move |found| usize::from(found.target) == target);
        here.map(|found| found.state)
    }
}
