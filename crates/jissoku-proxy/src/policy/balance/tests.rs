use proptest::prelude::*;

use super::*;
use crate::policy::fleet::ServerSpec;
use crate::policy::health::{HealthPolicy, Outcome};
use crate::policy::random::hash;

fn fleet(weights: &[u32]) -> Fleet {
    limited(weights, 1_000_000)
}

fn limited(weights: &[u32], in_flight_max: u32) -> Fleet {
    let spec = |(index, weight): (usize, &u32)| ServerSpec {
        endpoint: format!("unix:/run/{index}"),
        weight: *weight,
        in_flight_max,
    };
    Fleet::new(weights.iter().enumerate().map(spec).collect(), HealthPolicy::default())
}

fn at(now_ns: u64) -> Selection<'static> {
    Selection { hash: 0, tried: &[], now_ns }
}

fn keyed(key: u64) -> Selection<'static> {
    Selection { hash: hash(&key.to_le_bytes()), ..at(0) }
}

/// Requests per server of `count` requests that end at once.
fn distribution(balance: Balance, fleet: &Fleet, count: u64) -> Vec<u64> {
    let mut chooser = Chooser::new(balance, 7);
    let mut counts = vec![0; fleet.servers().len()];
    for key in 0..count {
        counts[chooser.choose(fleet, keyed(key)).unwrap().index()] += 1;
    }
    counts
}

/// Requests per server of `count` requests that all stay.
fn filling(balance: Balance, fleet: &Fleet, count: u64) -> Vec<u32> {
    let mut chooser = Chooser::new(balance, 7);
    let leases: Vec<Lease> =
        (0..count).map(|key| chooser.choose(fleet, keyed(key)).unwrap()).collect();
    let counts = fleet.servers().iter().map(|server| server.state().in_flight()).collect();
    drop(leases);
    counts
}

const ALL: [Balance; 5] =
    [Balance::Least, Balance::TwoChoices, Balance::Ewma, Balance::RoundRobin, Balance::Hash];

#[test]
fn round_robin_is_smooth_and_exact() {
    let fleet = fleet(&[5, 1, 1]);
    let mut chooser = Chooser::new(Balance::RoundRobin, 3);
    let order: Vec<usize> =
        (0..70).map(|_| chooser.choose(&fleet, at(0)).unwrap().index()).collect();
    for seven in order.windows(7) {
        assert_eq!(
            [0, 1, 2].map(|server| seven.iter().filter(|at| **at == server).count()),
            [5, 1, 1]
        );
    }
    let mut first = [0; 7];
    for seed in 0..700 {
        let mut chooser = Chooser::new(Balance::RoundRobin, seed);
        first[chooser.choose(&fleet, at(0)).unwrap().index()] += 1;
    }
    assert!(first[0] > 400 && first[1] > 50 && first[2] > 50, "{first:?}");
}

#[test]
fn every_balance_gives_each_server_its_weight() {
    let fleet = fleet(&[1, 2, 3, 4]);
    for balance in [Balance::RoundRobin, Balance::Hash] {
        for (count, weight) in distribution(balance, &fleet, 20_000).iter().zip(1..) {
            assert!(count.abs_diff(weight * 2000) < 250, "{balance:?} {weight}: {count}");
        }
    }
    for (count, weight) in filling(Balance::Least, &fleet, 1000).iter().zip(1..) {
        assert!(count.abs_diff(weight * 100) <= 1, "{weight}: {count}");
    }
    for (count, weight) in filling(Balance::TwoChoices, &fleet, 1000).iter().zip(1..) {
        assert!(count.abs_diff(weight * 100) <= 8, "{weight}: {count}");
    }
}

#[test]
fn least_of_idle_servers_is_a_random_one() {
    for count in distribution(Balance::Least, &fleet(&[1; 10]), 20_000) {
        assert!(count.abs_diff(2000) < 250, "{count}");
    }
}

#[test]
fn two_choices_bring_the_fullest_close_to_the_mean() {
    // 100 servers, 1,000 requests: 10 each. One random choice would bring the fullest to about 19.
    let counts = filling(Balance::Least, &fleet(&[1; 100]), 1000);
    assert!(counts.iter().max() <= Some(&13), "{counts:?}");
}

