//! The timers of a worker: timeout checks, retries of failed connections, announced closes, and
//! delayed requests.
//!
//! Timeouts, retry delays and the time for a close are the same for all connections, so FIFO queues suffice for them;
//! think times vary and need a heap. A connection is checked for its timeout several times per
//! timeout. A late response is judged by its own time (`recorder.rs`), so the counts are exact; only
//! giving up may be late, by up to an eighth of the timeout. A blocking wait ends at the earliest
//! time by its timeout or, in the closed loop, by a timer descriptor, which costs less than a
//! timeout per wait.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

use jissoku_os::epoll::{Epoll, Interest};
use jissoku_os::timer::TimerFd;

use crate::connection::{Connection, compact_index};

/// Token of the timer descriptor.
pub(crate) const TIMER: u64 = u64::MAX - 1;

/// Checks per timeout; the counts are exact all the same.
const CHECKS_PER_TIMEOUT: u64 = 8;

/// A time, and the index of the connection it is for.
type Entry = (u64, u32);

/// The timers of a worker.
#[derive(Debug)]
pub(crate) struct Timers {
    fd: TimerFd,
    /// When the descriptor expires; `u64::MAX` if it is not armed.
    armed_ns: u64,
    /// Time between two checks of a connection.
    check_ns: u64,
    timeout_checks: VecDeque<Entry>,
    retries: VecDeque<Entry>,
    /// Connections that the server has announced to close.
    closings: VecDeque<Entry>,
    /// Connections whose next request is delayed (think time, ramp-up).
    delayed: BinaryHeap<Reverse<Entry>>,
    /// Before this time nothing has to be done.
    next_ns: u64,
}

impl Timers {
    /// No timers; the descriptor is registered with `epoll`.
    pub(crate) fn new(epoll: &Epoll, timeout_ns: u64) -> io::Result<Self> {
        let fd = TimerFd::new()?;
        epoll.add(&fd, TIMER, Interest::IN | Interest::ET)?;
        Ok(Self {
            fd,
            armed_ns: u64::MAX,
            check_ns: timeout_ns / CHECKS_PER_TIMEOUT,
            timeout_checks: VecDeque::new(),
            retries: VecDeque::new(),
            closings: VecDeque::new(),
            delayed: BinaryHeap::new(),
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
        let front = |queue: &VecDeque<Entry>| queue.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        let delayed_ns = self.delayed.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        let queues = [&self.timeout_checks, &self.retries, &self.closings];
        let queued_ns = queues.into_iter().map(front).min().unwrap_or(u64::MAX);
        self.next_ns = other_ns.min(queued_ns).min(delayed_ns);
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

    /// Schedules a timeout check for a connection, if there is none yet. Times must not decrease.
    #[inline]
    pub(crate) fn add_timeout_check(
        &mut self,
        connection: &mut Connection,
        index: usize,
        now_ns: u64,
    ) {
        if !connection.has_timeout_check {
            connection.has_timeout_check = true;
            let at_ns = now_ns + self.check_ns;
            self.timeout_checks.push_back((at_ns, compact_index(index)));
            self.next_ns = self.next_ns.min(at_ns);
        }
    }

    /// The number of connections to be checked for a timeout.
    pub(crate) fn timeout_checks(&self) -> usize {
        self.timeout_checks.len()
    }

    /// Removes a timeout check that is due. Checks that are due soon are made together.
    pub(crate) fn pop_timeout_check(&mut self, now_ns: u64) -> Option<usize> {
        pop(&mut self.timeout_checks, now_ns + self.check_ns / CHECKS_PER_TIMEOUT)
    }

    /// Adds the retry of a failed connection; times must not decrease.
    pub(crate) fn add_retry(&mut self, index: usize, at_ns: u64) {
        self.retries.push_back((at_ns, compact_index(index)));
        self.next_ns = self.next_ns.min(at_ns);
    }

    /// Whether any connection is to be retried.
    pub(crate) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Removes a retry that is due by `by_ns`.
    pub(crate) fn pop_retry(&mut self, by_ns: u64) -> Option<usize> {
        pop(&mut self.retries, by_ns)
    }

    /// Adds a connection that is closed here unless the server closes it before; times must not
    /// decrease.
    pub(crate) fn add_closing(&mut self, index: usize, at_ns: u64) {
        self.closings.push_back((at_ns, compact_index(index)));
        self.next_ns = self.next_ns.min(at_ns);
    }

    /// Removes a connection that is due to be closed by `by_ns`. It may have been replaced already.
    pub(crate) fn pop_closing(&mut self, by_ns: u64) -> Option<usize> {
        pop(&mut self.closings, by_ns)
    }

    /// Delays the next request of a connection until `at_ns`, if it is not delayed already.
    pub(crate) fn add_delayed(&mut self, connection: &mut Connection, index: usize, at_ns: u64) {
        if connection.is_queued {
            return;
        }
        connection.is_queued = true;
        self.delayed.push(Reverse((at_ns, compact_index(index))));
        self.next_ns = self.next_ns.min(at_ns);
    }

    /// Whether any request is delayed.
    #[inline]
    pub(crate) fn has_delayed(&self) -> bool {
        !self.delayed.is_empty()
    }

    /// Removes a delayed request that is due by `by_ns`.
    pub(crate) fn pop_delayed(&mut self, by_ns: u64) -> Option<usize> {
        let &Reverse((at_ns, index)) = self.delayed.peek()?;
        if at_ns > by_ns {
            return None;
        }
        let _removed = self.delayed.pop();
        Some(index as usize)
    }
}

fn pop(queue: &mut VecDeque<Entry>, by_ns: u64) -> Option<usize> {
    let &(at_ns, index) = queue.front()?;
    if at_ns > by_ns {
        return None;
    }
    queue.pop_front();
    Some(index as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_timers_are_removed_in_the_order_of_their_times() {
        let epoll = Epoll::new().expect("epoll is available");
        let mut timers = Timers::new(&epoll, 640).expect("timerfd is available");
        let mut connections: Vec<Connection> = (0..5).map(|_| Connection::new(0, 0)).collect();
        timers.reschedule(u64::MAX);
        timers.add_timeout_check(&mut connections[1], 1, 0);
        timers.add_timeout_check(&mut connections[1], 1, 0);
        timers.add_retry(2, 40);
        timers.add_delayed(&mut connections[3], 3, 60);
        timers.add_delayed(&mut connections[4], 4, 30);
        assert_eq!(timers.next_ns(), 30);
        assert_eq!((timers.pop_delayed(29), timers.pop_delayed(60)), (None, Some(4)));
        assert_eq!((timers.pop_delayed(60), timers.pop_delayed(60)), (Some(3), None));
        assert!(timers.has_retries() && !timers.has_delayed());
        timers.reschedule(45);
        assert_eq!((timers.next_ns(), timers.pop_retry(45)), (40, Some(2)));
        timers.reschedule(u64::MAX);
        assert_eq!((timers.next_ns(), timers.timeout_checks()), (80, 1));
        assert_eq!((timers.pop_timeout_check(69), timers.pop_timeout_check(70)), (None, Some(1)));
    }
}
