//! One worker thread: an event loop over readiness, due times and timers.
//!
//! In the steady state a request costs one `recv` and one `send`, and one `epoll_wait` is shared by
//! all connections that are ready with it. Sockets are registered once, edge-triggered.
//! `exchange.rs` handles requests, `connect.rs` connections, and `timeouts.rs`, `think_time.rs` and
//! `window.rs` what is scheduled. `uring_loop.rs` is the same loop over io_uring completions.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use jissoku_os::epoll::{self, Epoll, Event, Interest};
use jissoku_os::timer;
use jissoku_os::tsc::Clock;
use jissoku_os::uring::RingClient;

use crate::uring_loop::RingQueue;

use crate::connection::{Connection, ConnectionState, RequestTimes, compact_index};
use crate::counters::Counters;
use crate::interval::IntervalReporter;
use crate::pace::{Arrival, OnBusy};
use crate::plan::{ClockSource, Driver, Idle, Plan};
use crate::random::Random;
use crate::reader::Reader;
use crate::request_log::RequestLog;
use crate::schedule::{ConstantSchedule, PoissonSchedule, RateProfile, Schedule};
use crate::target::Target;
use crate::time_slices::TimeSlicer;
use crate::timers::{TIMER, Timers};
use crate::tls_session::TlsSession;
use crate::window::{Timing, Window, WindowHooks, WorkerResult};

/// Events returned by one wait, at most.
const EVENTS: usize = 512;

/// Size of the shared read buffer; a larger one does not stay in the cache.
const BUFFER_SIZE: usize = 64 * 1024;

/// A blocked thread wakes up to this late, so `Idle::Hybrid` starts to spin this long before a due
/// time.
const SPIN_NS: u64 = 50_000;

/// Mixed into the seed per worker, so that their random sequences differ.
const SEED_STEP: u64 = 0xff51_afd7_ed55_8ccd;

/// Token of the descriptor that stops the worker.
pub(crate) const STOP: u64 = u64::MAX;

