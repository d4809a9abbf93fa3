use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
const POLICY: RatePolicy = RatePolicy { requests: 100, every_ns: 1000 * MS, burst: 20 };

#[test]
fn a_burst_passes_and_then_the_rate() {
    let table = RateTable::new(RateTable::SLOTS);
    let passed = (0..100).filter(|_| table.check(1, POLICY, 0).is_ok()).count();
    assert_eq!(passed, 20);
    assert_eq!(table.check(1, POLICY, 0), Err(10 * MS));
    assert_eq!(table.check(1, POLICY, 4 * MS), Err(6 * MS));
    assert_eq!(table.check(2, POLICY, 0), Ok(()));
    let in_ten_seconds = (0..10_000).filter(|ms| table.check(1, POLICY, ms * MS).is_ok()).count();
    assert_eq!(in_ten_seconds, 999);
}

#[test]
fn a_full_table_forgets_the_key_that_used_least() {
    let table = RateTable::new(1);
    while table.check(1 << 50, POLICY, 0).is_ok() {}
    for key in 2..100 {
        assert_eq!(table.check(key << 50, POLICY, 0), Ok(()));
    }
    assert!(table.check(1 << 50, POLICY, 0).is_err());
}

#[test]
fn addresses_of_one_network_and_mapped_ones_have_one_key() {
    let key = |text: &str| address_key(text.parse().unwrap(), 7);
    assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
    assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
    assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    assert_ne!(key("192.0.2.1"), address_key("192.0.2.1".parse().unwrap(), 8));
}

#[test]
fn concurrent_threads_get_exactly_the_burst() {
    let table = RateTable::new(64);
    let passed: usize = std::thread::scope(|scope| {
        let count = || (0..1000).filter(|_| table.check(9 << 50, POLICY, 0).is_ok()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 20);
}

proptest! {
    #[test]
    fn the_rate_is_that_of_a_bucket_that_fills(
        steps in proptest::collection::vec((0..3_u64, 0..40_u64), 1..200),
    ) {
        let table = RateTable::new(64);
        let mut buckets: HashMap<u64, (u64, u64)> = HashMap::new();
        let mut now_ms = 0;
        for (key, wait_ms) in steps {
            now_ms += wait_ms;
            // In hundredths of a token: one for each 10 ms.
            let (tokens, at_ms) = buckets.entry(key).or_insert((2000, now_ms));
            *tokens = (*tokens + (now_ms - *at_ms) * 10).min(2000);
            *at_ms = now_ms;
            let permitted = *tokens >= 100;
            *tokens -= if permitted { 100 } else { 0 };
            prop_assert_eq!(table.check(key << 50, POLICY, now_ms * MS).is_ok(), permitted);
        }
    }

    #[test]
    fn no_key_has_more_under_way_than_it_may(
        steps in proptest::collection::vec((any::<bool>(), 0..6_u64), 0..200),
    ) {
        let table = ConcurrencyTable::new(8);
        let mut permits: Vec<(u64, Permit)> = Vec::new();
        for (begins, key) in steps {
            if begins {
                let under_way = permits.iter().filter(|(other, _)| *other == key).count();
                let permit = table.acquire((key + 1) << 20, 3);
                prop_assert_eq!(permit.is_ok(), under_way < 3);
                permits.extend(permit.map(|permit| (key, permit)));
            } else if let Some(place) = permits.iter().position(|(other, _)| *other == key) {
                permits.swap_remove(place);
            }
        }
    }
}

#[test]
fn a_key_without_a_slot_is_permitted() {
    let table = ConcurrencyTable::new(8);
    let held: Vec<Permit> = (1..=8).map(|key| table.acquire(key << 20, 1).unwrap()).collect();
    let uncounted = [table.acquire(9 << 20, 1), table.acquire(9 << 20, 1)];
    assert!(uncounted.iter().all(Result::is_ok));
    assert_eq!(table.acquire(3 << 20, 1).unwrap_err(), TooMany);
    drop(held);
    assert!(table.acquire(3 << 20, 1).is_ok());
}
