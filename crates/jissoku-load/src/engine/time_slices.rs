//! Time-sliced load: several targets are connected, and one of them is loaded at a time.
//!
//! A slice is a fixed number of requests to one target, evenly spaced at the plan's rate. It ends
//! when its time is over and its last response has come. The order is a palindrome (A B C, C B A),
//! so that drift that is slow compared to this cycle affects all targets equally. The window opens
//! when every target has had as many slices as the others, and consists of whole cycles, so every
//! target gets the same number of requests in it.
//!
//! A slice may begin with settling requests, which are sent and not counted: the first request of
//! each connection after the other targets' slices finds cold caches, in the server and in the
//! kernel.
//!
//! CPU time is that of each server over the whole window, so that background work during other
//! slices (garbage collection, timers) is charged to it. The time within its own slices is reported
//! separately, and so is that of each rotation: one slice of every target, half a cycle.
//!
//! With slots, slices begin at fixed times after the start instead, and window and warm-up are whole
//! numbers of them: load generators that start together, on several hosts, load the same target at
//! the same time, without a word to each other. A slice whose last response comes later than its
//! slot ends makes the next one begin late, with the due times that it had.
//!
//! At both ends of a slice it is read how long the threads of its target and of the load generator
//! have waited for a core: before the first request is due, and after the last response.

use std::mem;

use crate::engine::counters::Counters;
use crate::engine::cpu_monitor::CpuMonitor;
use crate::engine::schedule::{Schedule, SliceSchedule};
use crate::engine::slice_log::{SliceUsage, WaitMonitor, Waits};
use crate::engine::target::Target;
use crate::plan::Plan;
use crate::plan::pace::Rate;

/// Number of requests due in `length_ns`, at least one.
fn count_of(rate: Rate, length_ns: u64) -> u64 {
    let count = u128::from(rate.requests) * u128::from(length_ns) + u128::from(rate.period_ns / 2);
    u64::try_from(count / u128::from(rate.period_ns)).unwrap_or(u64::MAX).max(1)
}

/// Totals of one target's slices in the window.
#[derive(Clone, Debug, Default)]
pub struct SliceTotals {
    /// Duration of its slices, without settling.
    pub duration_ns: u64,
    /// Each of its slices, in order and without settling.
    pub slices: Vec<SliceUsage>,
    /// CPU time of the watched server during settling.
    pub settling_cpu_ns: u64,
    /// Correct responses to settling requests, which are counted nowhere else.
    pub settling_requests: u64,
}

/// Schedules the slices and sums them up.
#[derive(Debug)]
pub(crate) struct TimeSlicer {
    rate: Rate,
    count: u64,
    /// Settling requests of each slice.
    settling: u64,
    warmup_requests: u64,
    /// Slices begun since the start.
    slices_begun: u64,
    /// Slices begun before the window.
    slices_before: u64,
    /// Whether the slice is still settling.
    is_settling: bool,
    /// Counters of settling requests, by target.
    settling_counters: Vec<Counters>,
    slice: SliceSchedule,
    /// When the load started.
    start_ns: u64,
    slot_ns: Option<u64>,
    target: usize,
    /// CPU time of the target's server at the start of its slice.
    cpu_ns: Option<u64>,
    /// Correct responses of the target at the start of its slice.
    requests: u64,
    wait_monitor: WaitMonitor,
    /// Waiting until the start of the slice.
    waits: Waits,
    rotation: Rotation,
    is_open: bool,
    totals: Vec<SliceTotals>,
}

/// When a rotation began, and until then the CPU time of each target's server and the idle time of
/// their cores.
#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "units end names")]
struct Rotation {
    began_ns: u64,
    cpu_ns: Vec<Option<u64>>,
    idle_ns: Option<u64>,
}

/// What happens after a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CycleEvent {
    /// The next slice begins.
    None,
    /// Every target has had a slice more, and is warmed up: the window may open.
    Open,
    /// A cycle of the window is over: it may close.
    Close,
}

