use proptest::prelude::*;

use super::*;
use crate::policy::fleet::{Fleet, Lease, ServerSpec};
use crate::policy::random::Random;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn fleet(count: usize) -> Fleet {
    Fleet::new((0..count).map(spec).collect(), HealthPolicy::default())
}

fn spec(index: usize) -> ServerSpec {
    ServerSpec { endpoint: format!("10.0.0.{index}:80"), weight: 1, in_flight_max: 1000 }
}

/// One request to a server, with its result.
fn request(fleet: &Fleet, index: usize, outcome: Outcome, now_ns: u64) {
    let admission = fleet.servers()[index].state().admission(now_ns);
    let lease = fleet.acquire(index, admission, now_ns).unwrap();
    fleet.finish(lease, outcome, now_ns);
}

fn admission(fleet: &Fleet, index: usize, now_ns: u64) -> Admission {
    fleet.servers()[index].state().admission(now_ns)
}

#[test]
fn three_failures_in_a_row_eject_and_times_double_up_to_the_longest() {
    let fleet = fleet(2);
    let mut now = SECOND;
    for _ in 0..2 {
        request(&fleet, 0, Outcome::Failure, now);
        assert_eq!(admission(&fleet, 0, now), Admission::Serving);
    }
    let mut times = Vec::new();
    for _ in 0..7 {
        request(&fleet, 0, Outcome::Failure, now);
        let for_ns = fleet.servers()[0].state().passive().at_ms * MS - now;
        times.push(for_ns / SECOND);
        assert_eq!(admission(&fleet, 0, now + for_ns - MS), Admission::Ejected);
        now += for_ns;
        assert_eq!(admission(&fleet, 0, now), Admission::Trial);
    }
    assert_eq!(times, [1, 2, 4, 8, 16, 30, 30]);
    request(&fleet, 0, Outcome::Success, now);
    assert_eq!(admission(&fleet, 0, now), Admission::Serving);
}

#[test]
fn a_success_between_failures_begins_the_row_anew() {
    let fleet = fleet(2);
    for _ in 0..6 {
        request(&fleet, 0, Outcome::Failure, 0);
        request(&fleet, 0, Outcome::Failure, 0);
        request(&fleet, 0, Outcome::Success, 0);
        request(&fleet, 0, Outcome::Neutral, 0);
    }
    assert_eq!(admission(&fleet, 0, 0), Admission::Serving);
}

#[test]
fn half_of_twenty_requests_failing_ejects() {
    let fleet = fleet(2);
    for _ in 0..9 {
        request(&fleet, 0, Outcome::Failure, 0);
        request(&fleet, 0, Outcome::Success, 0);
    }
    request(&fleet, 0, Outcome::Success, 0);
    assert_eq!(admission(&fleet, 0, 0), Admission::Serving);
    request(&fleet, 0, Outcome::Failure, 0);
    assert_eq!(admission(&fleet, 0, 0), Admission::Ejected);
}

#[test]
fn one_request_only_is_the_trial_and_a_lost_one_frees_it() {
    let fleet = fleet(2);
    for _ in 0..3 {
        request(&fleet, 0, Outcome::Failure, 0);
    }
    let trial = fleet.acquire(0, Admission::Trial, SECOND).unwrap();
    assert!(fleet.acquire(0, Admission::Trial, SECOND).is_none());
    assert_eq!(fleet.servers()[0].state().in_flight(), 1);
    drop(trial);
    assert_eq!(fleet.servers()[0].state().in_flight(), 0);
    assert_eq!(admission(&fleet, 0, SECOND), Admission::Trial);
}

#[test]
fn an_answer_to_a_request_from_before_the_ejection_proves_nothing() {
    let fleet = fleet(2);
    let early = fleet.acquire(0, Admission::Serving, 0).unwrap();
    for _ in 0..3 {
        request(&fleet, 0, Outcome::Failure, 0);
    }
    fleet.finish(early, Outcome::Success, MS);
    assert_eq!(admission(&fleet, 0, MS), Admission::Ejected);
}

