//! When requests are sent, and on which connection: after the response to the last one (closed
//! loop), or at their due times on the connection that has been free for longest (open loop).

use crate::engine::connection::{Connection, compact_index};
use crate::engine::connections::Connections;
use crate::engine::counters::Counters;
use crate::engine::random::Random;
use crate::engine::schedule::{ConstantSchedule, PoissonSchedule, RateProfile, Schedule};
use crate::engine::target::Target;
use crate::engine::window::Timing;
use crate::plan::Plan;
use crate::plan::options::{Idle, Think};
use crate::plan::pace::{Arrival, OnBusy};

/// A blocked thread wakes up to this late, so `Idle::Hybrid` starts to spin this long before a due
/// time.
const SPIN_NS: u64 = 50_000;

/// Mixed into the seed per worker, so that their random sequences differ.
const SEED_STEP: u64 = 0xff51_afd7_ed55_8ccd;

/// Decides what is sent next, by target.
pub(crate) struct Dispatcher<'a> {
    plan: &'a Plan,
    pub(crate) targets: Vec<Target<'a>>,
    /// Draws think times.
    random: Random,
    /// Whether the load has started; before that, connections are only opened.
    pub(crate) has_started: bool,
}

impl<'a> Dispatcher<'a> {
    pub(crate) fn new(plan: &'a Plan, targets: Vec<Target<'a>>) -> Self {
        Self { plan, targets, random: Random::new(plan.seed), has_started: false }
    }

    /// Sets the due times of worker `thread`, except for those of time slices.
    pub(crate) fn start(&mut self, timing: Timing, (thread, threads): (usize, usize)) {
        self.has_started = true;
        let (plan, targets) = (self.plan, self.targets.len());
        self.random = Random::new(plan.seed ^ (thread as u64).wrapping_mul(SEED_STEP));
        if let Some(trace) = plan.pace.trace() {
            for target in &mut self.targets {
                let replay = trace.share(timing.start_ns, thread, threads);
                target.set_schedule(Schedule::Trace(replay));
            }
        }
        let Some((from, to)) = plan.pace.rates().filter(|_| plan.slice_ns.is_none()) else {
            return;
        };
        let profile = RateProfile {
            origin_ns: timing.start_ns,
            flat_ns: timing.open_ns - timing.start_ns,
            from,
            to,
            ramp_ns: timing.duration_ns,
        };
        for (number, target) in self.targets.iter_mut().enumerate() {
            let seed = plan.seed;
            let constant = ConstantSchedule {
                profile,
                target: number,
                targets,
                thread,
                threads,
                seed,
                taken: 0,
            };
            target.set_schedule(match plan.arrival {
                Arrival::Constant => Schedule::Constant(constant),
                Arrival::Poisson => Schedule::Poisson(PoissonSchedule::new(profile, &constant)),
            });
        }
    }

    /// Whether the request limit is reached and nothing is in flight.
    pub(crate) fn is_done(&self) -> bool {
        self.targets.iter().all(|target| target.budget == 0 && target.in_flight == 0)
    }

    /// When a blocked worker has to wake up to send; `u64::MAX` if only an event lets it send.
    pub(crate) fn wake_ns(&self) -> u64 {
        // A queued request waits for an event on a connection; other policies act at the due time.
        let waits = self.plan.on_busy == OnBusy::Queue;
        let sendable = self.targets.iter().filter(|target| !waits || !target.free.is_empty());
        let due_ns = sendable.map(Target::due_ns).min().unwrap_or(u64::MAX);
        if self.plan.idle == Idle::Hybrid { due_ns.saturating_sub(SPIN_NS) } else { due_ns }
    }

    /// Among the targets with a free connection, the one with the earliest request that is due at
    /// `now_ns`: its connection that has been free for longest, and the due time, which is removed
    /// from the schedule.
    pub(crate) fn next_due(
        &mut self,
        now_ns: u64,
        connections: &mut Connections,
    ) -> Option<(usize, u64)> {
        let mut earliest: Option<(usize, u64)> = None;
        for (number, target) in self.targets.iter_mut().enumerate() {
            let due_ns = target.due_ns();
            if due_ns <= now_ns && earliest.is_none_or(|(_, best_ns)| due_ns < best_ns) {
                while let Some(&first) = target.free.front() {
                    let connection = &mut connections[first as usize];
                    if connection.can_send(self.plan.pipeline) {
                        earliest = Some((number, due_ns));
                        break;
                    }
                    connection.is_queued = false;
                    target.free.pop_front();
                }
            }
        }
        let target = &mut self.targets[earliest?.0];
        let index = target.free.pop_front()? as usize;
        connections[index].is_queued = false;
        Some((index, target.pop_due()))
    }

    /// Puts a connection with capacity into the queue of free ones.
    #[inline]
    pub(crate) fn add_free(&mut self, connection: &mut Connection, index: usize, now_ns: u64) {
        if !connection.is_queued && connection.has_capacity(self.plan.pipeline) {
            connection.is_queued = true;
            connection.since_ns = now_ns;
            self.targets[usize::from(connection.target)].free.push_back(compact_index(index));
        }
    }

    /// Sheds requests that have waited for a connection longer than the deadline.
    pub(crate) fn shed_expired(&mut self, now_ns: u64, counters: &mut [Counters]) {
        let Some(deadline_ns) = self.plan.deadline_ns else { return };
        for (target, counters) in self.targets.iter_mut().zip(counters) {
            target.shed(now_ns.saturating_sub(deadline_ns), |due_ns| {
                counters.record_shed(now_ns.saturating_sub(due_ns));
            });
        }
    }

    /// Sheds all requests that are due at `now_ns`, while all connections are busy
    /// (`OnBusy::Drop`).
    #[cold]
    pub(crate) fn shed_due(&mut self, now_ns: u64, counters: &mut [Counters]) {
        for (target, counters) in self.targets.iter_mut().zip(counters) {
            target.shed(now_ns.saturating_add(1), |due_ns| {
                counters.record_shed(now_ns.saturating_sub(due_ns));
            });
        }
    }

    /// How many connections of a target should be opened for its overdue requests
    /// (`OnBusy::Open`).
    #[cold]
    pub(crate) fn wanted_connections(&self, target: usize, now_ns: u64) -> u64 {
        let target = &self.targets[target];
        target.overdue(now_ns, target.spare_slots.len() as u64, |_, _| {})
    }

    /// The think time before the next request (closed loop); `None` if there is none.
    #[inline]
    pub(crate) fn think_ns(&mut self) -> Option<u64> {
        match self.plan.think {
            Think::Never => None,
            Think::Constant { think_ns } => Some(think_ns),
            Think::Exponential { mean_ns } => Some(scaled(mean_ns, self.random.exponential())),
        }
    }

    /// When connection `place` of `count` sends its first request (closed loop): connections of
    /// all workers are interleaved, as their schedules are.
    pub(crate) fn first_request_ns(&self, start_ns: u64, place: usize, count: usize) -> u64 {
        let step_ns = u128::from(self.plan.ramp_up_ns) * place as u128 / count as u128;
        start_ns.saturating_add(u64::try_from(step_ns).unwrap_or(u64::MAX))
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "both are positive, and the cast keeps to the largest number"
)]
fn scaled(mean_ns: u64, factor: f64) -> u64 {
    (mean_ns as f64 * factor) as u64
}
