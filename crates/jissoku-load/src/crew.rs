//! The threads of the stopwatch, from the outside: started, let loose together, and asked for their counts.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use jissoku_os::core;
use jissoku_os::epoll::{self, Epoll, Interest};
use jissoku_os::socket::Endpoint;
use jissoku_os::tsc::Clock;

use crate::interval::{Gatherer, Part, Teller};
use crate::lane::Lane;
use crate::outcome::{Outcome, merge};
use crate::plan::{OnBusy, Plan, Timepiece};
use crate::rotation::Place;
use crate::run::{Control, Failure};
use crate::thread::Thread;
use crate::watch::Watch;
use crate::window::{EdgeDuty, Timing, Yield};

/// Between the last thread's being ready and the first request.
const HEAD_START_NS: u64 = 2_000_000;

/// Watched processes are looked up so long before the window opens.
const LOOK_UP_NS: u64 = 100_000_000;

/// Whoever watches is told of an interval at most so late.
const LOOK_FOR_INTERVALS: Duration = Duration::from_millis(50);

/// The threads, from the outside.
pub(crate) struct Crew<'scope> {
    plan: &'scope Plan,
    clock: Clock,
    ready: Receiver<Result<(), Setback>>,
    go: Vec<Sender<Timing>>,
    threads: Vec<ScopedJoinHandle<'scope, io::Result<Option<Yield>>>>,
    intervals: Receiver<Part>,
    /// Readable as soon as all threads have ended.
    ended: UnixStream,
    /// Dropping it ends all threads.
    halt: UnixStream,
}

impl<'scope> Crew<'scope> {
    pub(crate) fn start(
        scope: &'scope Scope<'scope, '_>,
        plan: &'scope Plan,
        endpoints: &'scope [Endpoint],
        duty: EdgeDuty<'scope>,
        (clock, lengths_ns): (Clock, &[u64]),
    ) -> io::Result<Self> {
        let (halt, halted) = UnixStream::pair()?;
        let (ended, running) = UnixStream::pair()?;
        let (report, ready) = channel();
        let (interval, intervals) = channel();
        let (mut go, mut threads) = (Vec::new(), Vec::new());
        for number in 0..plan.threads {
            let (sender, timing) = channel();
            go.push(sender);
            let (halted, running) = (halted.try_clone()?, running.try_clone()?);
            let report = report.clone();
            let duty = (number == 0).then_some(duty);
            let seat = Seat { plan, endpoints, number, duty, clock };
            let tellers = lengths_ns.iter().map(|&length| Teller::new(interval.clone(), length));
            let tellers: Vec<Teller> = tellers.collect();
            threads.push(scope.spawn(move || {
                let _running = running;
                work(seat, tellers, &halted, (&report, &timing))
            }));
        }
        Ok(Self { plan, clock, ready, go, threads, intervals, ended, halt })
    }

