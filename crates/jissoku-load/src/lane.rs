//! One thread's share of a lane.

use std::collections::VecDeque;

use jissoku_os::socket::Endpoint;

use crate::connection::{Connection, Phase};
use crate::histogram::Histogram;
use crate::plan::Plan;
use crate::rotation::{Place, Rotation};
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::tls::Tls;

/// A server as one thread sees it.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// How its server is spoken to, if not in the clear.
    pub(crate) tls: Option<&'a Tls>,
    pub(crate) rotation: Rotation<'a>,
    pub(crate) tally: Tally,
    /// Connections that can take a request; who has waited longest stands in front.
    pub(crate) free: VecDeque<u32>,
    /// Requests that may still be sent.
    pub(crate) budget: u64,
    pub(crate) in_flight: u64,
    /// Connections that are being made or have not been given a request yet.
    pub(crate) waiting: u64,
    /// Places for more connections, if every one is busy.
    pub(crate) dormant: Vec<u32>,
    pub(crate) last_error: Option<std::io::Error>,
    /// From the first step of each connection to its standing, before any handshake of TLS.
    pub(crate) connect: Histogram,
    /// From there to the end of each handshake of TLS.
    pub(crate) handshake: Histogram,
    /// How many of them resumed an earlier session.
    pub(crate) resumed: u64,
    /// Connections made, from the very start on, and attempts at one that failed.
    pub(crate) opened: u64,
    pub(crate) refused: u64,
    schedule: Option<Schedule<'a>>,
    due_ns: u64,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(plan: &'a Plan, number: usize, endpoint: &'a Endpoint, place: Place) -> Self {
        let lane = &plan.lanes[number];
        Self {
            endpoint,
            tls: lane.tls.as_ref(),
            rotation: Rotation::new(lane, plan.pipeline, place),
            tally: Tally::new(lane.shapes.len()),
            free: VecDeque::new(),
            budget: u64::MAX,
            in_flight: 0,
            waiting: 0,
            dormant: Vec::new(),
            last_error: None,
            connect: Histogram::new(),
            handshake: Histogram::new(),
            resumed: 0,
            opened: 0,
            refused: 0,
            schedule: None,
            due_ns: u64::MAX,
        }
    }

    /// From now on requests are sent at their due times.
    pub(crate) fn follow(&mut self, schedule: Schedule<'a>) {
        self.schedule = Some(schedule);
        let _never_ns = self.take_due();
    }

    /// When the next request is due; never, in the closed loop.
    pub(crate) fn due_ns(&self) -> u64 {
        if self.budget > 0 { self.due_ns } else { u64::MAX }
    }

    /// Takes the next request off the schedule, and says when it was due.
    pub(crate) fn take_due(&mut self) -> u64 {
        let next_ns = self.schedule.as_mut().map_or(u64::MAX, Schedule::take);
        std::mem::replace(&mut self.due_ns, next_ns)
    }

    /// Counts how long requests have waited that should have been sent by now, and says how many they are.
    pub(crate) fn wait_for_overdue(&mut self, now_ns: u64) -> u64 {
        let mut count = 0;
        if let Some((schedule, due_ns)) = self.ahead().filter(|(_, due_ns)| *due_ns <= now_ns) {
            let waited = &mut self.tally.waited;
            waited.record(now_ns - due_ns);
            count = 1;
            schedule.until(now_ns, self.budget - 1, |due_ns, alike| {
                waited.record_many(now_ns - due_ns, alike);
                count += alike;
            });
        }
        count
    }

    /// Requests that should have been sent by now, up to `limit`.
    pub(crate) fn overdue(&self, now_ns: u64, limit: u64) -> u64 {
        let mut count = 0;
        if let Some((schedule, _)) = self.ahead().filter(|(_, due_ns)| *due_ns <= now_ns) {
            let limit = limit.min(self.budget);
            count = limit.min(1);
            schedule.until(now_ns, limit.saturating_sub(1), |_, alike| count += alike);
        }
        count
    }

    /// Gives up the next request, which is due.
    pub(crate) fn shed(&mut self) {
        let _due_ns = self.take_due();
        self.budget -= 1;
        self.tally.shed += 1;
    }

    /// What lies behind the next due time, and that time, if requests are to be sent at due times.
    fn ahead(&self) -> Option<(Schedule<'a>, u64)> {
        let due_ns = self.due_ns();
        self.schedule.filter(|_| due_ns < u64::MAX).map(|schedule| (schedule, due_ns))
    }

    /// Counts the next `count` requests, which leave on `connection` now, and makes them ready.
    #[inline]
    pub(crate) fn sends(&mut self, count: u16, connection: &mut Connection) {
        let range = self.rotation.prepare(usize::from(connection.next), count);
        (connection.unsent, connection.unsent_end) = (range.len(), range.end);
        connection.next = self.rotation.after(connection.next, count);
        connection.left = connection.left.saturating_sub(u32::from(count));
        let count = u64::from(count);
        self.budget -= count;
        self.in_flight += count;
        self.tally.sent += count;
        if !connection.used {
            connection.used = true;
            self.waiting -= 1;
        }
    }

    /// Empties a connection's place.
    pub(crate) fn drop(&mut self, connection: &mut Connection) {
        if connection.phase != Phase::Closed && !connection.used {
            self.waiting -= 1;
        }
        connection.reset();
    }
}
