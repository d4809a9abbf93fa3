//! One worker thread: an event loop over readiness or completions, due times and timers.
//!
//! Over epoll, a request costs one `recv` and one `send` in the steady state, and one `epoll_wait`
//! is shared by all connections that are ready with it. `exchange.rs` handles requests, `connect.rs`
//! connections.

#[cfg(test)]
mod random_events;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use jissoku_os::epoll::Interest;
use jissoku_os::timer;

use crate::engine::connection::{Connection, ConnectionState};
use crate::engine::connections::Connections;
use crate::engine::dispatcher::Dispatcher;
use crate::engine::recorder::{ReceiveClock, Recorder};
use crate::engine::time_slices::{CycleEvent, SliceTotals, TimeSlicer};
use crate::engine::timers::Timers;
use crate::engine::transport::{Events, STOP, Transport, Wake};
use crate::engine::window::Timing;
use crate::engine::worker_result::{TargetResult, WorkerResult};
use crate::plan::Plan;
use crate::plan::options::Idle;

/// A worker with its connections.
pub(crate) struct Worker<'a, T> {
    pub(crate) plan: &'a Plan,
    pub(crate) clock: ReceiveClock,
    pub(crate) transport: T,
    pub(crate) connections: Connections,
    pub(crate) dispatcher: Dispatcher<'a>,
    pub(crate) timers: Timers,
    pub(crate) recorder: Recorder<'a>,
    /// Schedules the time slices, if targets are loaded one at a time.
    slicer: Option<TimeSlicer>,
}

impl<'a, T: Transport> Worker<'a, T> {
    pub(crate) fn new(
        plan: &'a Plan,
        clock: ReceiveClock,
        dispatcher: Dispatcher<'a>,
        recorder: Recorder<'a>,
        halt: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let transport = T::new()?;
        transport.epoll().add(halt, STOP, Interest::IN)?;
        let timers = Timers::new(transport.epoll(), plan.timeout_ns)?;
        let slicer = plan
            .slice_ns
            .zip(plan.pace.rates())
            .map(|(slice_ns, (rate, _))| TimeSlicer::new(plan, rate, slice_ns));
        let connections = Connections::new(plan.pipeline);
        Ok(Self { plan, clock, transport, connections, dispatcher, timers, recorder, slicer })
    }

    /// Generates load until the window closes, and returns what was counted in it.
    pub(crate) fn run(
        mut self,
        mut events: impl Events<Self>,
        timing: Timing,
        place: (usize, usize),
    ) -> io::Result<WorkerResult> {
        self.wait_for_start(timing)?;
        self.start(timing, place);
        let mut now_ns = self.clock.now_ns();
        loop {
            self.recorder.window.record_iteration(now_ns);
            if now_ns >= self.timers.next_ns() {
                if self.run_timers(now_ns, timing) {
                    break;
                }
                now_ns = self.clock.now_ns();
            }
            if self.dispatcher.is_done() || self.next_slice(now_ns, timing) {
                break;
            }
            now_ns = self.send_due(now_ns);
            self.send_pongs();
            let before_ns = self.recorder.window.last_response_ns;
            if events.wait(&mut self, now_ns)? == Wake::Stop {
                break;
            }
            now_ns = self.iteration_end_ns(before_ns);
        }
        Ok(self.close())
    }

    /// The time at the end of a loop iteration. Where nothing is due at a given time (closed loop),
    /// the time of the last response is recent enough, which saves one clock read per response.
    fn iteration_end_ns(&self, before_ns: u64) -> u64 {
        let last_ns = self.recorder.window.last_response_ns;
        // Queued requests are sent at this time, so it has to be exact for them.
        if !T::IS_QUEUED && last_ns > before_ns && self.sends_only_on_response() {
            last_ns
        } else {
            self.clock.now_ns()
        }
    }

    /// Whether requests are sent only in reaction to responses.
    pub(crate) fn sends_only_on_response(&self) -> bool {
        self.plan.pace.is_closed() && !self.timers.has_delayed()
    }

