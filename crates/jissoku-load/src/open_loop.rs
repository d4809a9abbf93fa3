//! The open loop: requests are sent at their due times, on the connection that has been free for
//! longest.

use crate::connection::{ConnectionState, RequestTimes, compact_index};
use crate::plan::{Idle, OnBusy};
use crate::worker::Worker;

impl Worker<'_> {
    /// Sends the requests that are due at `now_ns`, as far as connections are free, and returns the
    /// time afterwards.
    ///
    /// A spinning worker sends one request and then polls for responses, so that a burst of
    /// requests does not delay the reading of responses.
    pub(crate) fn send_due(&mut self, now_ns: u64) -> u64 {
        if self.plan.pace.is_closed() {
            return now_ns;
        }
        let mut now_ns = now_ns;
        loop {
            self.shed_expired(now_ns);
            let Some((target, index)) = self.next_due(now_ns) else { break };
            let due_ns = self.targets[target].pop_due();
            self.send_one(index, RequestTimes { due_ns, sent_ns: now_ns });
            if self.plan.idle == Idle::Spin {
                return now_ns;
            }
            now_ns = self.clock.now_ns();
        }
        if self.plan.on_busy != OnBusy::Queue {
            self.handle_saturation(now_ns);
        }
        now_ns
    }

    /// Sheds requests that have waited for a connection longer than the deadline.
    fn shed_expired(&mut self, now_ns: u64) {
        let Some(deadline_ns) = self.plan.deadline_ns else { return };
        for target in &mut self.targets {
            while target.due_ns().saturating_add(deadline_ns) < now_ns {
                target.shed();
            }
        }
    }

    /// Applies the `OnBusy` policy to requests that are due while all connections are busy.
    #[cold]
    fn handle_saturation(&mut self, now_ns: u64) {
        for number in 0..self.targets.len() {
            match self.plan.on_busy {
                OnBusy::Queue => {}
                OnBusy::Drop => {
                    while self.targets[number].due_ns() <= now_ns {
                        self.targets[number].shed();
                    }
                }
                OnBusy::Open { .. } => {
                    let possible = self.targets[number].spare_slots.len() as u64;
                    let wanted = self.targets[number].overdue(now_ns, possible);
                    while self.targets[number].unused_connections < wanted
                        && let Some(index) = self.targets[number].spare_slots.pop()
                    {
                        self.connect(index as usize);
                    }
                }
            }
        }
    }

    /// Among the targets with a free connection, the one with the earliest due request, and its
    /// connection that has been free for longest.
    fn next_due(&mut self, now_ns: u64) -> Option<(usize, usize)> {
        let mut targets: Option<(usize, u64)> = None;
        for target in 0..self.targets.len() {
            let due_ns = self.targets[target].due_ns();
            if due_ns <= now_ns && targets.is_none_or(|(_, best_ns)| due_ns < best_ns) {
                while let Some(&first) = self.targets[target].free.front() {
                    if self.can_send(first as usize) {
                        targets = Some((target, due_ns));
                        break;
                    }
                    self.connections[first as usize].is_queued = false;
                    self.targets[target].free.pop_front();
                }
            }
        }
        let (target, _) = targets?;
        let index = self.targets[target].free.pop_front()? as usize;
        self.connections[index].is_queued = false;
        Some((target, index))
    }

    fn can_send(&self, index: usize) -> bool {
        let connection = &self.connections[index];
        let has_room = connection.has_capacity(self.plan.pipeline) && connection.unsent == 0;
        connection.state == ConnectionState::Open && has_room
    }

    /// Sends one request of the open loop.
    fn send_one(&mut self, index: usize, times: RequestTimes) {
        let depth = self.plan.pipeline;
        let connection = &mut self.connections[index];
        let slot = (connection.oldest + connection.outstanding) % depth;
        connection.outstanding += 1;
        self.request_times[index * usize::from(depth) + usize::from(slot)] = times;
        let target = &mut self.targets[usize::from(connection.target)];
        let ready_ns = times.due_ns.max(connection.since_ns);
        // With io_uring the request is only queued here; `uring_loop.rs` records it when it is
        // submitted.
        if self.ring_queue.is_none() {
            target.counters.lag.record(times.sent_ns.saturating_sub(times.due_ns));
            target.counters.lateness.record(times.sent_ns.saturating_sub(ready_ns));
        }
        target.prepare_requests(1, connection);
        if connection.has_capacity(depth) {
            connection.is_queued = true;
            connection.since_ns = times.sent_ns;
            target.free.push_back(compact_index(index));
        }
        self.schedule_timeout_check(index, times.sent_ns);
        self.dispatch(index, ready_ns);
    }
}
