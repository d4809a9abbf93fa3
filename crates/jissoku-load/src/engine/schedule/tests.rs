use super::*;
use crate::plan::trace::Trace;

const OFFER: RateProfile = RateProfile {
    origin_ns: 1_000,
    flat_ns: 0,
    from: Rate::per_second(1_000),
    to: Rate::per_second(1_000),
    ramp_ns: 0,
};

const ONE: ConstantSchedule = ConstantSchedule {
    profile: OFFER,
    target: 0,
    targets: 1,
    thread: 0,
    threads: 1,
    seed: 7,
    taken: 0,
};

#[test]
fn one_target_is_evenly_spaced_and_never_drifts() {
    for index in [0, 1, 2, 1_000_000_007] {
        assert_eq!(ONE.due_ns(index), 1_000 + index * 1_000_000);
    }
    let thirds = ConstantSchedule {
        profile: RateProfile { from: Rate::per_second(3), to: Rate::per_second(3), ..OFFER },
        ..ONE
    };
    assert_eq!(thirds.due_ns(3_000_000), 1_000 + 1_000_000 * 1_000_000_000);
}

#[test]
fn threads_share_one_schedule() {
    let of = |thread, index| ConstantSchedule { thread, threads: 3, ..ONE }.due_ns(index);
    let mut due: Vec<u64> = (0..3).flat_map(|thread| [of(thread, 0), of(thread, 1)]).collect();
    due.sort_unstable();
    assert_eq!(due, (0..6).map(|index| ONE.due_ns(index)).collect::<Vec<_>>());
}

#[test]
fn every_round_contains_each_target_once_in_random_order() {
    for targets in 1..6 {
        let mut firsts = vec![0_u32; targets];
        for round in 0..6_000_u64 {
            let mut places: Vec<usize> = (0..targets)
                .map(|target| ConstantSchedule { target, targets, ..ONE }.place(round))
                .collect();
            firsts[places.iter().position(|&place| place == 0).expect("one is first")] += 1;
            places.sort_unstable();
            assert_eq!(places, (0..targets).collect::<Vec<_>>());
        }
        let fair = 6_000 / u32::try_from(targets).expect("few targets");
        assert!(firsts.iter().all(|first| first.abs_diff(fair) < 300), "{firsts:?}");
    }
}

#[test]
fn two_targets_together_are_evenly_spaced() {
    let of = |target, index| ConstantSchedule { target, targets: 2, ..ONE }.due_ns(index);
    let mut due: Vec<u64> = (0..50).flat_map(|index| [of(0, index), of(1, index)]).collect();
    due.sort_unstable();
    assert!(due.windows(2).all(|pair| pair[1] - pair[0] == 500_000));
}

