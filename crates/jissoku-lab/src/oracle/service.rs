//! Due times: a function of arrivals and a seed, without a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::oracle::delay::{Delay, Rng};
use crate::oracle::departure_slots::DepartureSlots;
use crate::oracle::scenario::{Freeze, Scenario};

/// The due time of a response that is never sent.
pub(crate) const NEVER: u64 = u64::MAX;

/// Computes due times, in the order of arrivals.
#[derive(Debug)]
pub(crate) struct Service {
    delay: Delay,
    rng: Rng,
    /// When each simulated worker is free again; `None` for any number of workers.
    workers: Option<BinaryHeap<Reverse<u64>>>,
    freezes: Vec<Freeze>,
    /// Arrival of the first request; freezes are counted from it.
    origin: Option<u64>,
    drain_gap_ns: u64,
    /// When the next response may be sent while a freeze's backlog is drained.
    drained_until: u64,
    departure_slots: DepartureSlots,
    count: u64,
}

impl Service {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let idle = |count| std::iter::repeat_n(Reverse(0), count).collect();
        Self {
            delay: scenario.delay,
            rng: Rng::new(scenario.seed),
            workers: scenario.workers.map(idle),
            freezes: scenario.freezes.clone(),
            origin: None,
            drain_gap_ns: 1_000_000_000 / scenario.drain_rps.max(1),
            drained_until: 0,
            departure_slots: DepartureSlots::new(scenario.apart_ns),
            count: 0,
        }
    }

    /// The due time of a request that has arrived now and whose work cannot start before `ready`.
    pub(crate) fn due(&mut self, arrival: u64, ready: u64) -> u64 {
        let origin = *self.origin.get_or_insert(arrival);
        let time = self.delay.draw(&mut self.rng, self.count);
        self.count += 1;
        let mut start = arrival.max(ready);
        if let Some(workers) = &mut self.workers {
            let Reverse(free) = workers.pop().unwrap_or(Reverse(0));
            start = start.max(free);
            workers.push(Reverse(start.saturating_add(time)));
        }
        let natural = start.saturating_add(time);
        match self.defer_past_freeze(natural, origin) {
            NEVER => NEVER,
            due => self.departure_slots.reserve(due, arrival),
        }
    }

    /// Defers a response that would fall into a freeze, or into the draining after it.
    fn defer_past_freeze(&mut self, natural: u64, origin: u64) -> u64 {
        let mut due = natural;
        for freeze in &self.freezes {
            let start = origin.saturating_add(freeze.start_ns);
            let end = freeze.duration_ns.map_or(NEVER, |duration| start.saturating_add(duration));
            if (start..end).contains(&due) {
                due = end;
            }
        }
        if due == NEVER {
            return NEVER;
        }
        if due > natural || due < self.drained_until {
            due = due.max(self.drained_until);
            self.drained_until = due + self.drain_gap_ns;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(change: impl FnOnce(&mut Scenario)) -> Service {
        let delay = Delay::Constant(10);
        let mut scenario = Scenario { delay, apart_ns: 0, ..Scenario::default() };
        change(&mut scenario);
        Service::new(&scenario)
    }

    #[test]
    fn delays_do_not_depend_on_the_load() {
        let mut service = service(|_| {});
        assert!((0..100).all(|_| service.due(5, 0) == 15));
    }

    #[test]
    fn workers_limit_concurrency() {
        let mut service = service(|scenario| scenario.workers = Some(2));
        let due: Vec<u64> = (0..5).map(|_| service.due(0, 0)).collect();
        assert_eq!(due, [10, 10, 20, 20, 30]);
        assert_eq!(service.due(1000, 0), 1010);
    }

    #[test]
    fn the_backlog_of_a_freeze_is_drained_at_the_given_rate() {
        let mut service = service(|scenario| {
            scenario.freezes = vec![Freeze { start_ns: 100, duration_ns: Some(1000) }];
            scenario.drain_rps = 50_000_000;
        });
        let arrivals = [0, 95, 200, 1095, 1140, 1200];
        let due: Vec<u64> = arrivals.iter().map(|&arrival| service.due(arrival, 0)).collect();
        assert_eq!(due, [10, 1100, 1120, 1140, 1160, 1210]);
    }

    #[test]
    fn a_freeze_without_end_sends_nothing() {
        let mut service = service(|scenario| {
            scenario.freezes = vec![Freeze { start_ns: 100, duration_ns: None }];
        });
        assert_eq!([service.due(7, 0), service.due(108, 0)], [17, NEVER]);
    }

    #[test]
    fn work_on_one_connection_can_be_one_after_the_other() {
        let mut service = service(|_| {});
        assert_eq!(service.due(5, 100), 110);
    }
}
