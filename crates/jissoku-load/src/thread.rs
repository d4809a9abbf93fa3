//! One thread of the stopwatch: a loop over readiness, due times and the clock.
//!
//! In the steady state a request costs one receive and one send, and a wait is shared by all that is
//! ready with it. Sockets are registered once, edge-triggered. `exchange.rs` holds what happens to a
//! request, `dial.rs` what happens to a connection, `deadline.rs`, `later.rs` and `window.rs` what the clock
//! asks for. `completion.rs` is the same loop over completions.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use jissoku_os::epoll::{self, Epoll, Event, Interest};
use jissoku_os::timer::{self, Alarm};
use jissoku_os::tsc::Clock;
use jissoku_os::uring::Client;

use crate::completion::Outbox;

use crate::connection::{Connection, Phase, Stamp, short};
use crate::interval::Teller;
use crate::lane::Lane;
use crate::ledger::Ledger;
use crate::pace::{Arrival, OnBusy};
use crate::plan::{Driver, Idle, Plan, Timepiece};
use crate::random::Random;
use crate::reader::Reader;
use crate::schedule::{Drawn, Even, Offer, Schedule};
use crate::session::Session;
use crate::tally::Tally;
use crate::window::{EdgeDuty, Timing, Window, Yield};

/// Events taken with one wait.
const EVENTS: usize = 512;

/// The shared read buffer; larger ones fall out of the cache.
const BUFFER_SIZE: usize = 64 * 1024;

/// A sleep ends up to so late, so who sleeps and spins begins to spin so early.
const SPIN_NS: u64 = 50_000;

/// Threads draw from seeds that have little in common.
const THREAD_APART: u64 = 0xff51_afd7_ed55_8ccd;

/// The token of the descriptor that ends everything.
pub(crate) const HALT: u64 = u64::MAX;

/// The token of the alarm.
const ALARM: u64 = u64::MAX - 1;

