use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

const GET: Attempt = Attempt {
    is_reused: false,
    received: Received::Nothing,
    is_repeatable: true,
    has_relayed: false,
    tries: 0,
    was_replaced: false,
    left_ns: SECOND,
};

fn decide(cause: Cause, attempt: Attempt) -> Retry {
    let budget = Budget::new(BudgetPolicy::default());
    RetryPolicy::default().decide(cause, &attempt, &budget, 0, &mut Random::new(1))
}

const POST: Attempt = Attempt { is_repeatable: false, ..GET };

#[test]
fn a_request_is_repeated_only_where_it_had_no_effect() {
    let other = Retry::Other { after_ns: 0 };
    for (cause, attempt, expected) in [
        (Cause::Reset, GET, other),
        (Cause::Reset, POST, Retry::No),
        (Cause::Connect, POST, other),
        (Cause::Connect, GET, other),
        (Cause::ClosingRace, GET, Retry::Fresh),
        (Cause::ClosingRace, Attempt { tries: 5, ..GET }, Retry::Fresh),
        (Cause::ClosingRace, Attempt { was_replaced: true, ..GET }, Retry::No),
        (Cause::ClosingRace, POST, Retry::No),
        (Cause::Timeout, GET, Retry::No),
        (Cause::Status, GET, other),
        (Cause::Status, POST, Retry::No),
        (Cause::Reset, Attempt { tries: 1, ..GET }, Retry::No),
        (Cause::Reset, Attempt { has_relayed: true, ..GET }, Retry::No),
        (Cause::Reset, Attempt { left_ns: 0, ..GET }, Retry::No),
    ] {
        assert_eq!(decide(cause, attempt), expected, "{cause:?} {attempt:?}");
    }
}

#[test]
fn later_retries_wait_by_chance_within_a_time_that_doubles() {
    let policy = RetryPolicy { tries_max: 9, ..RetryPolicy::default() };
    let budget = Budget::new(BudgetPolicy { percent: 0, per_second_min: 10_000 });
    let mut random = Random::new(1);
    for tries in 1..=3 {
        let attempt = Attempt { tries, ..GET };
        let waits: Vec<u64> = (0..1000)
            .map(|_| match policy.decide(Cause::Reset, &attempt, &budget, 0, &mut random) {
                Retry::Other { after_ns } => after_ns,
                other => panic!("{other:?}"),
            })
            .collect();
        let limit = 25_000_000 << tries;
        let most = *waits.iter().max().unwrap();
        assert!(most < limit && most > limit / 10 * 9, "{tries}: {most}");
        assert!(waits.iter().any(|wait| *wait < limit / 10));
    }
}

#[test]
fn an_outage_of_every_server_adds_a_fifth_of_the_load() {
    let budget = Budget::new(BudgetPolicy::default());
    let mut retries = 0;
    // 1,000 requests a second for 60 s, all of which fail.
    for request in 0..60_000_u64 {
        let now_ns = request * SECOND / 1000;
        budget.count_request(0, now_ns);
        retries += u64::from(budget.try_spend(now_ns));
    }
    assert_eq!(retries, 12_000);
}

#[test]
fn a_short_failure_is_repeated_whole() {
    let budget = Budget::new(BudgetPolicy::default());
    for request in 0..10_000_u64 {
        budget.count_request(usize::try_from(request % 5).unwrap(), request * SECOND / 1000);
    }
    // 2 s of 10 fail.
    assert!((0..2000).all(|_| budget.try_spend(10 * SECOND - 1)));
    assert!(!budget.try_spend(10 * SECOND - 1));
    // Long after, only the least.
    assert_eq!((0..100).filter(|_| budget.try_spend(100 * SECOND)).count(), 30);
}

#[test]
fn a_hedge_follows_the_95th_percentile_of_the_last_seconds() {
    let mut delay = HedgeDelay::new(HedgeAfter::Percentile(95), 0);
    assert_eq!(delay.delay_ns(), None);
    let ms = 1_000_000;
    for index in 1..=1000_u64 {
        delay.record((index % 100) * ms, 0);
    }
    assert!(delay.delay_ns().unwrap().abs_diff(94 * ms) <= 2 * ms);
    for index in 0..1000_u64 {
        delay.record(ms / 2, (6 + index / 100) * SECOND);
    }
    assert_eq!(delay.delay_ns(), Some(2 * ms));
    delay.record(ms, 100 * SECOND);
    assert_eq!(delay.delay_ns(), None);
    let mut fixed = HedgeDelay::new(HedgeAfter::Time(ms / 4), 0);
    fixed.record(SECOND, 0);
    assert_eq!(fixed.delay_ns(), Some(ms / 4));
}

proptest! {
    #[test]
    fn what_may_have_had_an_effect_or_an_answer_is_never_repeated(
        cause in proptest::sample::select(vec![
            Cause::Connect, Cause::ClosingRace, Cause::Reset, Cause::Timeout, Cause::Status,
        ]),
        flags in any::<[bool; 6]>(),
        (tries, left_ns) in (0..4_u32, 0..SECOND),
    ) {
        let [is_repeatable, has_relayed, was_replaced, on_timeout, on_reset, on_status] = flags;
        let attempt = Attempt { is_repeatable, has_relayed, tries, was_replaced, left_ns, ..GET };
        let policy =
            RetryPolicy { tries_max: 3, on_connect: true, on_reset, on_timeout, on_status };
        let budget = Budget::new(BudgetPolicy::default());
        let found = policy.decide(cause, &attempt, &budget, 0, &mut Random::new(left_ns));
        if !matches!(found, Retry::No) {
            prop_assert!(!has_relayed);
            prop_assert!(on_status || cause != Cause::Status);
            prop_assert!(is_repeatable || cause == Cause::Connect);
        }
        if let Retry::Other { after_ns } = found {
            prop_assert!(after_ns < left_ns);
        }
    }
}
