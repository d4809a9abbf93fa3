//! One thread's share of a lane.

use std::collections::VecDeque;

use jissoku_os::socket::Endpoint;

use crate::connection::{Connection, Phase};
use crate::pace::Schedule;
use crate::plan::Plan;
use crate::rotation::{Place, Rotation};
use crate::tally::Tally;

/// Of more overdue requests than this, neighbours are counted with the same time.
const OVERDUE_MAX: u64 = 1 << 20;

/// A server as one thread sees it.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) rotation: Rotation<'a>,
    pub(crate) tally: Tally,
    /// Connections that can take a request; who has waited longest stands in front.
    pub(crate) free: VecDeque<u32>,
    /// Requests that may still be sent.
    pub(crate) budget: u64,
    pub(crate) in_flight: u64,
    /// Connections that are being made or have not been given a request yet.
    pub(crate) waiting: u64,
    pub(crate) last_error: Option<std::io::Error>,
    /// Connections made, from the very start on.
    pub(crate) opened: u64,
    schedule: Option<Schedule>,
    index: u64,
    due_ns: u64,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(plan: &'a Plan, number: usize, endpoint: &'a Endpoint, place: Place) -> Self {
        let lane = &plan.lanes[number];
        Self {
            endpoint,
            rotation: Rotation::new(lane, plan.pipeline, place),
            tally: Tally::new(lane.shapes.len()),
            free: VecDeque::new(),
            budget: u64::MAX,
            in_flight: 0,
            waiting: 0,
            last_error: None,
            opened: 0,
            schedule: None,
            index: 0,
            due_ns: u64::MAX,
        }
    }

    /// From now on requests are sent at their due times.
    pub(crate) fn follow(&mut self, schedule: Schedule) {
        self.schedule = Some(schedule);
        self.find_due();
    }

    /// When the next request is due; never, in the closed loop.
    pub(crate) fn due_ns(&self) -> u64 {
        if self.budget > 0 { self.due_ns } else { u64::MAX }
    }

    /// Takes the next request off the schedule, and says when it was due.
    pub(crate) fn take_due(&mut self) -> u64 {
        let due_ns = self.due_ns;
        self.index += 1;
        self.find_due();
        due_ns
    }

    /// Counts how long requests have waited that should have been sent by now, and says how many they are.
    pub(crate) fn wait_for_overdue(&mut self, now_ns: u64) -> u64 {
        let count = self.overdue(now_ns);
        let Some(schedule) = self.schedule else { return 0 };
        let step = count / OVERDUE_MAX + 1;
        let mut counted = 0;
        while counted < count {
            let alike = step.min(count - counted);
            let due_ns = schedule.due_ns(self.index + counted);
            self.tally.waited.record_many(now_ns.saturating_sub(due_ns), alike);
            counted += alike;
        }
        count
    }

    /// Requests that should have been sent by now.
    pub(crate) fn overdue(&self, now_ns: u64) -> u64 {
        match self.schedule {
            Some(schedule) if self.budget > 0 => {
                let first = self.index;
                let mut count = 0;
                // The answer is a count below some bound, and due times only grow: halve the distance.
                let mut step = 1_u64 << 40;
                while step > 0 {
                    if schedule.due_ns(first + count + step - 1) <= now_ns {
                        count += step;
                    }
                    step >>= 1;
                }
                count.min(self.budget)
            }
            _ => 0,
        }
    }

    /// Counts the next `count` requests, which leave on `connection` now, and makes them ready.
    #[inline]
    pub(crate) fn sends(&mut self, count: u16, connection: &mut Connection) {
        let range = self.rotation.prepare(usize::from(connection.next), count);
        (connection.unsent, connection.unsent_end) = (range.len(), range.end);
        connection.next = self.rotation.after(connection.next, count);
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

    fn find_due(&mut self) {
        self.due_ns = self.schedule.map_or(u64::MAX, |schedule| schedule.due_ns(self.index));
    }
}