    pub(crate) fn measure(self, watch: &Watch, control: Control<'_>) -> Result<Outcome, Failure> {
        for _ in 0..self.plan.threads {
            match self.ready.recv() {
                Ok(Ok(())) => {}
                Ok(Err(Setback { lane: None, error })) => return Err(error.into()),
                Ok(Err(Setback { lane: Some(lane), error })) => {
                    let url = self.plan.lanes[lane].address.to_string();
                    return Err(Failure::Unreachable { url, error });
                }
                // A thread that says nothing has panicked, which is passed on below.
                Err(_) => break,
            }
        }
        let timing = self.timing(watch);
        let mut gatherer = Gatherer::new(self.plan.threads);
        for go in &self.go {
            // A thread that is no longer there has panicked, which is passed on below.
            let _sent = go.send(timing);
        }
        let interrupted = self.attend(timing, (watch, &mut gatherer), control)?;
        drop(self.halt);
        let mut yields = Vec::new();
        for thread in self.threads {
            match thread.join() {
                Ok(result) => yields.extend(result?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        tell_intervals(&self.intervals, &mut gatherer, control);
        let mut outcome = merge(self.plan, yields, watch);
        outcome.drift_ppm = self.clock.drift_ppm();
        outcome.clock =
            if self.plan.clock == Timepiece::Batch { "batch" } else { self.clock.name() };
        outcome.interrupted = interrupted;
        Ok(outcome)
    }

    fn timing(&self, watch: &Watch) -> Timing {
        if watch.is_asked() && self.plan.warmup_ns <= LOOK_UP_NS {
            watch.look_up();
        }
        let start_ns = self.clock.now_ns() + HEAD_START_NS;
        let open_ns = start_ns.saturating_add(self.plan.warmup_ns);
        let duration_ns = self.plan.until.duration_ns.unwrap_or(u64::MAX);
        Timing { start_ns, open_ns, duration_ns }
    }

    /// Waits for the end; true when it was asked for from outside.
    fn attend(
        &self,
        timing: Timing,
        (watch, gatherer): (&Watch, &mut Gatherer),
        control: Control<'_>,
    ) -> io::Result<bool> {
        let epoll = Epoll::new()?;
        epoll.add(control.interrupt, 0, Interest::IN)?;
        epoll.add(&self.ended, 1, Interest::IN)?;
        let mut event = [epoll::no_event()];
        let look_up_ns = timing.open_ns.saturating_sub(LOOK_UP_NS);
        let left_ns = look_up_ns.saturating_sub(self.clock.now_ns());
        if epoll.wait(&mut event, Some(Duration::from_nanos(left_ns)))? == 0 {
            if watch.is_asked() {
                watch.look_up();
            }
            let patience = control.listener.map(|_| LOOK_FOR_INTERVALS);
            while epoll.wait(&mut event, patience)? == 0 {
                tell_intervals(&self.intervals, gatherer, control);
            }
        }
        Ok(event[0].data.u64() == 0)
    }
}

/// Passes on which intervals are over.
fn tell_intervals(parts: &Receiver<Part>, gatherer: &mut Gatherer, control: Control<'_>) {
    for interval in parts.try_iter().filter_map(|part| gatherer.take(&part)) {
        control.listener.iter().for_each(|listener| (listener.hear)(&interval));
    }
}

/// What a thread does, from its first to its last moment.
fn work(
    seat: Seat<'_>,
    tellers: Vec<Teller>,
    halt: &UnixStream,
    (report, timing): (&Sender<Result<(), Setback>>, &Receiver<Timing>),
) -> io::Result<Option<Yield>> {
    let (thread, ready) = match seat.prepare(halt) {
        Ok(thread) => (Some(thread), Ok(())),
        Err(setback) => (None, Err(setback)),
    };
    // Nobody listens any more when another thread has failed before; then there is nothing to do.
    let _heard = report.send(ready);
    match (thread, timing.recv()) {
        (Some(mut thread), Ok(timing)) => {
            thread.tellers = tellers;
            thread.run(timing, (seat.number, seat.plan.threads)).map(Some)
        }
        _ => Ok(None),
    }
}

/// Why a thread cannot begin: on account of a lane's server, or of this machine.
struct Setback {
    lane: Option<usize>,
    error: io::Error,
}

/// What a thread is given.
#[derive(Clone, Copy)]
struct Seat<'a> {
    plan: &'a Plan,
    endpoints: &'a [Endpoint],
    number: usize,
    duty: Option<EdgeDuty<'a>>,
    clock: Clock,
}

impl<'a> Seat<'a> {
    fn prepare(self, halt: &UnixStream) -> Result<Thread<'a>, Setback> {
        let here = |error| Setback { lane: None, error };
        let Self { plan, number, .. } = self;
        if !plan.cores.is_empty() {
            core::pin(&[plan.cores[number % plan.cores.len()]]).map_err(here)?;
        }
        let thread = Thread::new(plan, self.clock, self.lanes(), self.duty, halt.as_fd());
        let mut thread = thread.map_err(here)?;
        let connections_max = match plan.on_busy {
            OnBusy::Open { connections_max } => connections_max.max(plan.connections),
            OnBusy::Queue | OnBusy::Drop => plan.connections,
        };
        let ours = |connections: usize| share(connections as u64, number, plan.threads);
        let connected = thread.connect(ours(plan.connections), ours(connections_max));
        connected.map_err(|(lane, error)| Setback { lane: Some(lane), error })?;
        Ok(thread)
    }

    fn lanes(self) -> Vec<Lane<'a>> {
        let Self { plan, number, .. } = self;
        let place = Place { thread: number, threads: plan.threads, seed: plan.seed };
        let lane = |(lane, endpoint)| {
            let mut lane = Lane::new(plan, lane, endpoint, place);
            if let Some(requests) = plan.requests() {
                lane.budget = share(requests, number, plan.threads);
            }
            lane
        };
        (0..).zip(self.endpoints).map(lane).collect()
    }
}

/// Divides a whole number so that the parts differ by one at most and add up to it.
pub(crate) fn share(whole: u64, number: usize, parts: usize) -> u64 {
    let (number, parts) = (number as u64, parts as u64);
    whole / parts + u64::from(number < whole % parts)
}
