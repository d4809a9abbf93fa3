//! One thread of the stopwatch: a loop over readiness, due times and the clock.
//!
//! In the steady state a request costs one receive and one send, and a wait is shared by all that is
//! ready with it. Sockets are registered once, edge-triggered. `exchange.rs` holds what happens to a
//! request, `dial.rs` what happens to a connection.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use jissoku_os::epoll::{self, Epoll, Event, Interest};
use jissoku_os::tsc::Clock;
use jissoku_os::{clock, timer};

use crate::connection::{Connection, Phase, Stamp};
use crate::lane::Lane;
use crate::pace::{Pace, Schedule};
use crate::plan::{Idle, Plan};
use crate::reader::Reader;
use crate::tally::Tally;
use crate::watch::{Reading, Watch};

/// Events taken with one wait.
const EVENTS: usize = 512;

/// The shared read buffer; larger ones fall out of the cache.
const BUFFER_SIZE: usize = 64 * 1024;

/// The token of the descriptor that ends everything.
const HALT: u64 = u64::MAX;

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
    pub(crate) unanswered: u64,
    pub(crate) open: u64,
    pub(crate) opened: u64,
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

/// A thread with its connections.
pub(crate) struct Thread<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) clock: Clock,
    pub(crate) epoll: Epoll,
    pub(crate) lanes: Vec<Lane<'a>>,
    pub(crate) connections: Vec<Connection>,
    /// As many for each connection as a pipeline holds.
    pub(crate) stamps: Vec<Stamp>,
    /// Readers without work.
    pub(crate) spare: Vec<Box<Reader>>,
    /// Connections to be looked at for time-outs, and when.
    pub(crate) checks: VecDeque<(u64, u32)>,
    /// Connections to be tried anew, and when.
    pub(crate) retries: VecDeque<(u64, u32)>,
    /// Nothing but answers and due requests happens before this time.
    pub(crate) next_mark_ns: u64,
    pub(crate) started: bool,
    pub(crate) window: Window,
    duty: Option<EdgeDuty<'a>>,
    fresh: Vec<Tally>,
}