/// A thread with its connections.
pub(crate) struct Thread<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) clock: Clock,
    pub(crate) epoll: Epoll,
    alarm: Alarm,
    /// When the alarm goes off.
    alarm_ns: u64,
    pub(crate) lanes: Vec<Lane<'a>>,
    pub(crate) connections: Vec<Connection>,
    /// As many for each connection as a pipeline holds.
    pub(crate) stamps: Vec<Stamp>,
    /// Keys of connections behind TLS; empty where nobody is.
    pub(crate) sessions: Vec<Option<Box<Session>>>,
    /// What records held, in the clear.
    pub(crate) plain: Vec<u8>,
    /// A reader without work.
    pub(crate) spare: Option<Box<Reader>>,
    /// Connections to be looked at for time-outs, and when.
    pub(crate) checks: VecDeque<(u64, u32)>,
    /// Connections to be tried anew, and when.
    pub(crate) retries: VecDeque<(u64, u32)>,
    /// Connections that are to ask later, and when.
    pub(crate) later: BinaryHeap<Reverse<(u64, u32)>>,
    /// Draws think times.
    pub(crate) random: Random,
    /// Nothing but answers and due requests happens before this time.
    pub(crate) next_mark_ns: u64,
    /// What leaves with the next wait, if that is how it leaves.
    pub(crate) outbox: Option<Outbox>,
    ring: Option<Client>,
    /// What the kernel would not take of requests that differ from each other.
    pub(crate) spills: HashMap<u32, Vec<u8>>,
    pub(crate) started: bool,
    /// When the last wait ended, if one reading of the clock has to do for all that it brought.
    batch_ns: Option<u64>,
    pub(crate) window: Window,
    pub(crate) duty: Option<EdgeDuty<'a>>,
    /// Tell of intervals, if anybody listens.
    pub(crate) tellers: Vec<Teller>,
    /// Every request, if they are wanted.
    pub(crate) ledger: Option<Ledger>,
    /// What the window will be counted in.
    pub(crate) fresh: Vec<Tally>,
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
        let alarm = Alarm::new()?;
        epoll.add(&alarm, ALARM, Interest::IN | Interest::ET)?;
        let ring = (plan.driver == Driver::Uring).then(Client::new).transpose()?;
        let fresh = lanes.iter().map(|lane| Tally::new(lane.rotation.len())).collect();
        Ok(Self {
            plan,
            clock,
            epoll,
            alarm,
            alarm_ns: u64::MAX,
            lanes,
            connections: Vec::new(),
            stamps: Vec::new(),
            sessions: Vec::new(),
            plain: Vec::new(),
            spare: None,
            checks: VecDeque::new(),
            retries: VecDeque::new(),
            later: BinaryHeap::new(),
            random: Random::new(plan.seed),
            next_mark_ns: 0,
            outbox: ring.is_some().then(Outbox::default),
            ring,
            spills: HashMap::new(),
            started: false,
            batch_ns: None,
            window: Window::default(),
            duty,
            tellers: Vec::new(),
            ledger: None,
            fresh,
        })
    }

    /// Opens `count` connections on each lane, and waits until all stand or the time-out has passed.
    /// There may be up to `max` of them later.
    ///
    /// # Errors
    /// The lane none of whose connections came to stand, and why.
    pub(crate) fn connect(&mut self, count: u64, max: u64) -> Result<(), (usize, io::Error)> {
        let depth = usize::from(self.plan.pipeline);
        for (number, lane) in (0..).zip(&mut self.lanes) {
            // Connections begin at different shapes, so that all shapes are under way at all times.
            let shapes = (0..lane.rotation.len()).filter_map(|shape| u16::try_from(shape).ok());
            let firsts = shapes.cycle().zip(0..max);
            let first = self.connections.len() + usize::try_from(count).unwrap_or(usize::MAX);
            self.connections.extend(firsts.map(|(shape, _)| Connection::new(number, shape)));
            lane.dormant = (first..self.connections.len()).rev().map(short).collect();
        }
        self.stamps = vec![Stamp::default(); depth * self.connections.len()];
        if self.lanes.iter().any(|lane| lane.tls.is_some()) {
            self.sessions.resize_with(self.connections.len(), || None);
        }
        self.dial_all()
    }

    /// Loads until the window closes, and says what was counted in it.
    pub(crate) fn run(mut self, timing: Timing, place: (usize, usize)) -> io::Result<Yield> {
        if let Some(ring) = self.ring.take() {
            return self.run_over(ring, timing, place);
        }
        let mut events = [epoll::no_event(); EVENTS];
        let mut buffer = vec![0; BUFFER_SIZE];
        self.begin(timing, place)?;
        let mut now_ns = self.clock.now_ns();
        loop {
            if now_ns >= self.next_mark_ns && self.mark(now_ns, timing) || self.is_done() {
                return Ok(self.close());
            }
            now_ns = self.send_due(now_ns);
            let patience = self.leave_to_alarm(self.patience(now_ns), now_ns)?;
            let count = self.epoll.wait(&mut events, patience)?;
            self.waited();
            let before_ns = self.window.last_answer_ns;
            for event in &events[..count] {
                match event.data.u64() {
                    HALT => return Ok(self.close()),
                    ALARM => self.alarm_ns = u64::MAX,
                    _ => self.ready(event, &mut buffer),
                }
            }
            now_ns = self.turn_ns(before_ns);
        }
    }

    /// When a turn ended that began when the last answer was of `before_ns`. Where nothing is due at a
    /// certain time the last answer's own stamp will do, and the clock is read once for each answer.
    fn turn_ns(&self, before_ns: u64) -> u64 {
        let last_ns = self.window.last_answer_ns;
        if self.asks_when_answered() && last_ns > before_ns { last_ns } else { self.clock.now_ns() }
    }

    /// Whether nothing is sent but in answer to an answer.
    fn asks_when_answered(&self) -> bool {
        self.plan.pace.is_closed() && self.later.is_empty()
    }

    /// How long to wait if the alarm ends the wait, which a closed loop sets a few times a second: a wait with
    /// a timeout costs the kernel a timer each time.
    fn leave_to_alarm(
        &mut self,
        patience: Option<Duration>,
        now_ns: u64,
    ) -> io::Result<Option<Duration>> {
        if !self.asks_when_answered() || patience.is_none_or(|patience| patience.is_zero()) {
            return Ok(patience);
        }
        if self.next_mark_ns < self.alarm_ns {
            self.alarm.set(self.next_mark_ns.saturating_sub(now_ns))?;
            self.alarm_ns = self.next_mark_ns;
        }
        Ok(None)
    }

    /// A wait has ended.
    #[inline]
    pub(crate) fn waited(&mut self) {
        self.batch_ns = (self.plan.clock == Timepiece::Batch).then(|| self.clock.now_ns());
    }

    /// When what has just been received came.
    #[inline]
    pub(crate) fn arrival_ns(&self) -> u64 {
        self.batch_ns.unwrap_or_else(|| self.clock.now_ns())
    }

    /// Waits for the start, and sends the first requests.
    pub(crate) fn begin(&mut self, timing: Timing, place: (usize, usize)) -> io::Result<()> {
        if self.plan.idle != Idle::Spin && !self.plan.pace.is_closed() {
            timer::wake_punctually()?;
        }
        while self.clock.now_ns() < timing.start_ns {
            std::hint::spin_loop();
        }
        self.start(timing, place);
        Ok(())
    }

    fn start(&mut self, timing: Timing, (thread, threads): (usize, usize)) {
        let lanes = self.lanes.len();
        self.random = Random::new(self.plan.seed ^ (thread as u64).wrapping_mul(THREAD_APART));
        if let Some((from_rps, to_rps)) = self.plan.pace.rates() {
            let offer = Offer {
                origin_ns: timing.start_ns,
                flat_ns: timing.open_ns - timing.start_ns,
                from_rps,
                to_rps,
                ramp_ns: timing.duration_ns,
            };
            for (lane, share) in self.lanes.iter_mut().enumerate() {
                let seed = self.plan.seed;
                let even = Even { offer, lane, lanes, thread, threads, seed, taken: 0 };
                share.follow(match self.plan.arrival {
                    Arrival::Constant => Schedule::Even(even),
                    Arrival::Poisson => Schedule::Drawn(Drawn::new(offer, &even)),
                });
            }
        }
        let plan = self.plan;
        if let Some(trace) = plan.pace.trace() {
            for share in &mut self.lanes {
                let replay = trace.share(timing.start_ns, thread, threads);
                share.follow(Schedule::Replayed(replay));
            }
        }
        self.started = true;
        self.ledger = self.plan.keeps_entries.then(|| Ledger::new(timing.start_ns));
        if timing.open_ns <= timing.start_ns {
            self.open(timing);
        }
        self.plan_marks(timing);
        let count = self.connections.len();
        for index in 0..count {
            if self.plan.ramp_up_ns == 0 {
                let now_ns = self.clock.now_ns();
                self.go_on(index, now_ns);
            } else {
                // Threads take turns, as they do with everything else.
                let place = (index * threads + thread) as u64;
                let all = (count * threads) as u64;
                let step_ns =
                    u128::from(self.plan.ramp_up_ns) * u128::from(place) / u128::from(all);
                let after_ns = u64::try_from(step_ns).unwrap_or(u64::MAX);
                self.put_off(index, timing.start_ns.saturating_add(after_ns));
            }
        }
    }

    /// Whether every request that was to be sent has met its end.
    pub(crate) fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| lane.budget == 0 && lane.in_flight == 0)
    }

    /// How long nothing needs to be done but what events ask for.
    pub(crate) fn patience(&self, now_ns: u64) -> Option<Duration> {
        if self.plan.idle == Idle::Spin {
            return Some(Duration::ZERO);
        }
        if self.is_done() {
            return Some(Duration::ZERO);
        }
        // Whoever waits for a connection waits for an event; whoever does not wait, acts in time.
        let waits = self.plan.on_busy == OnBusy::Queue;
        let sendable = self.lanes.iter().filter(|lane| !waits || !lane.free.is_empty());
        let due_ns = sendable.map(Lane::due_ns).min().unwrap_or(u64::MAX);
        let until_ns = match self.plan.idle {
            Idle::Hybrid => due_ns.saturating_sub(SPIN_NS).min(self.next_mark_ns),
            Idle::Block | Idle::Spin => due_ns.min(self.next_mark_ns),
        };
        let left_ns = until_ns.saturating_sub(now_ns);
        (until_ns < u64::MAX).then(|| Duration::from_nanos(left_ns))
    }

    fn ready(&mut self, event: &Event, buffer: &mut [u8]) {
        let Ok(index) = usize::try_from(event.data.u64()) else { return };
        let flags = event.flags;
        match self.connections.get(index).map(|connection| connection.phase) {
            Some(Phase::Connecting | Phase::Shaking) => self.settle(index),
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