    /// Waits for the common start time.
    fn wait_for_start(&mut self, timing: Timing) -> io::Result<()> {
        if self.plan.idle != Idle::Spin && !self.plan.pace.is_closed() {
            timer::set_min_timer_slack()?;
        }
        self.recorder.measure_idle_cpu(&self.clock, self.plan.idle_watch_ns, timing.start_ns);
        while self.clock.now_ns() < timing.start_ns {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Sends the first requests of worker `thread`.
    fn start(&mut self, timing: Timing, (thread, threads): (usize, usize)) {
        self.dispatcher.start(timing, (thread, threads));
        self.recorder.start(self.plan, timing);
        if let Some(slicer) = &mut self.slicer {
            let (counters, targets) = (&mut self.recorder.counters, &mut self.dispatcher.targets);
            slicer.start(timing.start_ns, targets, counters);
        } else if timing.open_ns <= timing.start_ns {
            self.open(timing);
        }
        self.schedule_timers(timing);
        let count = self.connections.len();
        for index in 0..count {
            if self.plan.ramp_up_ns == 0 {
                let now_ns = self.clock.now_ns();
                self.send_next(index, now_ns);
            } else {
                let (place, count) = (index * threads + thread, count * threads);
                let at_ns = self.dispatcher.first_request_ns(timing.start_ns, place, count);
                self.timers.delay(&mut self.connections[index], index, at_ns);
            }
        }
    }

    /// How long the worker may block: until the next due time or timer.
    pub(crate) fn wait_timeout(&self, now_ns: u64) -> Option<Duration> {
        if self.plan.idle == Idle::Spin || self.dispatcher.is_done() {
            return Some(Duration::ZERO);
        }
        let until_ns = self.dispatcher.wake_ns().min(self.timers.next_ns());
        let left_ns = until_ns.saturating_sub(now_ns);
        (until_ns < u64::MAX).then(|| Duration::from_nanos(left_ns))
    }

    /// Runs expired timers; returns true when the window is over.
    fn run_timers(&mut self, now_ns: u64, timing: Timing) -> bool {
        let is_sliced = self.slicer.is_some();
        if self.recorder.window.opened_ns.is_none() && now_ns >= timing.open_ns && !is_sliced {
            self.open(timing);
        }
        self.recorder.end_intervals(now_ns);
        if !is_sliced && self.recorder.window.is_over(now_ns) {
            return true;
        }
        self.run_due_timers(now_ns);
        self.schedule_timers(timing);
        false
    }

    fn schedule_timers(&mut self, timing: Timing) {
        let edge_ns = self.recorder.window.next_ns(timing.open_ns, self.slicer.is_some());
        self.timers.reschedule(edge_ns.min(self.recorder.next_interval_ns()));
    }

    /// Ends the current slice if it is over and begins the next one, and opens or closes the window
    /// between two cycles. Returns true when the window is over.
    #[inline]
    fn next_slice(&mut self, now_ns: u64, timing: Timing) -> bool {
        let targets = &self.dispatcher.targets;
        let is_over = self.slicer.as_ref().is_some_and(|slicer| slicer.is_over(now_ns, targets));
        is_over && self.change_slice(now_ns, timing)
    }

    fn change_slice(&mut self, now_ns: u64, timing: Timing) -> bool {
        let Some(mut slicer) = self.slicer.take() else { return false };
        let monitor = self.recorder.monitor();
        let counters = &mut self.recorder.counters;
        let mut is_over = false;
        if !slicer.end_settling(now_ns, &mut self.dispatcher.targets, counters, monitor) {
            match slicer.end(now_ns, counters, monitor) {
                CycleEvent::Open if now_ns >= timing.open_ns => {
                    slicer.watch_waits(monitor);
                    let opened_ns = self.open(timing);
                    slicer.open(opened_ns, monitor);
                }
                CycleEvent::Close => {
                    let is_due = |slots_ns| slots_ns >= timing.duration_ns;
                    let window = &self.recorder.window;
                    is_over = slicer.slots_ns().map_or_else(|| window.is_over(now_ns), is_due);
                }
                CycleEvent::Open | CycleEvent::None => {}
            }
            if !is_over {
                let counters = &mut self.recorder.counters;
                let targets = &mut self.dispatcher.targets;
                slicer.prepare(targets.len(), monitor);
                slicer.begin(self.clock.now_ns(), targets, counters);
            }
        }
        self.slicer = Some(slicer);
        self.schedule_timers(timing);
        is_over
    }

    /// Opens the window; returns the time.
    fn open(&mut self, timing: Timing) -> u64 {
        let now_ns = self.recorder.open(&self.clock, timing.duration_ns);
        self.stamp_queued(now_ns);
        self.recorder.counters.iter_mut().for_each(|counters| counters.queued_ns = 0);
        self.recorder.record_carried(self.connections.in_flight(), now_ns);
        now_ns
    }

    /// Sets the send time of requests that are queued and not submitted to `now_ns`, so that time
    /// in the queue does not count across an edge of the window.
    fn stamp_queued(&mut self, now_ns: u64) {
        let queued: Vec<usize> = self.transport.queued(&self.connections).collect();
        for index in queued {
            let (_, queued_ns) = self.connections.stamp(index, now_ns, self.plan.pace.is_closed());
            let target = usize::from(self.connections[index].target);
            self.recorder.counters[target].queued_ns += queued_ns;
        }
    }

    fn close(mut self) -> WorkerResult {
        let closing = self.recorder.close(&self.clock);
        // A run that is limited by requests ends with the last response.
        let last_ns = self.recorder.window.last_response_ns;
        let end_ns = if self.dispatcher.is_done() { last_ns } else { closing.now_ns };
        if self.recorder.window.opened_ns.is_some() {
            self.stamp_queued(end_ns);
            self.recorder.record_unanswered(self.connections.in_flight(), end_ns);
        }
        let slices = self.slicer.take().map(|slicer| slicer.finish(&mut self.recorder.counters));
        let mut slices = slices.into_iter().flatten();
        let numbers = 0..self.dispatcher.targets.len();
        let results = numbers.map(|number| self.target_result(number, slices.next(), end_ns));
        let results = results.collect();
        (0..self.connections.len()).for_each(|index| self.send_close_frame(index));
        self.recorder.finish(results, closing, end_ns)
    }

    /// What was counted of a target; nothing before the window, but for its connections.
    fn target_result(
        &mut self,
        number: usize,
        slices: Option<SliceTotals>,
        end_ns: u64,
    ) -> TargetResult {
        let mut result = self.recorder.take_target(number);
        if let Some(opened_ns) = self.recorder.window.opened_ns {
            let target = &self.dispatcher.targets[number];
            // Its own limit of requests ends a target before the others.
            let is_done = target.is_limited && target.budget == 0 && target.in_flight == 0;
            let last_ns = Some(result.counters.last_end_ns).filter(|&at| is_done && at > opened_ns);
            result.duration_ns = last_ns.unwrap_or(end_ns).saturating_sub(opened_ns);
            let waited = &mut result.counters.waited;
            result.overdue = target.overdue(end_ns, u64::MAX, |due_ns, alike| {
                waited.record_many(end_ns - due_ns, alike);
            });
            result.in_flight = target.in_flight;
            result.slices = slices;
            let is_open = |found: &&Connection| {
                usize::from(found.target) == number && found.state == ConnectionState::Open
            };
            result.open = self.connections.iter().filter(is_open).count() as u64;
        }
        result
    }
}