#[test]
fn the_busier_one_of_two_servers_gets_nothing() {
    // Equal weights, and one that nearly every draw is of.
    for weights in [[1, 1], [1000, 1]] {
        for busy in 0..2 {
            let fleet = fleet(&weights);
            let held: Vec<Lease> =
                (0..2000).map(|_| fleet.acquire(busy, Admission::Serving, 0).unwrap()).collect();
            let counts = distribution(Balance::TwoChoices, &fleet, 10_000);
            assert_eq!(counts[1 - busy], 10_000, "{weights:?}, {busy}");
            drop(held);
        }
    }
}

#[test]
fn two_choices_compare_all_if_few_can_be_drawn() {
    let fleet = limited(&[1; 100], 10);
    let hold = |index: usize, count: usize| -> Vec<Lease> {
        (0..count).map(|_| fleet.acquire(index, Admission::Serving, 0).unwrap()).collect()
    };
    // 98 are full, and the better one of the others is always found.
    let held: Vec<Lease> =
        (0..100).flat_map(|index| hold(index, [10, 10, 9, 0][index.saturating_sub(96)])).collect();
    let counts = distribution(Balance::TwoChoices, &fleet, 1000);
    assert_eq!(counts[99], 1000, "{counts:?}");
    drop(held);
    let alone = distribution(Balance::TwoChoices, &limited(&[1], 1), 10);
    assert_eq!(alone, [10]);
}

#[test]
fn a_server_that_leaves_moves_its_own_keys_only() {
    for weights in [vec![1; 10], (1..=10).collect()] {
        let before = fleet(&weights);
        let spec = |index: usize| ServerSpec {
            endpoint: format!("unix:/run/{index}"),
            weight: weights[index],
            in_flight_max: 10,
        };
        // In another order, without server 4.
        let rest: Vec<usize> = (0..10).rev().filter(|index| *index != 4).collect();
        let after = Fleet::new(rest.iter().map(|i| spec(*i)).collect(), HealthPolicy::default());
        let mut chooser = Chooser::new(Balance::Hash, 0);
        let mut moved = vec![0_u32; 10];
        for key in 0..20_000 {
            let was = chooser.choose(&before, keyed(key)).unwrap().index();
            let is = rest[chooser.choose(&after, keyed(key)).unwrap().index()];
            if was == 4 {
                moved[is] += 1;
            } else {
                assert_eq!(was, is);
            }
        }
        let total: u32 = moved.iter().sum();
        for index in rest {
            let share = total * weights[index] / (weights.iter().sum::<u32>() - weights[4]);
            assert!(moved[index].abs_diff(share) < 60, "{weights:?} {moved:?}");
        }
    }
}

#[test]
fn one_popular_key_fills_no_server_beyond_its_bound() {
    let fleet = fleet(&[1; 8]);
    let mut chooser = Chooser::new(Balance::Hash, 0);
    let mut leases = Vec::new();
    for total in 1..=800_u32 {
        leases.push(chooser.choose(&fleet, keyed(1)).unwrap());
        let most = fleet.servers().iter().map(|server| server.state().in_flight()).max().unwrap();
        assert!(most <= (5 * total).div_ceil(4 * 8), "{most} of {total}");
    }
}

#[test]
fn a_dead_server_gets_three_requests_and_then_one_for_each_trial() {
    for balance in ALL {
        let fleet = fleet(&[1; 4]);
        let mut chooser = Chooser::new(balance, 5);
        let mut to_dead = 0;
        // 60 s with 100 requests a second; server 2 refuses connections.
        for step in 0..6000_u64 {
            let now_ns = step * 10_000_000;
            let lease = chooser.choose(&fleet, Selection { now_ns, ..keyed(step) }).unwrap();
            let is_dead = lease.index() == 2;
            to_dead += u32::from(is_dead);
            let outcome = if is_dead { Outcome::Refused } else { Outcome::Success };
            fleet.finish(lease, outcome, now_ns);
        }
        // Trials after 1, 2, 4, 8, 16 and 30 s.
        assert!((5..=3 + 6).contains(&to_dead), "{balance:?}: {to_dead}");
    }
}

