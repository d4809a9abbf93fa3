//! The timers of a worker. A connection has at most one, of the kind that its state needs: a timeout,
//! a retry after it failed, an announced close, or a delayed request.
//!
//! A timeout is set by the first of a row of requests, and left at its time by the following ones:
//! when it is due, it is set anew for the request that is then in flight. A late response is judged
//! by its own time (`recorder.rs`), so the counts are exact; only giving up may be late, by up to a
//! 64th of the timeout. A blocking wait ends at the earliest time by its timeout or, in the closed
//! loop, by a timer descriptor, which costs less than a timeout per wait.

use std::io;
use std::ops::IndexMut;

use jissoku_os::epoll::{Epoll, Interest};
use jissoku_os::timer::TimerFd;
use jissoku_os::timers::{TimerOwner, Timers as Deadlines};

use crate::engine::connection::{Connection, ConnectionState, TimerKind, compact_index};

/// Token of the timer descriptor.
pub(crate) const TIMER: u64 = u64::MAX - 1;

/// Timeouts are due at multiples of this part of the timeout, so that those of many connections
/// wake a worker together.
const STEPS_PER_TIMEOUT: u64 = 64;

/// The slot of a connection. A new connection in it replaces or cancels the timer of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot(u32);

impl TimerOwner for Slot {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The timers of a worker.
#[derive(Debug)]
pub(crate) struct Timers {
    deadlines: Deadlines<Slot>,
    fd: TimerFd,
    /// When the descriptor expires; `u64::MAX` if it is not armed.
    armed_ns: u64,
    timeout_ns: u64,
    /// When the delays of connections end, by index; empty without delays.
    delayed_until_ns: Vec<u64>,
    /// Connections whose request is delayed.
    delayed: usize,
    /// Before this time nothing has to be done.
    next_ns: u64,
}

impl Timers {
    /// No timers; the descriptor is registered with `epoll`.
    pub(crate) fn new(epoll: &Epoll, timeout_ns: u64) -> io::Result<Self> {
        let fd = TimerFd::new()?;
        epoll.add(&fd, TIMER, Interest::IN | Interest::ET)?;
        Ok(Self {
            deadlines: Deadlines::default(),
            fd,
            armed_ns: u64::MAX,
            timeout_ns,
            delayed_until_ns: Vec::new(),
            delayed: 0,
            next_ns: 0,
        })
    }

    /// Before this time nothing has to be done.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Sets the next time to the earliest timer, or to `other_ns` if that is earlier.
    pub(crate) fn reschedule(&mut self, other_ns: u64) {
        self.next_ns = self.deadlines.earliest_ns().unwrap_or(u64::MAX).min(other_ns);
    }

    /// Connections with a timer.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.deadlines.count()
    }

    /// Arms the descriptor, unless it expires early enough.
    pub(crate) fn arm(&mut self, now_ns: u64) -> io::Result<()> {
        if self.next_ns < self.armed_ns {
            self.fd.set(self.next_ns.saturating_sub(now_ns))?;
            self.armed_ns = self.next_ns;
        }
        Ok(())
    }

    /// The descriptor has expired.
    pub(crate) fn on_expired(&mut self) {
        self.armed_ns = u64::MAX;
    }

    /// Sets the timer of a connection, in place of the one that it has.
    pub(crate) fn set(
        &mut self,
        connection: &mut Connection,
        index: usize,
        kind: TimerKind,
        due_ns: u64,
    ) {
        connection.timer = Some(kind);
        self.deadlines.set(due_ns, Slot(compact_index(index)));
        self.next_ns = self.next_ns.min(due_ns);
    }

    /// Has the timeout of a connection checked that waits since `since_ns`, unless it has a timer.
    #[inline]
    pub(crate) fn watch(&mut self, connection: &mut Connection, index: usize, since_ns: u64) {
        if connection.timer.is_none() {
            self.set_timeout(connection, index, since_ns);
        }
    }

    /// Sets the timer of a connection to the timeout of what it waits for since `since_ns`.
    pub(crate) fn set_timeout(&mut self, connection: &mut Connection, index: usize, since_ns: u64) {
        let step_ns = (self.timeout_ns / STEPS_PER_TIMEOUT).max(1);
        let due_ns = since_ns.saturating_add(self.timeout_ns);
        let due_ns = due_ns.checked_next_multiple_of(step_ns).unwrap_or(u64::MAX);
        self.set(connection, index, TimerKind::Timeout, due_ns);
    }

    /// Ends the timer of a connection that stays closed, and its delay.
    pub(crate) fn cancel(&mut self, connection: &mut Connection, index: usize) {
        if connection.timer.take().is_some() {
            self.deadlines.cancel(Slot(compact_index(index)));
        }
        self.end_delay(connection);
    }

    /// Ends a timer that is due by `by_ns`; returns the connection, and what to do.
    pub(crate) fn take_due(
        &mut self,
        by_ns: u64,
        connections: &mut impl IndexMut<usize, Output = Connection>,
    ) -> Option<(usize, TimerKind)> {
        let index = self.deadlines.take_due(by_ns)?.index();
        Some((index, connections[index].timer.take()?))
    }

    /// Whether requests of connections are delayed.
    #[inline]
    pub(crate) fn has_delayed(&self) -> bool {
        self.delayed > 0
    }

