//! The life of a connection: it is dialled, it stands, and it is replaced when it ends.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::Duration;

use jissoku_os::epoll::{self, Interest};
use jissoku_os::socket;

use crate::connection::{Phase, short};
use crate::fault::Fault;
use crate::plan::Reuse;
use crate::thread::Thread;

/// A server that refuses connections is asked again after so long.
const RETRY_NS: u64 = 10_000_000;

/// So many handshakes are under way at once in the beginning: every listener's queue holds them.
const DIALS_MAX: usize = 128;

impl Thread<'_> {
    /// Dials every connection, a few at a time, until all stand or the time-out has passed.
    pub(crate) fn dial_all(&mut self) -> Result<(), (usize, io::Error)> {
        let give_up_ns = self.clock.now_ns().saturating_add(self.plan.timeout_ns);
        let mut events = [epoll::no_event(); DIALS_MAX];
        let mut wanted: VecDeque<usize> = (0..self.connections.len()).collect();
        for lane in &self.lanes {
            let dormant: HashSet<usize> =
                lane.dormant.iter().map(|&index| index as usize).collect();
            wanted.retain(|index| !dormant.contains(index));
        }
        loop {
            let room = DIALS_MAX.saturating_sub(self.dialling()).min(wanted.len());
            for next in wanted.drain(..room) {
                self.dial(next);
            }
            let all = wanted.is_empty();
            let now_ns = self.clock.now_ns();
            if all && (self.dialling() == 0 && self.retries.is_empty() || self.is_hopeless()) {
                return self.judge();
            }
            if now_ns >= give_up_ns {
                return self.judge();
            }
            let patience = Duration::from_nanos((give_up_ns - now_ns).min(RETRY_NS));
            let count = self.epoll.wait(&mut events, Some(patience)).map_err(|error| (0, error))?;
            for event in &events[..count] {
                match usize::try_from(event.data.u64()) {
                    Ok(index) if index < self.connections.len() => self.settle(index),
                    // Halted: the loop will see it too.
                    _ => return Ok(()),
                }
            }
            self.retry(self.clock.now_ns());
        }
    }

    fn dialling(&self) -> usize {
        self.connections
            .iter()
            .filter(|found| matches!(found.phase, Phase::Connecting | Phase::Shaking))
            .count()
    }

    /// Whether some lane's server refused every connection. A full queue (`EAGAIN`) is no refusal.
    fn is_hopeless(&self) -> bool {
        (0..self.lanes.len()).any(|lane| {
            let refused = |error: &io::Error| error.kind() != io::ErrorKind::WouldBlock;
            self.lanes[lane].last_error.as_ref().is_some_and(refused)
                && self.of_lane(lane).all(|phase| phase == Phase::Closed)
        })
    }

    /// The first lane without a single connection, and why it has none.
    fn judge(&mut self) -> Result<(), (usize, io::Error)> {
        for lane in 0..self.lanes.len() {
            let wants = self.lanes[lane].budget > 0 && self.of_lane(lane).next().is_some();
            if wants && self.of_lane(lane).all(|phase| phase != Phase::Open) {
                let error = self.lanes[lane].last_error.take();
                return Err((lane, error.unwrap_or_else(|| io::ErrorKind::TimedOut.into())));
            }
        }
        Ok(())
    }

    fn of_lane(&self, lane: usize) -> impl Iterator<Item = Phase> {
        let here = self.connections.iter().filter(move |found| usize::from(found.lane) == lane);
        here.map(|found| found.phase)
    }

    /// Starts a connection, if there is still something to ask on it.
    pub(crate) fn dial(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let lane = &mut self.lanes[usize::from(connection.lane)];
        let wanted = match self.plan.reuse {
            Reuse::KeepAlive | Reuse::Requests(_) => lane.budget > 0,
            // Each of them takes one request, so there are never more of them than requests.
            Reuse::Close => lane.budget > lane.waiting,
        };
        if !wanted {
            return;
        }
        lane.waiting += 1;
        connection.left = match self.plan.reuse {
            Reuse::KeepAlive => u32::MAX,
            Reuse::Close => 1,
            Reuse::Requests(count) => count,
        };
        connection.phase = Phase::Connecting;
        connection.since_ns = self.clock.now_ns();
        let since_ns = connection.since_ns;
        let interest = Interest::IN | Interest::OUT | Interest::RDHUP | Interest::ET;
        let local = self.plan.local.get(index % self.plan.local.len().max(1)).copied();
        let dialled =
            socket::connect_from(lane.endpoint, local, self.plan.buffering).and_then(|fd| {
                self.epoll.add(&fd, index as u64, interest)?;
                Ok(fd)
            });
        match dialled {
            Ok(fd) => {
                connection.socket = Some(fd);
                self.time(index, since_ns);
            }
            Err(error) => self.fail_to_connect(index, error),
        }
    }

    /// A connection attempt has ended, one way or the other.
    pub(crate) fn settle(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(fd) = connection.socket.as_ref() else { return };
        match connection.phase {
            Phase::Connecting => {}
            Phase::Shaking => return self.shake(index),
            Phase::Closed | Phase::Open | Phase::Ending => return,
        }
        if let Err(error) = socket::connect_outcome(fd) {
            return self.fail_to_connect(index, error);
        }
        let lane = &mut self.lanes[usize::from(connection.lane)];
        let now_ns = self.clock.now_ns();
        lane.connect.record(now_ns.saturating_sub(connection.since_ns));
        match lane.tls {
            Some(tls) => self.greet(index, tls, now_ns),
            None => self.stand(index),
        }
    }

    /// From now on requests can be sent on a connection.
    pub(crate) fn stand(&mut self, index: usize) {
        let Some(fd) = self.connections[index].socket.as_ref() else { return };
        if self.outbox.is_some() {
            if let Err(error) = self.order_answers(index) {
                return self.fail_to_connect(index, error);
            }
        } else if self.plan.reuse != Reuse::Close {
            // On Unix sockets every read of the server's would report that there is room again.
            let interest = Interest::IN | Interest::RDHUP | Interest::ET;
            if let Err(error) = self.epoll.modify(fd, index as u64, interest) {
                return self.fail_to_connect(index, error);
            }
        }
        let connection = &mut self.connections[index];
        connection.phase = Phase::Open;
        let lane = &mut self.lanes[usize::from(connection.lane)];
        lane.opened += 1;
        if self.started {
            let now_ns = self.clock.now_ns();
            self.go_on(index, now_ns);
        }
    }

    /// Counts a connection that did not come about, and tries again after a while.
    pub(crate) fn fail_to_connect(&mut self, index: usize, error: io::Error) {
        self.forget(index);
        let connection = &mut self.connections[index];
        let lane = &mut self.lanes[usize::from(connection.lane)];
        lane.drop(connection);
        lane.last_error = Some(error);
        lane.refused += 1;
        lane.tally.failed(Fault::Connect, 1);
        if self.started {
            // A count of requests must end, so each failed attempt is one of them.
            lane.budget = lane.budget.saturating_sub(1);
        }
        let at_ns = self.clock.now_ns() + RETRY_NS;
        self.retries.push_back((at_ns, short(index)));
        self.next_mark_ns = self.next_mark_ns.min(at_ns);
    }

    /// Dials again what failed some time ago.
    pub(crate) fn retry(&mut self, now_ns: u64) {
        while let Some(&(at_ns, index)) = self.retries.front() {
            if at_ns > now_ns {
                return;
            }
            self.retries.pop_front();
            self.dial(index as usize);
        }
    }

    /// Closes a connection and opens another one in its place.
    pub(crate) fn replace(&mut self, index: usize) {
        self.order_silence(index);
        self.forget(index);
        let connection = &mut self.connections[index];
        let lane = &mut self.lanes[usize::from(connection.lane)];
        if self.plan.reuse != Reuse::KeepAlive
            && let Some(fd) = &connection.socket
        {
            // If this fails, the port stays taken for a minute; nothing else depends on it.
            let _kept = socket::reset_on_close(fd);
        }
        if connection.armed {
            self.spills.remove(&short(index));
        }
        lane.drop(connection);
        self.dial(index);
    }
}