#[test]
fn a_server_that_returns_gets_little_at_first() {
    let fleet = fleet(&[1, 1]);
    let state = fleet.servers()[0].state();
    state.set_probe(false, 1);
    state.set_probe(true, 1_000_000_000);
    let mut chooser = Chooser::new(Balance::RoundRobin, 1);
    let mut count = |now_ns: u64| {
        (0..1100).filter(|_| chooser.choose(&fleet, at(now_ns)).unwrap().index() == 0).count()
    };
    assert!(count(1_000_000_000).abs_diff(100) <= 2);
    assert!(count(11_000_000_000).abs_diff(550) <= 2);
}

#[test]
fn ejected_servers_are_used_when_no_other_is_left_but_not_refusing_ones() {
    for balance in ALL {
        let fleet = fleet(&[1, 1]);
        let mut chooser = Chooser::new(balance, 5);
        for _ in 0..3 {
            let lease = fleet.acquire(0, Admission::Serving, 0).unwrap();
            fleet.finish(lease, Outcome::Failure, 0);
        }
        fleet.servers()[1].state().set_probe(false, 0);
        let lease = chooser.choose(&fleet, at(1)).unwrap();
        assert_eq!(lease.index(), 0);
        fleet.finish(lease, Outcome::Success, 1);
        assert_eq!(fleet.servers()[0].state().admission(1), Admission::Serving);

        fleet.servers()[0].state().set_probe(false, 0);
        assert_eq!(chooser.choose(&fleet, at(1)).unwrap_err(), NoServer::Unavailable);
    }
}

#[test]
fn full_servers_are_full_and_not_down() {
    for balance in ALL {
        let fleet = limited(&[1, 3], 2);
        let mut chooser = Chooser::new(balance, 5);
        let leases: Vec<Lease> =
            (0..4).map(|key| chooser.choose(&fleet, keyed(key)).unwrap()).collect();
        assert_eq!(chooser.choose(&fleet, at(0)).unwrap_err(), NoServer::Full, "{balance:?}");
        drop(leases);
        let tried = Selection { tried: &[0, 1], ..at(0) };
        assert_eq!(chooser.choose(&fleet, tried).unwrap_err(), NoServer::Unavailable);
        assert_eq!(chooser.choose(&fleet, Selection { tried: &[1], ..at(0) }).unwrap().index(), 0);
    }
}

