//! One worker's share of the load on one target.

use std::collections::VecDeque;

use jissoku_os::socket::Endpoint;

use crate::engine::connection::{Connection, ConnectionState};
use crate::engine::schedule::Schedule;
use crate::plan::Plan;
use crate::plan::tls::Tls;
use crate::protocol::opening_handshake::OpeningHandshake;
use crate::protocol::request_sequence::{RequestSequence, WorkerIndex};

/// A target, as seen by one worker.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// TLS settings; `None` for plain text.
    pub(crate) tls: Option<&'a Tls>,
    /// The WebSocket handshake; `None` for HTTP.
    pub(crate) handshake: Option<&'a OpeningHandshake>,
    pub(crate) request_sequence: RequestSequence<'a>,
    /// Connections with capacity for a request; the one that has been free for longest is first.
    pub(crate) free: VecDeque<u32>,
    /// Requests that may still be sent.
    pub(crate) budget: u64,
    /// Whether the number of requests is limited.
    pub(crate) is_limited: bool,
    pub(crate) in_flight: u64,
    /// Connections that are being established or have not sent a request yet.
    pub(crate) unused_connections: u64,
    /// Unused slots for further connections (`OnBusy::Open`).
    pub(crate) spare_slots: Vec<u32>,
    pub(crate) last_error: Option<std::io::Error>,
    schedule: Option<Schedule<'a>>,
    due_ns: u64,
}

impl<'a> Target<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        number: usize,
        endpoint: &'a Endpoint,
        worker_index: WorkerIndex,
    ) -> Self {
        let target = &plan.targets[number];
        Self {
            endpoint,
            tls: target.tls.as_ref(),
            handshake: target.handshake.as_ref(),
            request_sequence: RequestSequence::new(
                target,
                (plan.pipeline, plan.order),
                worker_index,
            ),
            free: VecDeque::new(),
            budget: u64::MAX,
            is_limited: false,
            in_flight: 0,
            unused_connections: 0,
            spare_slots: Vec::new(),
            last_error: None,
            schedule: None,
            due_ns: u64::MAX,
        }
    }

    /// Sends requests at the due times of `schedule` from now on.
    pub(crate) fn set_schedule(&mut self, schedule: Schedule<'a>) {
        self.schedule = Some(schedule);
        let _never_ns = self.pop_due();
    }

    /// When the next request is due; `u64::MAX` in the closed loop.
    pub(crate) fn due_ns(&self) -> u64 {
        if self.budget > 0 { self.due_ns } else { u64::MAX }
    }

    /// Removes the next request from the schedule and returns its due time.
    pub(crate) fn pop_due(&mut self) -> u64 {
        let next_ns = self.schedule.as_mut().map_or(u64::MAX, Schedule::pop);
        std::mem::replace(&mut self.due_ns, next_ns)
    }

    /// Calls `report` with the due times of overdue requests, at most `limit` of them, and with the
    /// number of requests that each stands for. Returns the number of all.
    pub(crate) fn overdue(&self, now_ns: u64, limit: u64, mut report: impl FnMut(u64, u64)) -> u64 {
        let limit = limit.min(self.budget);
        let Some((schedule, due_ns)) =
            self.pending_schedule().filter(|(_, due_ns)| *due_ns <= now_ns && limit > 0)
        else {
            return 0;
        };
        report(due_ns, 1);
        let mut count = 1;
        schedule.for_each_due(now_ns, limit - 1, |due_ns, alike| {
            report(due_ns, alike);
            count += alike;
        });
        count
    }

    /// Drops all requests that were due before `before_ns`, and calls `report` with their due times.
    pub(crate) fn shed(&mut self, before_ns: u64, mut report: impl FnMut(u64)) {
        while self.due_ns() < before_ns {
            let due_ns = self.pop_due();
            self.budget -= 1;
            report(due_ns);
        }
    }

    /// The remaining schedule and the next due time, in the open loop.
    fn pending_schedule(&self) -> Option<(Schedule<'a>, u64)> {
        let due_ns = self.due_ns();
        self.schedule.filter(|_| due_ns < u64::MAX).map(|schedule| (schedule, due_ns))
    }

    /// Prepares the next `count` requests for `connection`.
    #[inline]
    pub(crate) fn prepare_requests(&mut self, count: u16, connection: &mut Connection) {
        if let Some(spec) = self.request_sequence.draw() {
            // One request is in flight on a connection then, so the next response is that to it.
            (connection.next_spec, connection.awaited_spec) = (spec, spec);
        }
        let range = self.request_sequence.prepare(usize::from(connection.next_spec), count);
        (connection.unsent, connection.unsent_end) = (range.len(), range.end);
        connection.next_spec = self.request_sequence.spec_after(connection.next_spec, count);
        connection.requests_left = connection.requests_left.saturating_sub(u32::from(count));
        let count = u64::from(count);
        self.budget -= count;
        self.in_flight += count;
        if !connection.has_sent {
            connection.has_sent = true;
            self.unused_connections -= 1;
        }
    }

    /// Closes a connection and frees its slot.
    pub(crate) fn release(&mut self, connection: &mut Connection) {
        if connection.state != ConnectionState::Closed && !connection.has_sent {
            self.unused_connections -= 1;
        }
        connection.reset();
    }
}