impl<'a> Thread<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        clock: Clock,
        lanes: Vec<Lane<'a>>,
        duty: Option<EdgeDuty<'a>>,
        halt: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(halt, HALT, Interest::IN)?;
        let fresh = lanes.iter().map(|_| Tally::default()).collect();
        Ok(Self {
            plan,
            clock,
            epoll,
            lanes,
            connections: Vec::new(),
            stamps: Vec::new(),
            spare: Vec::new(),
            checks: VecDeque::new(),
            retries: VecDeque::new(),
            next_mark_ns: 0,
            started: false,
            window: Window::default(),
            duty,
            fresh,
        })
    }

    /// Opens `count` connections on each lane, and waits until all stand or the time-out has passed.
    ///
    /// # Errors
    /// The lane none of whose connections came to stand, and why.
    pub(crate) fn connect(&mut self, count: u64) -> Result<(), (usize, io::Error)> {
        let depth = usize::from(self.plan.pipeline);
        for lane in 0..self.lanes.len() {
            let lane = u16::try_from(lane).unwrap_or(u16::MAX);
            self.connections.extend((0..count).map(|_| Connection::new(lane)));
        }
        self.stamps = vec![Stamp::default(); depth * self.connections.len()];
        self.dial_all()
    }

    /// Loads until the window closes, and says what was counted in it.
    pub(crate) fn run(mut self, timing: Timing, place: (usize, usize)) -> io::Result<Yield> {
        let mut events = [epoll::no_event(); EVENTS];
        let mut buffer = vec![0; BUFFER_SIZE];
        if self.plan.idle == Idle::Block && self.plan.pace != Pace::Closed {
            timer::wake_punctually()?;
        }
        while self.clock.now_ns() < timing.start_ns {
            std::hint::spin_loop();
        }
        self.start(timing, place);
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= self.next_mark_ns && self.mark(now_ns, timing) || self.is_done() {
                return Ok(self.close());
            }
            self.send_due(now_ns);
            let patience = self.patience();
            let count = self.epoll.wait(&mut events, patience)?;
            for event in &events[..count] {
                if event.data.u64() == HALT {
                    return Ok(self.close());
                }
                self.ready(event, &mut buffer);
            }
        }
    }

    fn start(&mut self, timing: Timing, (thread, threads): (usize, usize)) {
        let lanes = self.lanes.len();
        if let Pace::Constant { rate_rps } = self.plan.pace {
            for (lane, share) in self.lanes.iter_mut().enumerate() {
                let (origin_ns, seed) = (timing.start_ns, self.plan.seed);
                share.follow(Schedule { origin_ns, rate_rps, lane, lanes, thread, threads, seed });
            }
        }
        self.started = true;
        if timing.open_ns <= timing.start_ns {
            self.open(timing);
        }
        self.plan_marks(timing);
        for index in 0..self.connections.len() {
            if self.connections[index].phase == Phase::Open {
                let now_ns = self.clock.now_ns();
                self.go_on(index, now_ns);
            }
        }
    }

    /// Whether every request that was to be sent has met its end.
    fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| lane.budget == 0 && lane.in_flight == 0)
    }

    /// Does what the clock asks for; true when the window is over.
    fn mark(&mut self, now_ns: u64, timing: Timing) -> bool {
        if self.window.opened_ns.is_none() && now_ns >= timing.open_ns {
            self.open(timing);
        }
        while self.window.opened_ns.is_some() && now_ns >= self.window.next_second_ns {
            self.lanes.iter_mut().for_each(|lane| lane.tally.second_over());
            self.window.next_second_ns += SECOND_NS;
        }
        if self.window.opened_ns.is_some() && now_ns >= self.window.closes_ns {
            return true;
        }
        self.check_times(now_ns);
        self.retry(now_ns);
        self.plan_marks(timing);
        false
    }

    fn plan_marks(&mut self, timing: Timing) {
        let edge = match self.window.opened_ns {
            None => timing.open_ns,
            Some(_) => self.window.closes_ns.min(self.window.next_second_ns),
        };
        let check = self.checks.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        let retry = self.retries.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        self.next_mark_ns = edge.min(check).min(retry);
    }

    /// Opens the window: counting begins anew, at the moment at which CPU times are read.
    fn open(&mut self, timing: Timing) {
        for (lane, fresh) in self.lanes.iter_mut().zip(self.fresh.drain(..)) {
            lane.tally = fresh;
        }
        if let Some(duty) = self.duty {
            (duty.on_edge)(Edge::Open);
            self.window.watched = duty.watch.read();
        }
        self.window.cpu_ns = clock::thread_cpu_ns();
        let now_ns = self.clock.now_ns();
        self.window.opened_ns = Some(now_ns);
        self.window.closes_ns = now_ns.saturating_add(timing.duration_ns);
        self.window.next_second_ns = now_ns + SECOND_NS;
        self.window.last_answer_ns = now_ns;
        self.window.longest_gap_ns = 0;
    }

    fn close(self) -> Yield {
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
        let lanes = self.lanes.into_iter().zip(open).map(|(mut lane, open)| {
            if lane.tally.per_second.iter().sum::<u64>() < lane.tally.requests {
                lane.tally.second_over();
            }
            let unanswered = lane.in_flight + lane.overdue(end_ns);
            LaneYield { tally: lane.tally, unanswered, open, opened: lane.opened }
        });
        Yield {
            lanes: lanes.collect(),
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
            unanswered: 0,
            open: 0,
            opened: lane.opened,
        };
        let lanes = self.lanes.iter().map(nothing).collect();
        Yield { lanes, duration_ns: 0, cpu_ns: 0, longest_gap_ns: 0, watched: None }
    }

    fn open_per_lane(&self) -> Vec<u64> {
        let mut open = vec![0; self.lanes.len()];
        for connection in self.connections.iter().filter(|found| found.phase == Phase::Open) {
            open[usize::from(connection.lane)] += 1;
        }
        open
    }

    /// How long nothing needs to be done but what events ask for.
    fn patience(&self) -> Option<Duration> {
        if self.plan.idle == Idle::Spin {
            return Some(Duration::ZERO);
        }
        let sendable = self.lanes.iter().filter(|lane| !lane.free.is_empty());
        let due_ns = sendable.map(Lane::due_ns).min().unwrap_or(u64::MAX);
        let until_ns = due_ns.min(self.next_mark_ns);
        let left_ns = || until_ns.saturating_sub(self.clock.now_ns());
        (until_ns < u64::MAX).then(|| Duration::from_nanos(left_ns()))
    }

    fn ready(&mut self, event: &Event, buffer: &mut [u8]) {
        let Ok(index) = usize::try_from(event.data.u64()) else { return };
        let flags = event.flags;
        match self.connections.get(index).map(|connection| connection.phase) {
            Some(Phase::Connecting) => self.settle(index),
            Some(Phase::Open | Phase::Ending) => {
                if flags.contains(Interest::OUT) && self.connections[index].unsent > 0 {
                    self.flush(index);
                }
                self.receive(index, flags, buffer);
            }
            Some(Phase::Closed) | None => {}
        }
    }
}