#[test]
fn threads_exceed_no_limit_and_get_one_trial() {
    for balance in ALL {
        let fleet = limited(&[1, 2, 3], 5);
        for _ in 0..3 {
            let lease = fleet.acquire(0, Admission::Serving, 0).unwrap();
            fleet.finish(lease, Outcome::Failure, 0);
        }
        // The trial of server 0 is due, the others serve.
        let now_ns = 1_000_000_000;
        let held: Vec<Lease> = std::thread::scope(|scope| {
            let fleet = &fleet;
            let fill = |seed: u64| {
                let mut chooser = Chooser::new(balance, seed);
                let choose = |key| chooser.choose(fleet, Selection { now_ns, ..keyed(key) }).ok();
                (0..20).filter_map(choose).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || fill(seed))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let in_flight = |index: usize| fleet.servers()[index].state().in_flight();
        let count = |index: usize| held.iter().filter(|lease| lease.index() == index).count();
        assert_eq!([count(0), count(1), count(2)], [1, 5, 5], "{balance:?}");
        drop(held);
        assert_eq!([0, 1, 2].map(in_flight), [0; 3]);
    }
}

proptest! {
    #[test]
    fn a_server_is_found_exactly_if_one_can_take_the_request(
        states in proptest::collection::vec((1..5_u32, 0..4_u8), 0..24),
        tried in proptest::collection::vec(0..24_usize, 0..4),
        (seed, key) in any::<(u64, u64)>(),
    ) {
        let weights: Vec<u32> = states.iter().map(|(weight, _)| *weight).collect();
        let fleet = limited(&weights, 1);
        let mut held = Vec::new();
        for (index, (_, state)) in states.iter().enumerate() {
            match state {
                1 => held.extend(fleet.acquire(index, Admission::Serving, 0)),
                2 => fleet.servers()[index].state().set_probe(false, 0),
                _ => {}
            }
        }
        let is_free = |index: usize| states[index].1 % 3 == 0 && !tried.contains(&index);
        let is_full = |index: usize| states[index].1 == 1 && !tried.contains(&index);
        for balance in ALL {
            let selection = Selection { tried: &tried, ..keyed(key) };
            match Chooser::new(balance, seed).choose(&fleet, selection) {
                Ok(lease) => prop_assert!(is_free(lease.index())),
                Err(error) => {
                    prop_assert!(!(0..states.len()).any(is_free));
                    let expected = if (0..states.len()).any(is_full) { NoServer::Full } else { NoServer::Unavailable };
                    prop_assert_eq!(error, expected);
                }
            }
        }
    }
}

const MS: u64 = 1_000_000;

/// Requests per server, of one each millisecond, from workers that take turns; counted from
/// `from_ms` to `until_ms`. A server takes as many milliseconds for a request as `latency_ms` says.
fn with_latencies(
    fleet: &Fleet,
    workers: u64,
    (from_ms, until_ms): (u64, u64),
    latency_ms: impl Fn(usize, u64) -> u64,
) -> Vec<u64> {
    let mut choosers: Vec<Chooser> =
        (0..workers).map(|seed| Chooser::new(Balance::Ewma, seed)).collect();
    let mut counts = vec![0; fleet.servers().len()];
    let mut under_way: Vec<(u64, u64, Lease)> = Vec::new();
    for ms in 0..until_ms {
        let ended: Vec<_> = under_way.extract_if(.., |(end_ms, _, _)| *end_ms <= ms).collect();
        for (end_ms, start_ms, lease) in ended {
            lease.record_latency((end_ms - start_ms) * MS, end_ms * MS);
            fleet.finish(lease, Outcome::Success, end_ms * MS);
        }
        let chooser = &mut choosers[usize::try_from(ms % workers).unwrap()];
        let lease = chooser.choose(fleet, at(ms * MS)).unwrap();
        counts[lease.index()] += u64::from(ms >= from_ms);
        under_way.push((ms + latency_ms(lease.index(), ms), ms, lease));
    }
    counts
}

#[test]
fn a_slow_server_gets_few_requests_of_all_workers() {
    for workers in [1, 4] {
        let slow_one = |server, _| if server == 0 { 100 } else { 2 };
        let counts = with_latencies(&fleet(&[1; 4]), workers, (0, 10_000), slow_one);
        assert!(counts[0] < 250, "{workers}: {counts:?}");
        assert!(counts[1..].iter().all(|count| *count > 2500), "{workers}: {counts:?}");
        let even = with_latencies(&fleet(&[1; 4]), workers, (0, 10_000), |_, _| 5);
        assert!(even.iter().all(|count| count.abs_diff(2500) < 500), "{workers}: {even:?}");
    }
}

#[test]
fn a_server_that_was_slow_gets_requests_again() {
    let latency_ms = |server, ms| if server == 0 && ms < 2000 { 20 } else { 2 };
    let fleet = fleet(&[1; 2]);
    let counts = with_latencies(&fleet, 2, (40_000, 60_000), latency_ms);
    assert!(counts.iter().all(|count| count.abs_diff(10_000) < 2000), "{counts:?}");
}

#[test]
fn a_server_of_which_nothing_is_known_is_asked_once_before_it_is_known() {
    let fleet = fleet(&[1; 2]);
    let mut chooser = Chooser::new(Balance::Ewma, 1);
    let mut choose = || chooser.choose(&fleet, at(0)).unwrap();
    let (first, second) = (choose(), choose());
    assert_ne!(first.index(), second.index());
    let (fast, slow) = (first.index(), second.index());
    first.record_latency(MS, 0);
    drop(first);
    for _ in 0..100 {
        let lease = choose();
        assert_eq!(lease.index(), fast);
        lease.record_latency(MS, 0);
    }
    second.record_latency(30 * MS, 0);
    drop(second);
    assert_eq!(choose().index(), fast);
    // Requests in flight count, too.
    let held: Vec<Lease> = (0..40).map(|_| choose()).collect();
    let of_slow = held.iter().filter(|lease| lease.index() == slow).count();
    assert!((1..=3).contains(&of_slow), "{of_slow}");
}