#[test]
fn the_seed_decides_the_order() {
    let order = |seed| {
        (0..64)
            .map(|round| ConstantSchedule { targets: 2, seed, ..ONE }.place(round))
            .collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn a_ramp_is_the_integral_of_its_rate() {
    // One second at 100/s, then from 100/s to 300/s in two seconds: 100 and 400 requests.
    let profile = RateProfile {
        origin_ns: 0,
        flat_ns: 1_000_000_000,
        from: Rate::per_second(100),
        to: Rate::per_second(300),
        ramp_ns: 2_000_000_000,
    };
    let ramp = ConstantSchedule { profile, ..ONE };
    // Half-way through the ramp 100 * 1 + 150 * 1 are due.
    for (index, wanted_ns) in
        [(50, 500_000_000), (100, 1_000_000_000), (250, 2_000_000_000), (500, 3_000_000_000)]
    {
        assert!(ramp.due_ns(index).abs_diff(wanted_ns) < 10, "{index}");
    }
    assert!(ramp.due_ns(800).abs_diff(4_000_000_000) < 10);
    let down = ConstantSchedule {
        profile: RateProfile { from: Rate::per_second(300), to: Rate::per_second(100), ..profile },
        ..ONE
    };
    assert!(down.due_ns(300 + 400).abs_diff(3_000_000_000) < 10);
    assert!((0..900).all(|index| down.due_ns(index) < down.due_ns(index + 1)));
}

#[test]
fn every_overdue_request_is_reported_once() {
    let poisson = Schedule::Poisson(PoissonSchedule::new(OFFER, &ONE));
    let text = (0..500).map(|at| format!("0.{at:03}\n")).collect::<Vec<_>>().concat();
    let trace = Trace::read("arrivals", text.as_bytes()).expect("it makes sense");
    let replayed = Schedule::Trace(trace.share(1_000, 0, 1));
    for schedule in [Schedule::Constant(ONE), poisson, replayed] {
        let mut ahead = schedule;
        let due: Vec<u64> = (0..500).map(|_| ahead.pop()).collect();
        assert!(due.is_sorted());
        let mut reported = Vec::new();
        schedule.for_each_due(due[299], 1_000, |due_ns, count| {
            reported.extend([due_ns].repeat(usize::try_from(count).expect("few")));
        });
        assert_eq!(reported, due[..300]);
        let mut few = 0;
        schedule.for_each_due(due[299], 7, |_, count| few += count);
        assert_eq!(few, 7);
    }
}

#[test]
fn very_many_overdue_requests_are_reported_in_groups() {
    let fast = ConstantSchedule {
        profile: RateProfile {
            from: Rate::per_second(1_000_000_000),
            to: Rate::per_second(1_000_000_000),
            ..OFFER
        },
        ..ONE
    };
    let (mut calls, mut count) = (0_u64, 0);
    Schedule::Constant(fast).for_each_due(10_000_001_000, u64::MAX, |_, alike| {
        calls += 1;
        count += alike;
    });
    assert_eq!(count, 10_000_000_001);
    assert!(calls <= DUE_EXACT_MAX);
}

#[test]
fn drawn_gaps_are_exponential_and_threads_add_up() {
    let of = |thread| {
        let mut poisson =
            PoissonSchedule::new(OFFER, &ConstantSchedule { thread, threads: 2, ..ONE });
        (0..50_000).map(move |_| poisson.pop())
    };
    let mut due: Vec<u64> = of(0).chain(of(1)).collect();
    due.sort_unstable();
    let due = &due[..90_000];
    let gaps: Vec<f64> = due.windows(2).map(|pair| float(pair[1] - pair[0])).collect();
    let mean = gaps.iter().sum::<f64>() / float(gaps.len() as u64);
    let variance =
        gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / float(gaps.len() as u64);
    assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
    let pairs = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
    let together = pairs.sum::<f64>() / float(gaps.len() as u64) / variance;
    assert!(together.abs() < 0.02, "one gap says nothing about the next: {together}");
}

#[test]
fn requests_of_a_slice_are_evenly_spaced() {
    let mut slice =
        SliceSchedule { began_ns: 7, rate: Rate::per_second(1_000), count: 3, taken: 0 };
    let due_ns: Vec<u64> = (0..5).map(|_| slice.pop()).collect();
    assert_eq!(due_ns, [7, 1_000_007, 2_000_007, u64::MAX, u64::MAX]);
    assert_eq!(slice.ends_ns(), 3_000_007);
}

#[test]
fn a_rate_may_be_a_fraction() {
    let every_three_s = Rate::new(2, 6_000_000_000);
    let profile = RateProfile { from: every_three_s, to: every_three_s, ..OFFER };
    let rare = ConstantSchedule { profile, ..ONE };
    for index in [0, 1, 1_000_001] {
        assert_eq!(rare.due_ns(index), 1_000 + index * 3_000_000_000);
    }
    let per_hour = Rate::new(7, 3_600_000_000_000);
    assert_eq!(per_hour.time_ns(7_000_000, 1), 3_600_000_000_000 * 1_000_000);
}
