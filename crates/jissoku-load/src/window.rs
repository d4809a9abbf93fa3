//! The window: what lies between its edges is counted, exactly that, and the CPU times of the servers and
//! of the stopwatch itself are read in the moments at which it opens and closes.

use std::cmp::Reverse;

use jissoku_os::clock;

use crate::connection::{Phase, Stamp};
use crate::histogram::Histogram;
use crate::interval::Teller;
use crate::lane::Lane;
use crate::ledger::{Entry, Kind, Ledger};
use crate::tally::Tally;
use crate::thread::Thread;
use crate::watch::{Reading, Watch};

const SECOND_NS: u64 = 1_000_000_000;

/// An edge of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// From here on everything counts.
    Open,
    /// From here on nothing counts.
    Close,
}

/// When things are to happen, on the stopwatch's clock.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "units end names")]
pub(crate) struct Timing {
    pub(crate) start_ns: u64,
    pub(crate) open_ns: u64,
    /// From the moment at which the window really opened; without end when requests are counted.
    pub(crate) duration_ns: u64,
}

/// What only the first thread does at the edges.
#[derive(Clone, Copy)]
pub(crate) struct EdgeDuty<'a> {
    pub(crate) watch: &'a Watch,
    pub(crate) on_edge: &'a (dyn Fn(Edge) + Sync),
}

/// What one thread brought back.
#[derive(Debug)]
pub(crate) struct Yield {
    pub(crate) lanes: Vec<LaneYield>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) duration_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) longest_gap_ns: u64,
    /// The watched clocks at both edges; of the first thread only.
    pub(crate) watched: Option<(Reading, Reading)>,
}

/// One lane's part of it.
#[derive(Debug)]
pub(crate) struct LaneYield {
    pub(crate) tally: Tally,
    /// Requests that were sent and had no answer at the end.
    pub(crate) in_flight: u64,
    /// Requests that were due and had not been sent at the end.
    pub(crate) overdue: u64,
    pub(crate) open: u64,
    pub(crate) opened: u64,
    pub(crate) refused: u64,
    pub(crate) connect: Histogram,
    pub(crate) handshake: Histogram,
    pub(crate) resumed: u64,
}

/// The window as it is being measured.
#[derive(Debug, Default)]
pub(crate) struct Window {
    opened_ns: Option<u64>,
    closes_ns: u64,
    next_second_ns: u64,
    cpu_ns: u64,
    watched: Reading,
    pub(crate) last_answer_ns: u64,
    pub(crate) longest_gap_ns: u64,
}