#[test]
fn at_most_half_of_the_servers_are_ejected() {
    for (count, most) in [(1, 0), (2, 1), (3, 1), (5, 2), (10, 5)] {
        let fleet = fleet(count);
        for index in 0..count {
            for _ in 0..5 {
                request(&fleet, index, Outcome::Failure, 0);
            }
        }
        let ejected = (0..count).filter(|i| admission(&fleet, *i, 0) != Admission::Serving);
        assert_eq!(ejected.count(), most, "of {count}");
    }
}

#[test]
fn a_passing_probe_ends_no_ejection_and_a_failing_one_excludes() {
    let fleet = fleet(2);
    for _ in 0..3 {
        request(&fleet, 0, Outcome::Failure, 0);
    }
    let state = fleet.servers()[0].state();
    state.set_probe(true, 0);
    assert_eq!(state.admission(0), Admission::Ejected);
    state.set_probe(false, 0);
    assert_eq!(state.admission(0), Admission::Never);
}

#[test]
fn the_weight_grows_from_a_tenth_after_a_return() {
    let fleet = fleet(2);
    let (state, policy) = (fleet.servers()[0].state(), fleet.policy());
    assert_eq!(state.weight_permille(0, policy), 1000);
    state.set_probe(false, SECOND);
    state.set_probe(true, 2 * SECOND);
    for (at_s, permille) in [(2, 100), (7, 550), (12, 1000), (13, 1000)] {
        assert_eq!(state.weight_permille(at_s * SECOND, policy), permille);
    }
}

#[test]
fn a_reload_keeps_health_and_requests_in_flight_by_endpoint() {
    let before = fleet(3);
    let running = before.acquire(2, Admission::Serving, 0).unwrap();
    for _ in 0..3 {
        request(&before, 0, Outcome::Failure, 0);
    }
    let specs = vec![spec(7), spec(0), spec(2)];
    let after = before.inheriting(specs, HealthPolicy::default(), SECOND / 2);
    assert_eq!(admission(&after, 1, SECOND / 2), Admission::Ejected);
    let fresh = after.servers()[0].state();
    assert_eq!(fresh.weight_permille(SECOND / 2, after.policy()), 100);
    assert_eq!(after.servers()[2].state().in_flight(), 1);
    after.finish(running, Outcome::Success, SECOND);
    assert_eq!(after.servers()[2].state().in_flight(), 0);
}

#[test]
fn probes_need_as_many_results_in_a_row_as_configured() {
    let policy = ProbePolicy::default();
    let mut probe = Probe::default();
    let mut observe = |passed: &[bool]| -> Vec<Option<bool>> {
        passed.iter().map(|passed| probe.observe(*passed, &policy)).collect()
    };
    assert_eq!(observe(&[false, false, true, false, false]), [None; 5]);
    assert_eq!(observe(&[false]), [Some(false)]);
    assert_eq!(observe(&[true, false, true]), [None; 3]);
    assert_eq!(observe(&[true]), [Some(true)]);
    let mut random = Random::new(1);
    for _ in 0..1000 {
        let next = Probe::next_ns(SECOND, &policy, &mut random);
        assert!((2_600..=3_400).contains(&(next / MS)));
    }
}

/// The same rules, with a value for everything.
#[derive(Debug, Default)]
struct Model {
    ejected_until_ms: Option<u64>,
    trial_until_ms: Option<u64>,
    returned_ms: u64,
    level: u32,
    refuses: bool,
    in_row: u32,
    results: Vec<(u64, bool)>,
}

impl Model {
    fn admission(&self, now_ms: u64) -> Admission {
        let until = match (self.ejected_until_ms, self.trial_until_ms) {
            (None, _) => return Admission::Serving,
            (Some(_), Some(trial)) => trial,
            (Some(ejected), None) => ejected,
        };
        match (until <= now_ms, self.refuses) {
            (true, _) => Admission::Trial,
            (false, true) => Admission::Never,
            (false, false) => Admission::Ejected,
        }
    }

    fn eject(&mut self, now_ms: u64, refuses: bool) {
        let stable = self.ejected_until_ms.is_none() && now_ms - self.returned_ms >= 30_000;
        self.level = if stable { 1 } else { self.level + 1 };
        let time = (1000 << (self.level - 1).min(20)).min(30_000);
        *self = Self {
            ejected_until_ms: Some(now_ms + time),
            returned_ms: self.returned_ms,
            level: self.level,
            refuses,
            ..Self::default()
        };
    }