impl TimeSlicer {
    pub(crate) fn new(plan: &Plan, rate: Rate, length_ns: u64) -> Self {
        let targets = plan.targets.len();
        let count = count_of(rate, length_ns);
        Self {
            rate,
            count: count.saturating_sub(plan.settling_requests).max(1),
            settling: plan.settling_requests,
            warmup_requests: plan.warmup_requests,
            slices_begun: 0,
            slices_before: 0,
            is_settling: false,
            settling_counters: plan
                .targets
                .iter()
                .map(|target| Counters::new(target.specs.len()))
                .collect(),
            slice: SliceSchedule { began_ns: 0, rate, count: 0, taken: 0 },
            start_ns: 0,
            slot_ns: plan.slot_ns,
            target: 0,
            cpu_ns: None,
            requests: 0,
            wait_monitor: WaitMonitor::default(),
            waits: Waits::default(),
            rotation: Rotation::default(),
            is_open: false,
            totals: vec![SliceTotals::default(); targets],
        }
    }

    /// The target of slice `number`.
    fn target_at(number: u64, targets: usize) -> usize {
        let place = usize::try_from(number % (2 * targets as u64)).unwrap_or(0);
        if place < targets { place } else { 2 * targets - 1 - place }
    }

    /// Whether the slice's time is over and none of its requests is in flight.
    #[inline]
    pub(crate) fn is_over(&self, now_ns: u64, targets: &[Target<'_>]) -> bool {
        let target = &targets[self.target];
        now_ns >= self.ends_ns() && target.due_ns() == u64::MAX && target.in_flight == 0
    }

    /// When the slice ends, if its last response has come by then.
    fn ends_ns(&self) -> u64 {
        self.slot_ns.map_or_else(|| self.slice.ends_ns(), |slot_ns| self.slice.began_ns + slot_ns)
    }

    /// When the slice that was prepared begins, now or at its fixed time.
    fn begins_ns(&self, now_ns: u64) -> u64 {
        let slots = self.slices_begun.saturating_sub(1);
        self.slot_ns.map_or(now_ns, |slot_ns| self.start_ns + slots * slot_ns)
    }

    /// The load starts, with the first slice.
    pub(crate) fn start(
        &mut self,
        start_ns: u64,
        targets: &mut [Target<'_>],
        counters: &mut [Counters],
    ) {
        self.start_ns = start_ns;
        self.prepare(targets.len(), None);
        self.begin(start_ns, targets, counters);
    }

    /// Chooses the target of the next slice, and reads what it has used and waited so far.
    pub(crate) fn prepare(&mut self, targets: usize, monitor: Option<&CpuMonitor>) {
        self.target = Self::target_at(self.slices_begun, targets);
        self.slices_begun += 1;
        self.is_settling = self.settling > 0;
        self.waits = self.wait_monitor.read(self.target);
        self.cpu_ns = monitor.and_then(|monitor| monitor.cpu_ns(self.target));
    }

    /// Begins the slice or its counted part at `now_ns`: sets the schedule of the target, to settling
    /// requests or counted ones.
    pub(crate) fn begin(
        &mut self,
        now_ns: u64,
        targets: &mut [Target<'_>],
        counters: &mut [Counters],
    ) {
        let count = if self.is_settling { self.settling } else { self.count };
        if self.is_settling {
            self.swap_counters(counters);
        }
        self.requests = counters[self.target].requests;
        let began_ns = self.begins_ns(now_ns);
        self.slice = SliceSchedule { began_ns, rate: self.rate, count, taken: 0 };
        targets[self.target].set_schedule(Schedule::Slice(self.slice));
    }

    /// CPU time of the target's server since the last reading.
    fn cpu_used_ns(&mut self, monitor: Option<&CpuMonitor>) -> u64 {
        let now_ns = monitor.and_then(|monitor| monitor.cpu_ns(self.target));
        let before_ns = mem::replace(&mut self.cpu_ns, now_ns);
        now_ns.zip(before_ns).map_or(0, |(now_ns, before_ns)| now_ns.saturating_sub(before_ns))
    }

    /// Ends settling, if the slice is settling: the following requests count.
    pub(crate) fn end_settling(
        &mut self,
        now_ns: u64,
        targets: &mut [Target<'_>],
        counters: &mut [Counters],
        monitor: Option<&CpuMonitor>,
    ) -> bool {
        if !self.is_settling {
            return false;
        }
        self.swap_counters(counters);
        let cpu_used_ns = self.cpu_used_ns(monitor);
        if self.is_open {
            self.totals[self.target].settling_cpu_ns += cpu_used_ns;
        }
        self.waits = self.wait_monitor.read(self.target);
        self.is_settling = false;
        self.begin(now_ns, targets, counters);
        true
    }

    /// Exchanges the counters of the target for those of its settling requests, or back.
    fn swap_counters(&mut self, counters: &mut [Counters]) {
        mem::swap(&mut counters[self.target], &mut self.settling_counters[self.target]);
    }

    /// Adds a finished slice to its target's totals, and returns what follows for the window.
    pub(crate) fn end(
        &mut self,
        now_ns: u64,
        counters: &[Counters],
        monitor: Option<&CpuMonitor>,
    ) -> CycleEvent {
        let mut usage = SliceUsage { cpu_ns: self.cpu_used_ns(monitor), ..SliceUsage::default() };
        if self.is_open {
            self.wait_monitor.read(self.target).enter(self.waits, &mut usage);
            usage.began_ns = self.slice.began_ns - self.start_ns;
            // A slot may end some time after the last response.
            let last_ns = self.slice.ends_ns().max(counters[self.target].last_end_ns);
            let ended_ns = self.slot_ns.map_or(now_ns, |_| last_ns.min(now_ns));
            usage.duration_ns = ended_ns - self.slice.began_ns;
            usage.requests = counters[self.target].requests.saturating_sub(self.requests);
            let totals = &mut self.totals[self.target];
            totals.duration_ns += usage.duration_ns;
            totals.slices.push(usage);
            self.end_rotation(now_ns, monitor);
        }
        self.cycle_event(counters)
    }

    /// How long the slots of the window that have ended are together; `None` without slots.
    pub(crate) fn slots_ns(&self) -> Option<u64> {
        self.slot_ns.map(|slot_ns| (self.slices_begun - self.slices_before) * slot_ns)
    }

    /// Enters what each target used in the rotation, if this was the last slice of it, and begins the
    /// next one.
    fn end_rotation(&mut self, now_ns: u64, monitor: Option<&CpuMonitor>) {
        let targets = self.totals.len();
        if !(self.slices_begun - self.slices_before).is_multiple_of(targets as u64) {
            return;
        }
        let next = Rotation::begin(now_ns, targets, monitor, &mut self.wait_monitor);
        let ended = mem::replace(&mut self.rotation, next);
        let since = |now_ns: Option<u64>, then_ns: Option<u64>| now_ns?.checked_sub(then_ns?);
        let rotation_ns = now_ns - ended.began_ns;
        let mut foreign_ns = since(self.rotation.idle_ns, ended.idle_ns)
            .map(|idle_ns| (rotation_ns * self.wait_monitor.cores()).saturating_sub(idle_ns));
        for (target, totals) in self.totals.iter_mut().enumerate() {
            let Some(usage) = totals.slices.last_mut() else { continue };
            usage.rotation_ns = rotation_ns;
            usage.rotation_cpu_ns = since(self.rotation.cpu_ns[target], ended.cpu_ns[target]);
            foreign_ns = foreign_ns
                .zip(usage.rotation_cpu_ns)
                .map(|(busy_ns, cpu_ns)| busy_ns.saturating_sub(cpu_ns));
        }
        for usage in self.totals.iter_mut().filter_map(|totals| totals.slices.last_mut()) {
            usage.rotation_foreign_ns = foreign_ns;
        }
    }

    /// Opens what is read at the ends of slices, which takes a moment: before the window opens. Of targets
    /// that are not watched, as on another host, only the load generator's own waiting is read.
    pub(crate) fn watch_waits(&mut self, monitor: Option<&CpuMonitor>) {
        self.wait_monitor = monitor.map_or_else(WaitMonitor::default, WaitMonitor::open);
    }

    /// The window opens at `now_ns`: earlier settling counters are reset.
    pub(crate) fn open(&mut self, now_ns: u64, monitor: Option<&CpuMonitor>) {
        self.is_open = true;
        let targets = self.totals.len();
        self.rotation = Rotation::begin(now_ns, targets, monitor, &mut self.wait_monitor);
        self.slices_before = self.slices_begun;
        for counters in &mut self.settling_counters {
            *counters = Counters::new(counters.per_spec.len());
        }
    }

    /// Returns the totals; errors of settling requests are counted like any other.
    pub(crate) fn finish(mut self, counters: &mut [Counters]) -> Vec<SliceTotals> {
        if self.is_settling {
            self.swap_counters(counters);
        }
        for ((counters, settling_counters), totals) in
            counters.iter_mut().zip(&self.settling_counters).zip(&mut self.totals)
        {
            counters.errors.add(&settling_counters.errors);
            totals.settling_requests = settling_counters.requests;
        }
        self.totals
    }

    /// What follows for the window from the slice that has just ended.
    ///
    /// Half a cycle before the window is enough: the cycles of the window are palindromes whichever
    /// half they begin with (C B A, A B C).
    fn cycle_event(&self, counters: &[Counters]) -> CycleEvent {
        let half = counters.len() as u64;
        if self.is_open {
            let is_whole = (self.slices_begun - self.slices_before).is_multiple_of(2 * half);
            return if is_whole { CycleEvent::Close } else { CycleEvent::None };
        }
        if !self.slices_begun.is_multiple_of(half) {
            return CycleEvent::None;
        }
        let sent = counters
            .iter()
            .zip(&self.settling_counters)
            .map(|(counted, settling)| counted.sent + settling.sent);
        let is_warm = sent.min().is_none_or(|least| least >= self.warmup_requests);
        if is_warm { CycleEvent::Open } else { CycleEvent::None }
    }
}

impl Rotation {
    fn begin(
        began_ns: u64,
        targets: usize,
        monitor: Option<&CpuMonitor>,
        waits: &mut WaitMonitor,
    ) -> Self {
        let cpu_ns = |target| monitor.and_then(|monitor| monitor.cpu_ns(target));
        Self { began_ns, cpu_ns: (0..targets).map(cpu_ns).collect(), idle_ns: waits.idle_ns() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_a_palindrome() {
        let order = |targets| {
            (0..2 * targets as u64).map(move |slice| TimeSlicer::target_at(slice, targets))
        };
        assert!(order(3).eq([0, 1, 2, 2, 1, 0]));
        assert!(order(2).eq([0, 1, 1, 0]));
        assert!(order(1).eq([0, 0]));
        assert_eq!(TimeSlicer::target_at(6, 3), 0);
        let from_the_middle = (3..9).map(|slice| TimeSlicer::target_at(slice, 3));
        assert!(from_the_middle.eq([2, 1, 0, 0, 1, 2]));
    }

    #[test]
    fn a_slice_has_as_many_requests_as_fit_and_at_least_one() {
        assert_eq!(count_of(Rate::per_second(20_000), 100_000_000), 2_000);
        assert_eq!(count_of(Rate::per_second(1_000), 5_000_000), 5);
        assert_eq!(count_of(Rate::per_second(1), 1_000_000), 1);
    }
}