    /// Delays the next request of a connection until `at_ns`, if it is not delayed already. A
    /// connection that is being established waits for the rest of the delay afterwards.
    pub(crate) fn delay(&mut self, connection: &mut Connection, index: usize, at_ns: u64) {
        if connection.is_queued {
            return;
        }
        connection.is_queued = true;
        self.delayed += 1;
        if index >= self.delayed_until_ns.len() {
            self.delayed_until_ns.resize(index + 1, 0);
        }
        self.delayed_until_ns[index] = at_ns;
        if connection.state == ConnectionState::Open {
            self.set(connection, index, TimerKind::Delay, at_ns);
        }
    }

    /// Whether the request of an open connection is delayed beyond `now_ns` (closed loop); if not,
    /// its delay is over. Continues the delay of a connection that was established meanwhile.
    #[inline]
    pub(crate) fn is_delayed(
        &mut self,
        connection: &mut Connection,
        index: usize,
        now_ns: u64,
    ) -> bool {
        connection.is_queued && self.continue_delay(connection, index, now_ns)
    }

    fn continue_delay(&mut self, connection: &mut Connection, index: usize, now_ns: u64) -> bool {
        if connection.timer == Some(TimerKind::Delay) {
            return true;
        }
        let at_ns = self.delayed_until_ns[index];
        if at_ns > now_ns {
            self.set(connection, index, TimerKind::Delay, at_ns);
            return true;
        }
        self.end_delay(connection);
        false
    }

    /// The delay of a connection is over, if it has one.
    pub(crate) fn end_delay(&mut self, connection: &mut Connection) {
        // Without delays (open loop), it is in a queue of free connections.
        if self.delayed > 0 && connection.is_queued {
            connection.is_queued = false;
            self.delayed -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers(timeout_ns: u64) -> Timers {
        let epoll = Epoll::new().expect("epoll is available");
        let mut timers = Timers::new(&epoll, timeout_ns).expect("timerfd is available");
        timers.reschedule(u64::MAX);
        timers
    }

    fn connections(count: usize) -> Vec<Connection> {
        let open = |_| Connection { state: ConnectionState::Open, ..Connection::new(0, 0) };
        (0..count).map(open).collect()
    }

    #[test]
    fn due_timers_are_taken_in_the_order_of_their_times() {
        let (mut timers, mut connections) = (timers(640), connections(4));
        timers.watch(&mut connections[0], 0, 5);
        timers.set(&mut connections[1], 1, TimerKind::Retry, 40);
        timers.delay(&mut connections[2], 2, 60);
        timers.set(&mut connections[3], 3, TimerKind::Close, 30);
        assert_eq!(timers.next_ns(), 30);
        assert_eq!(timers.take_due(29, &mut connections), None);
        let mut due = || timers.take_due(60, &mut connections);
        let expected = [(3, TimerKind::Close), (1, TimerKind::Retry), (2, TimerKind::Delay)];
        assert_eq!([due(), due(), due()].map(|due| due.expect("one is due")), expected);
        assert_eq!(due(), None);
        // The timeout is due at the next step of 10 ns.
        timers.reschedule(u64::MAX);
        assert_eq!((timers.next_ns(), timers.take_due(649, &mut connections)), (650, None));
        assert_eq!(timers.take_due(650, &mut connections), Some((0, TimerKind::Timeout)));
    }

    #[test]
    fn a_connection_has_one_timer_and_requests_in_a_row_leave_it_alone() {
        let (mut timers, mut connections) = (timers(640), connections(1));
        for sent_ns in 0..100 {
            timers.watch(&mut connections[0], 0, sent_ns);
        }
        assert_eq!((timers.next_ns(), timers.deadlines.count()), (640, 1));
        timers.set(&mut connections[0], 0, TimerKind::Close, 200);
        // It was replaced, and connects.
        connections[0].reset();
        timers.set_timeout(&mut connections[0], 0, 150);
        assert_eq!((timers.take_due(789, &mut connections), timers.deadlines.count()), (None, 1));
        timers.cancel(&mut connections[0], 0);
        assert_eq!(
            (timers.take_due(u64::MAX, &mut connections), timers.deadlines.count()),
            (None, 0)
        );
    }

    #[test]
    fn a_delay_goes_on_while_its_connection_is_replaced() {
        let (mut timers, mut connections) = (timers(640), connections(1));
        timers.delay(&mut connections[0], 0, 100);
        connections[0].reset();
        timers.set(&mut connections[0], 0, TimerKind::Retry, 20);
        assert_eq!(timers.take_due(20, &mut connections), Some((0, TimerKind::Retry)));
        timers.set_timeout(&mut connections[0], 0, 20);
        connections[0].state = ConnectionState::Open;
        assert!(timers.is_delayed(&mut connections[0], 0, 99) && timers.has_delayed());
        assert_eq!(timers.take_due(100, &mut connections), Some((0, TimerKind::Delay)));
        timers.end_delay(&mut connections[0]);
        assert!(!timers.has_delayed() && !timers.is_delayed(&mut connections[0], 0, 100));
        // One whose delay ends before it is established sends as soon as it is.
        timers.delay(&mut connections[0], 0, 200);
        connections[0].reset();
        timers.set_timeout(&mut connections[0], 0, 120);
        connections[0].state = ConnectionState::Open;
        assert!(!timers.is_delayed(&mut connections[0], 0, 200) && !timers.has_delayed());
    }
}
