//! The open loop: requests leave at their due times, on whichever connection has been free for longest.

use crate::connection::{Phase, Stamp, short};
use crate::plan::{Idle, OnBusy};
use crate::thread::Thread;

impl Thread<'_> {
    /// Sends what is due at `now_ns` and finds a free connection, and says what time it is after that.
    ///
    /// A thread that spins sends one request and looks for answers before the next one, so that neither
    /// server's answers are kept waiting by a burst of requests.
    pub(crate) fn send_due(&mut self, now_ns: u64) -> u64 {
        if self.plan.pace.is_closed() {
            return now_ns;
        }
        let mut now_ns = now_ns;
        loop {
            self.shed_expired(now_ns);
            let Some((lane, index)) = self.next_due(now_ns) else { break };
            let due_ns = self.lanes[lane].take_due();
            self.send_one(index, Stamp { due_ns, sent_ns: now_ns });
            if self.plan.idle == Idle::Spin {
                return now_ns;
            }
            now_ns = self.clock.now_ns();
        }
        if self.plan.on_busy != OnBusy::Queue {
            self.relieve(now_ns);
        }
        now_ns
    }

    /// Gives up what has waited for a connection longer than its deadline.
    fn shed_expired(&mut self, now_ns: u64) {
        let Some(deadline_ns) = self.plan.deadline_ns else { return };
        for lane in &mut self.lanes {
            while lane.due_ns().saturating_add(deadline_ns) < now_ns {
                lane.shed();
            }
        }
    }

    /// Does what was asked for about requests that are due while every connection is busy.
    #[cold]
    fn relieve(&mut self, now_ns: u64) {
        for number in 0..self.lanes.len() {
            match self.plan.on_busy {
                OnBusy::Queue => {}
                OnBusy::Drop => {
                    while self.lanes[number].due_ns() <= now_ns {
                        self.lanes[number].shed();
                    }
                }
                OnBusy::Open { .. } => {
                    let possible = self.lanes[number].dormant.len() as u64;
                    let wanted = self.lanes[number].overdue(now_ns, possible);
                    while self.lanes[number].waiting < wanted
                        && let Some(index) = self.lanes[number].dormant.pop()
                    {
                        self.dial(index as usize);
                    }
                }
            }
        }
    }

    /// The lane whose request has been due for longest among those with a free connection, and that
    /// connection: the one that has been free for longest.
    fn next_due(&mut self, now_ns: u64) -> Option<(usize, usize)> {
        let mut lanes: Option<(usize, u64)> = None;
        for lane in 0..self.lanes.len() {
            let due_ns = self.lanes[lane].due_ns();
            if due_ns <= now_ns && lanes.is_none_or(|(_, best_ns)| due_ns < best_ns) {
                while let Some(&first) = self.lanes[lane].free.front() {
                    if self.can_send(first as usize) {
                        lanes = Some((lane, due_ns));
                        break;
                    }
                    self.connections[first as usize].queued = false;
                    self.lanes[lane].free.pop_front();
                }
            }
        }
        let (lane, _) = lanes?;
        let index = self.lanes[lane].free.pop_front()? as usize;
        self.connections[index].queued = false;
        Some((lane, index))
    }

    fn can_send(&self, index: usize) -> bool {
        let connection = &self.connections[index];
        let has_room = connection.can_take(self.plan.pipeline) && connection.unsent == 0;
        connection.phase == Phase::Open && has_room
    }

    /// Sends one request of the open loop.
    fn send_one(&mut self, index: usize, stamp: Stamp) {
        let depth = self.plan.pipeline;
        let connection = &mut self.connections[index];
        let slot = (connection.oldest + connection.outstanding) % depth;
        connection.outstanding += 1;
        self.stamps[index * usize::from(depth) + usize::from(slot)] = stamp;
        let lane = &mut self.lanes[usize::from(connection.lane)];
        lane.tally.lag.record(stamp.sent_ns.saturating_sub(stamp.due_ns));
        let possible_ns = stamp.due_ns.max(connection.since_ns);
        lane.tally.lateness.record(stamp.sent_ns.saturating_sub(possible_ns));
        lane.sends(1, connection);
        if connection.can_take(depth) {
            connection.queued = true;
            connection.since_ns = stamp.sent_ns;
            lane.free.push_back(short(index));
        }
        self.time(index, stamp.sent_ns);
        self.dispatch(index);
    }
}