/// A worker with its connections.
pub(crate) struct Worker<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) clock: Clock,
    pub(crate) epoll: Epoll,
    pub(crate) timers: Timers,
    pub(crate) targets: Vec<Target<'a>>,
    pub(crate) connections: Vec<Connection>,
    /// One slot per connection and pipelined request.
    pub(crate) request_times: Vec<RequestTimes>,
    /// TLS state by connection; empty if no target uses TLS.
    pub(crate) tls_sessions: Vec<Option<Box<TlsSession>>>,
    /// Scratch buffer for decrypted bytes.
    pub(crate) plaintext: Vec<u8>,
    /// An idle response reader, for reuse.
    pub(crate) spare_reader: Option<Box<Reader>>,
    /// Draws think times.
    pub(crate) random: Random,
    /// Requests queued for the next submission; `None` with epoll.
    pub(crate) ring_queue: Option<RingQueue>,
    ring: Option<RingClient>,
    /// Unsent bytes of requests with placeholders, by connection.
    pub(crate) unsent_copies: HashMap<u32, Vec<u8>>,
    pub(crate) started: bool,
    /// When the last wait returned, if the clock is read once per wait (`ClockSource::Batch`).
    batch_received_ns: Option<u64>,
    pub(crate) window: Window,
    /// Schedules the time slices, if targets are loaded one at a time.
    pub(crate) slicer: Option<TimeSlicer>,
    /// CPU time of the watched servers without load, in nanoseconds per second.
    pub(crate) idle_cpu_ns_per_s: Vec<Option<u64>>,
    pub(crate) window_hooks: Option<WindowHooks<'a>>,
    /// One for each interval length that is observed.
    pub(crate) reporters: Vec<IntervalReporter>,
    /// Records every request, if the plan asks for it.
    pub(crate) request_log: Option<RequestLog>,
    /// Empty counters that replace those of the warm-up when the window opens.
    pub(crate) window_counters: Vec<Counters>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        clock: Clock,
        targets: Vec<Target<'a>>,
        window_hooks: Option<WindowHooks<'a>>,
        halt: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(halt, STOP, Interest::IN)?;
        let timers = Timers::new(&epoll)?;
        let ring = (plan.driver == Driver::Uring).then(RingClient::new).transpose()?;
        let slicer = plan
            .slice_ns
            .zip(plan.pace.rates())
            .map(|(slice_ns, (rate_rps, _))| TimeSlicer::new(plan, rate_rps, slice_ns));
        let window_counters =
            targets.iter().map(|target| Counters::new(target.request_cycle.len())).collect();
        Ok(Self {
            plan,
            clock,
            epoll,
            timers,
            targets,
            connections: Vec::new(),
            request_times: Vec::new(),
            tls_sessions: Vec::new(),
            plaintext: Vec::new(),
            spare_reader: None,
            random: Random::new(plan.seed),
            ring_queue: ring.is_some().then(RingQueue::default),
            ring,
            unsent_copies: HashMap::new(),
            started: false,
            batch_received_ns: None,
            window: Window::default(),
            slicer,
            idle_cpu_ns_per_s: Vec::new(),
            window_hooks,
            reporters: Vec::new(),
            request_log: None,
            window_counters,
        })
    }

    /// Opens `count` connections to each target and waits until all are established or the timeout
    /// expires. Slots for up to `max` connections are allocated.
    ///
    /// # Errors
    /// The target without a single connection, and its last error.
    pub(crate) fn open_connections(
        &mut self,
        count: u64,
        max: u64,
    ) -> Result<(), (usize, io::Error)> {
        let depth = usize::from(self.plan.pipeline);
        for (number, target) in (0..).zip(&mut self.targets) {
            // Connections start at different requests of the cycle, so that all are in flight all
            // the time.
            let specs = (0..target.request_cycle.len()).filter_map(|spec| u16::try_from(spec).ok());
            let firsts = specs.cycle().zip(0..max);
            let first = self.connections.len() + usize::try_from(count).unwrap_or(usize::MAX);
            self.connections.extend(firsts.map(|(spec, _)| Connection::new(number, spec)));
            target.spare_slots = (first..self.connections.len()).rev().map(compact_index).collect();
        }
        self.request_times = vec![RequestTimes::default(); depth * self.connections.len()];
        if self.targets.iter().any(|target| target.tls.is_some()) {
            self.tls_sessions.resize_with(self.connections.len(), || None);
        }
        self.connect_all()
    }

    /// Generates load until the window closes, and returns what was counted in it.
    pub(crate) fn run(mut self, timing: Timing, place: (usize, usize)) -> io::Result<WorkerResult> {
        if let Some(ring) = self.ring.take() {
            return self.run_uring(ring, timing, place);
        }
        let mut events = [epoll::no_event(); EVENTS];
        let mut buffer = vec![0; BUFFER_SIZE];
        self.wait_for_start(timing, place)?;
        let mut now_ns = self.clock.now_ns();
        loop {
            self.window.note_iteration(now_ns);
            if now_ns >= self.timers.next_ns() && self.run_timers(now_ns, timing) || self.is_done()
            {
                return Ok(self.close());
            }
            if self.is_slice_over(now_ns) && self.next_slice(now_ns, timing) {
                return Ok(self.close());
            }
            now_ns = self.send_due(now_ns);
            let timeout = self.timeout_or_timer(self.wait_timeout(now_ns), now_ns)?;
            let count = self.epoll.wait(&mut events, timeout)?;
            self.on_wait_ended();
            let before_ns = self.window.last_response_ns;
            for event in &events[..count] {
                match event.data.u64() {
                    STOP => return Ok(self.close()),
                    TIMER => self.timers.on_expired(),
                    _ => self.on_event(event, &mut buffer),
                }
            }
            now_ns = self.iteration_end_ns(before_ns);
        }
    }

    /// The time at the end of a loop iteration. Where nothing is due at a given time (closed loop),
    /// the time of the last response is recent enough, which saves one clock read per response.
    fn iteration_end_ns(&self, before_ns: u64) -> u64 {
        let last_ns = self.window.last_response_ns;
        if self.sends_only_on_response() && last_ns > before_ns {
            last_ns
        } else {
            self.clock.now_ns()
        }
    }

    /// Whether requests are sent only in reaction to responses.
    fn sends_only_on_response(&self) -> bool {
        self.plan.pace.is_closed() && !self.timers.has_delayed()
    }

    /// In the closed loop, replaces the timeout by a timer that is armed a few times per second: a
    /// wait with a timeout costs the kernel one timer per call.
    fn timeout_or_timer(
        &mut self,
        timeout: Option<Duration>,
        now_ns: u64,
    ) -> io::Result<Option<Duration>> {
        if !self.sends_only_on_response() || timeout.is_none_or(|timeout| timeout.is_zero()) {
            return Ok(timeout);
        }
        self.timers.arm(now_ns)?;
        Ok(None)
    }

    /// Called when a wait has returned.
    #[inline]
    pub(crate) fn on_wait_ended(&mut self) {
        self.batch_received_ns =
            (self.plan.clock == ClockSource::Batch).then(|| self.clock.now_ns());
    }

    /// The receive time of the bytes that were just read.
    #[inline]
    pub(crate) fn received_ns(&self) -> u64 {
        self.batch_received_ns.unwrap_or_else(|| self.clock.now_ns())
    }

    /// Waits for the common start time, and sends the first requests.
    pub(crate) fn wait_for_start(
        &mut self,
        timing: Timing,
        place: (usize, usize),
    ) -> io::Result<()> {
        if self.plan.idle != Idle::Spin && !self.plan.pace.is_closed() {
            timer::set_min_timer_slack()?;
        }
        self.measure_idle_cpu(timing);
        while self.clock.now_ns() < timing.start_ns {
            std::hint::spin_loop();
        }
        self.start(timing, place);
        Ok(())
    }

    fn start(&mut self, timing: Timing, (thread, threads): (usize, usize)) {
        let targets = self.targets.len();
        self.random = Random::new(self.plan.seed ^ (thread as u64).wrapping_mul(SEED_STEP));
        if self.slicer.is_some() {
            self.begin_slices(timing.start_ns);
        } else if let Some((from_rps, to_rps)) = self.plan.pace.rates() {
            let profile = RateProfile {
                origin_ns: timing.start_ns,
                flat_ns: timing.open_ns - timing.start_ns,
                from_rps,
                to_rps,
                ramp_ns: timing.duration_ns,
            };
            for (target, share) in self.targets.iter_mut().enumerate() {
                let seed = self.plan.seed;
                let constant =
                    ConstantSchedule { profile, target, targets, thread, threads, seed, taken: 0 };
                share.set_schedule(match self.plan.arrival {
                    Arrival::Constant => Schedule::Constant(constant),
                    Arrival::Poisson => Schedule::Poisson(PoissonSchedule::new(profile, &constant)),
                });
            }
        }
        let plan = self.plan;
        if let Some(trace) = plan.pace.trace() {
            for share in &mut self.targets {
                let replay = trace.share(timing.start_ns, thread, threads);
                share.set_schedule(Schedule::Trace(replay));
            }
        }
        self.started = true;
        self.request_log = self.plan.keeps_records.then(|| RequestLog::new(timing.start_ns));
        if timing.open_ns <= timing.start_ns && self.slicer.is_none() {
            self.open(timing);
        }
        self.schedule_timers(timing);
        let count = self.connections.len();
        for index in 0..count {
            if self.plan.ramp_up_ns == 0 {
                let now_ns = self.clock.now_ns();
                self.send_next(index, now_ns);
            } else {
                // Connections of all workers are interleaved, as their schedules are.
                let place = (index * threads + thread) as u64;
                let all = (count * threads) as u64;
                let step_ns =
                    u128::from(self.plan.ramp_up_ns) * u128::from(place) / u128::from(all);
                let after_ns = u64::try_from(step_ns).unwrap_or(u64::MAX);
                self.delay(index, timing.start_ns.saturating_add(after_ns));
            }
        }
    }

    /// Whether the request limit is reached and nothing is in flight.
    pub(crate) fn is_done(&self) -> bool {
        self.targets.iter().all(|target| target.budget == 0 && target.in_flight == 0)
    }

    /// How long the worker may block: until the next due time or timer.
    pub(crate) fn wait_timeout(&self, now_ns: u64) -> Option<Duration> {
        if self.plan.idle == Idle::Spin {
            return Some(Duration::ZERO);
        }
        if self.is_done() {
            return Some(Duration::ZERO);
        }
        // A queued request waits for an event on a connection; other policies act at the due time.
        let waits = self.plan.on_busy == OnBusy::Queue;
        let sendable = self.targets.iter().filter(|target| !waits || !target.free.is_empty());
        let due_ns = sendable.map(Target::due_ns).min().unwrap_or(u64::MAX);
        let until_ns = match self.plan.idle {
            Idle::Hybrid => due_ns.saturating_sub(SPIN_NS).min(self.timers.next_ns()),
            Idle::Block | Idle::Spin => due_ns.min(self.timers.next_ns()),
        };
        let left_ns = until_ns.saturating_sub(now_ns);
        (until_ns < u64::MAX).then(|| Duration::from_nanos(left_ns))
    }

    fn on_event(&mut self, event: &Event, buffer: &mut [u8]) {
        let Ok(index) = usize::try_from(event.data.u64()) else { return };
        let flags = event.flags;
        match self.connections.get(index).map(|connection| connection.state) {
            Some(ConnectionState::Connecting | ConnectionState::Handshaking) => {
                self.on_connect_event(index);
            }
            Some(ConnectionState::Open | ConnectionState::AwaitingClose) => {
                if flags.contains(Interest::OUT) && self.connections[index].unsent > 0 {
                    self.flush(index);
                }
                self.receive(index, flags, buffer);
            }
            Some(ConnectionState::Closed) | None => {}
        }
    }
}