impl Thread<'_> {
    /// Does what the clock asks for; true when the window is over.
    pub(crate) fn mark(&mut self, now_ns: u64, timing: Timing) -> bool {
        if self.window.opened_ns.is_none() && now_ns >= timing.open_ns {
            self.open(timing);
        }
        while self.window.opened_ns.is_some() && now_ns >= self.window.next_second_ns {
            self.lanes.iter_mut().for_each(|lane| lane.tally.second_over());
            self.window.next_second_ns += SECOND_NS;
        }
        for teller in &mut self.tellers {
            while now_ns >= teller.next_ns() {
                teller.tell(&self.lanes);
            }
        }
        if self.window.opened_ns.is_some() && now_ns >= self.window.closes_ns {
            return true;
        }
        self.check_times(now_ns);
        self.retry(now_ns);
        self.take_up(now_ns);
        self.plan_marks(timing);
        false
    }

    pub(crate) fn plan_marks(&mut self, timing: Timing) {
        let edge = match self.window.opened_ns {
            None => timing.open_ns,
            Some(_) => self.window.closes_ns.min(self.window.next_second_ns),
        };
        let check = self.checks.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        let retry = self.retries.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        let interval = self.tellers.iter().map(Teller::next_ns).min().unwrap_or(u64::MAX);
        let later = self.later.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
        self.next_mark_ns = edge.min(interval).min(check).min(retry).min(later);
    }

    /// Opens the window: counting begins anew, at the moment at which CPU times are read.
    pub(crate) fn open(&mut self, timing: Timing) {
        for (lane, fresh) in self.lanes.iter_mut().zip(self.fresh.drain(..)) {
            lane.tally = fresh;
        }
        if let Some(duty) = self.duty {
            (duty.on_edge)(Edge::Open);
            self.window.watched = duty.watch.read();
        }
        self.window.cpu_ns = clock::thread_cpu_ns();
        let now_ns = self.clock.now_ns();
        self.carry(now_ns);
        self.tellers.iter_mut().for_each(|teller| teller.begin(self.lanes.len(), now_ns));
        self.ledger.iter_mut().for_each(Ledger::open);
        self.window.opened_ns = Some(now_ns);
        self.window.closes_ns = now_ns.saturating_add(timing.duration_ns);
        self.window.next_second_ns = now_ns + SECOND_NS;
        self.window.last_answer_ns = now_ns;
        self.window.longest_gap_ns = 0;
    }

    pub(crate) fn close(mut self) -> Yield {
        let watched = self.duty.map(|duty| duty.watch.read());
        let cpu_ns = clock::thread_cpu_ns() - self.window.cpu_ns;
        let now_ns = self.clock.now_ns();
        if let Some(duty) = self.duty {
            (duty.on_edge)(Edge::Close);
        }
        // A count of requests ends with the last of them.
        let end_ns = if self.is_done() { self.window.last_answer_ns } else { now_ns };
        let Some(opened_ns) = self.window.opened_ns else { return self.nothing() };
        let gap_ns = end_ns.saturating_sub(self.window.last_answer_ns);
        let open = self.open_per_lane();
        self.wait_for_unanswered(end_ns);
        let entries = self.ledger.take().map(Ledger::into_entries);
        let lanes = self.lanes.into_iter().zip(open).map(|(mut lane, open)| {
            if lane.tally.per_second.iter().sum::<u64>() < lane.tally.requests {
                lane.tally.second_over();
            }
            let (in_flight, overdue) = (lane.in_flight, lane.wait_for_overdue(end_ns));
            let Lane { tally, opened, refused, connect, handshake, resumed, .. } = lane;
            LaneYield {
                tally,
                in_flight,
                overdue,
                open,
                opened,
                refused,
                connect,
                handshake,
                resumed,
            }
        });
        Yield {
            lanes: lanes.collect(),
            entries: entries.unwrap_or_default(),
            duration_ns: end_ns.saturating_sub(opened_ns),
            cpu_ns,
            longest_gap_ns: self.window.longest_gap_ns.max(gap_ns),
            watched: watched.map(|close| (self.window.watched, close)),
        }
    }

    /// The yield of a run that ended before its window opened.
    fn nothing(self) -> Yield {
        let nothing = |lane: &Lane<'_>| LaneYield {
            tally: Tally::default(),
            in_flight: 0,
            overdue: 0,
            open: 0,
            opened: lane.opened,
            refused: lane.refused,
            connect: lane.connect.clone(),
            handshake: lane.handshake.clone(),
            resumed: lane.resumed,
        };
        let lanes = self.lanes.iter().map(nothing).collect();
        Yield {
            lanes,
            entries: Vec::new(),
            duration_ns: 0,
            cpu_ns: 0,
            longest_gap_ns: 0,
            watched: None,
        }
    }

    /// Notes which requests are on their way when the window opens.
    fn carry(&mut self, now_ns: u64) {
        for index in 0..self.connections.len() {
            let lane = usize::from(self.connections[index].lane);
            for place in 0..self.connections[index].outstanding {
                let since_ns = now_ns.saturating_sub(self.stamp(index, place).sent_ns);
                let tally = &mut self.lanes[lane].tally;
                tally.carried += 1;
                tally.carried_ns += since_ns;
            }
        }
    }

    /// Counts how long the requests have been waited for that have no answer when the window closes.
    fn wait_for_unanswered(&mut self, now_ns: u64) {
        for index in 0..self.connections.len() {
            let lane = usize::from(self.connections[index].lane);
            for place in 0..self.connections[index].outstanding {
                let Stamp { due_ns, sent_ns } = self.stamp(index, place);
                let (latency_ns, service_ns) =
                    (now_ns.saturating_sub(due_ns), now_ns.saturating_sub(sent_ns));
                self.lanes[lane].tally.waited(latency_ns, service_ns);
                if let Some(ledger) = &mut self.ledger {
                    let (stamp, lane) = (Stamp { due_ns, sent_ns }, self.connections[index].lane);
                    ledger.note(lane, stamp, now_ns, (0, Kind::Unanswered));
                }
            }
        }
    }

    /// When a connection's request was sent; `place` counts from the oldest without an answer.
    fn stamp(&self, index: usize, place: u16) -> Stamp {
        let depth = usize::from(self.plan.pipeline);
        let slot = (usize::from(self.connections[index].oldest) + usize::from(place)) % depth;
        self.stamps[index * depth + slot]
    }

    fn open_per_lane(&self) -> Vec<u64> {
        let mut open = vec![0; self.lanes.len()];
        for connection in self.connections.iter().filter(|found| found.phase == Phase::Open) {
            open[usize::from(connection.lane)] += 1;
        }
        open
    }
}