    fn finish(&mut self, proves: bool, outcome: Outcome, now_ms: u64) {
        let failed = match outcome {
            Outcome::Neutral => return,
            Outcome::Success => false,
            Outcome::Failure | Outcome::Refused => true,
        };
        let refuses = outcome == Outcome::Refused;
        self.in_row = if failed { self.in_row + 1 } else { 0 };
        self.results.push((now_ms, failed));
        let window = self.results.iter().filter(|(at, _)| at / 10_000 == now_ms / 10_000);
        let (all, bad) =
            window.fold((0, 0), |(all, bad), (_, failed)| (all + 1, bad + u32::from(*failed)));
        let unhealthy = self.in_row >= 3 || (all >= 20 && bad * 2 >= all);
        match (self.ejected_until_ms, failed) {
            (None, true) if unhealthy => self.eject(now_ms, refuses),
            (Some(_), true) if proves && self.trial_until_ms.is_some() => {
                self.eject(now_ms, refuses);
            }
            (Some(_), false) if proves => {
                *self = Self { returned_ms: now_ms, level: self.level, ..Self::default() };
            }
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Start,
    Finish(usize, Outcome),
    Drop(usize),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let outcome = prop_oneof![
        2 => Just(Outcome::Success),
        3 => Just(Outcome::Failure),
        1 => Just(Outcome::Refused),
        1 => Just(Outcome::Neutral),
    ];
    prop_oneof![
        5 => Just(Event::Start),
        5 => (0..8_usize, outcome).prop_map(|(which, outcome)| Event::Finish(which, outcome)),
        1 => (0..8_usize).prop_map(Event::Drop),
        2 => (0..4_000_u64).prop_map(Event::Wait),
        1 => (20_000..60_000_u64).prop_map(Event::Wait),
    ]
}

proptest! {
    #[test]
    fn any_order_of_events_leads_where_the_model_leads(
        events in proptest::collection::vec(event(), 0..300),
    ) {
        let fleet = fleet(2);
        let state = fleet.servers()[0].state();
        let mut model = Model::default();
        let mut running: Vec<(Lease, bool, bool)> = Vec::new();
        let mut now_ms = 0;
        for event in events {
            match event {
                Event::Wait(ms) => now_ms += ms,
                Event::Start => {
                    let as_a = model.admission(now_ms);
                    if as_a != Admission::Never {
                        let lease = fleet.acquire(0, as_a, now_ms * MS);
                        prop_assert!(lease.is_some());
                        let is_trial = as_a == Admission::Trial;
                        if is_trial {
                            model.trial_until_ms = Some(now_ms + 30_000);
                        }
                        running.extend(lease.map(|it| (it, as_a != Admission::Serving, is_trial)));
                    }
                }
                Event::Finish(which, outcome) if which < running.len() => {
                    let (lease, proves, is_trial) = running.swap_remove(which);
                    fleet.finish(lease, outcome, now_ms * MS);
                    model.finish(proves, outcome, now_ms);
                    if outcome == Outcome::Neutral && is_trial && model.trial_until_ms.is_some() {
                        model.ejected_until_ms = Some(0);
                        model.trial_until_ms = None;
                    }
                }
                Event::Drop(which) if which < running.len() => {
                    let (_, _, is_trial) = running.swap_remove(which);
                    if is_trial && model.trial_until_ms.is_some() {
                        model.ejected_until_ms = Some(0);
                        model.trial_until_ms = None;
                    }
                }
                Event::Finish(..) | Event::Drop(_) => {}
            }
            prop_assert_eq!(state.admission(now_ms * MS), model.admission(now_ms));
            prop_assert_eq!(state.in_flight() as usize, running.len());
        }
    }

    #[test]
    fn the_words_keep_what_is_packed(word in any::<u64>(), failed in any::<bool>(), now in any::<u64>()) {
        let passive = Passive::unpack(word);
        prop_assert_eq!(Passive::unpack(passive.pack()), passive);
        let counted = window::Window::unpack(word).counted(failed, now);
        prop_assert_eq!(window::Window::unpack(counted.pack()), counted);
    }
}
