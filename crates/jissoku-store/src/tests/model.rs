//! Random operations on the tables and on a map, at random times, have the same results.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::Folder;
use crate::environment;
use crate::error::Error;
use crate::options::{Durability, Options, WhenFull};
use crate::tables::{Key, Tables};

#[derive(Clone, Debug)]
enum Operation {
    Get(Vec<u8>),
    Put(Vec<u8>, Vec<u8>, u64),
    CompareAndSwap(Vec<u8>, Option<Vec<u8>>, Vec<u8>, u64),
    Increment(Vec<u8>, i64, u64),
    Delete(Vec<u8>),
    /// Several in one transaction.
    Change(Vec<(Vec<u8>, Option<Vec<u8>>)>, u64),
    Scan(Vec<u8>, Option<Vec<u8>>),
    Sweep(usize),
    Wait(u64),
}

/// Few keys, so that they meet; some are as long as keys can be.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let short = proptest::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(255)], 1..4);
    let long = (0..3_u8).prop_map(|last| [vec![b'l'; 499], vec![last]].concat());
    prop_oneof![9 => short, 1 => long]
}

/// Numbers, short texts, and values with pages of their own.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (-3_i64..3).prop_map(|number| number.to_string().into_bytes()),
        2 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => (0..20_000_usize).prop_map(|size| vec![b'v'; size]),
        1 => Just(i64::MAX.to_string().into_bytes()),
    ]
}

/// When an entry expires, counted from now; 0: never.
fn ttl() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..30_u64]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{Change, CompareAndSwap, Delete, Get, Increment, Put, Scan, Sweep, Wait};
    prop_oneof![
        2 => key().prop_map(Get),
        6 => (key(), value(), ttl()).prop_map(|(key, value, ttl)| Put(key, value, ttl)),
        3 => (key(), proptest::option::of(value()), value(), ttl())
            .prop_map(|(key, old, new, ttl)| CompareAndSwap(key, old, new, ttl)),
        3 => (key(), -3_i64..3, ttl()).prop_map(|(key, by, ttl)| Increment(key, by, ttl)),
        2 => key().prop_map(Delete),
        3 => (proptest::collection::vec((key(), proptest::option::of(value())), 0..8), ttl())
            .prop_map(|(entries, ttl)| Change(entries, ttl)),
        2 => (key(), proptest::option::of(key())).prop_map(|(key, after)| Scan(key, after)),
        1 => (0..4_usize).prop_map(Sweep),
        2 => (1..20_u64).prop_map(Wait),
    ]
}

/// The value of each key, and when it expires.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

fn alive<'m>(model: &'m Model, key: &[u8], now_ms: u64) -> Option<&'m (Vec<u8>, u64)> {
    model.get(key).filter(|(_, expires_ms)| *expires_ms == 0 || now_ms < *expires_ms)
}

fn expires(ttl: u64, now_ms: u64) -> u64 {
    if ttl == 0 { 0 } else { now_ms + ttl }
}

/// What an operation returns, as text.
fn in_model(model: &mut Model, now_ms: u64, operation: &Operation) -> String {
    match operation {
        Operation::Get(key) => format!("{:?}", alive(model, key, now_ms).map(|(value, _)| value)),
        Operation::Put(key, value, ttl) => {
            model.insert(key.clone(), (value.clone(), expires(*ttl, now_ms)));
            "()".to_owned()
        }
        Operation::CompareAndSwap(key, old, new, ttl) => {
            let found = alive(model, key, now_ms).map(|(value, _)| value.clone());
            let is_equal = found == *old;
            if is_equal {
                model.insert(key.clone(), (new.clone(), expires(*ttl, now_ms)));
            }
            format!("{is_equal:?}")
        }
        Operation::Increment(key, by, ttl) => {
            let (text, expires_ms) = alive(model, key, now_ms)
                .cloned()
                .unwrap_or_else(|| (b"0".to_vec(), expires(*ttl, now_ms)));
            let text = String::from_utf8(text).ok();
            let Some(number) = text.and_then(|text| text.parse::<i64>().ok()) else {
                return Error::NotANumber.to_string();
            };
            let Some(sum) = number.checked_add(*by) else { return Error::OutOfRange.to_string() };
            model.insert(key.clone(), (sum.to_string().into_bytes(), expires_ms));
            format!("{sum:?}")
        }
        Operation::Delete(key) => {
            let was_alive = alive(model, key, now_ms).is_some();
            model.remove(key);
            format!("{was_alive:?}")
        }
        Operation::Change(entries, ttl) => {
            for (key, value) in entries.clone() {
                match value {
                    Some(value) => drop(model.insert(key, (value, expires(*ttl, now_ms)))),
                    None => drop(model.remove(&key)),
                }
            }
            "()".to_owned()
        }
        Operation::Scan(prefix, after) => {
            let entries = model.keys().filter(|key| {
                key.starts_with(prefix)
                    && after.as_ref().is_none_or(|after| *key > after)
                    && alive(model, key, now_ms).is_some()
            });
            let entries = entries.map(|key| (key.clone(), model[key].0.clone()));
            format!("{:?}", entries.collect::<Vec<_>>())
        }
        Operation::Sweep(_) | Operation::Wait(_) => "()".to_owned(),
    }
}

fn shown<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.map_or_else(|error| error.to_string(), |found| format!("{found:?}"))
}

fn in_store(
    (environment, tables): (&environment::Environment, &Tables),
    now_ms: u64,
    operation: &Operation,
) -> String {
    let key = |key: &[u8]| Key::new(key).expect("it is valid");
    let mut txn = environment.write_txn().expect("a transaction");
    let result = match operation {
        Operation::Get(name) => {
            shown(tables.get(&txn, &key(name), now_ms).map(|value| value.map(<[u8]>::to_vec)))
        }
        Operation::Put(name, value, ttl) => {
            shown(tables.put(&mut txn, (&key(name), value), expires(*ttl, now_ms), now_ms))
        }
        Operation::CompareAndSwap(name, old, new, ttl) => {
            let times = (expires(*ttl, now_ms), now_ms);
            let (name, old) = (key(name), old.as_deref());
            shown(tables.compare_and_swap(&mut txn, (&name, old), new, times))
        }
        Operation::Increment(name, by, ttl) => {
            let expires_ms = expires(*ttl, now_ms);
            shown(tables.increment(&mut txn, (&key(name), *by), expires_ms, now_ms))
        }
        Operation::Delete(name) => shown(tables.delete(&mut txn, &key(name), now_ms)),
        Operation::Change(entries, ttl) => {
            let times = (expires(*ttl, now_ms), now_ms);
            let mut entries = entries.iter().map(|(key, value)| (&key[..], value.as_deref()));
            shown(entries.try_for_each(|entry| tables.change(&mut txn, entry, times)))
        }
        Operation::Scan(prefix, after) => {
            let mut found = Vec::new();
            let mut visit = |key: &[u8], value: &[u8]| {
                found.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            let range = (&prefix[..], after.as_deref());
            shown(tables.scan(&txn, range, now_ms, &mut visit).map(|()| found))
        }
        Operation::Sweep(count) => shown(tables.sweep(&mut txn, now_ms, *count).map(drop)),
        Operation::Wait(_) => "()".to_owned(),
    };
    txn.commit().expect("it fits");
    result
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_store_does_what_a_map_does(
        operations in proptest::collection::vec(operation(), 1..200),
        drops in any::<bool>(),
    ) {
        let folder = Folder::new();
        std::fs::create_dir_all(folder.path()).expect("a folder");
        let when_full = if drops { WhenFull::Drop } else { WhenFull::Refuse };
        let options = Options { when_full, durability: Durability::Memory, ..Options::DEFAULT };
        let environment =
            environment::open(folder.path(), options.size, options.durability).expect("it opens");
        let tables = Tables::open(&environment, &options, true).expect("it opens");
        let (mut model, mut now_ms) = (Model::new(), 1_000);
        for operation in &operations {
            if let Operation::Wait(ms) = operation {
                now_ms += ms;
            }
            let expected = in_model(&mut model, now_ms, operation);
            let found = in_store((&environment, &tables), now_ms, operation);
            prop_assert_eq!(found, expected, "{:?} at {}", operation, now_ms);
        }
        check_indexes((&environment, &tables), &model, now_ms);
        drop(environment);
        let damage = crate::page_check::damage_of(&folder.path().join("data.mdb"));
        prop_assert_eq!(damage.expect("it is readable"), None);
    }
}

/// Nothing is left when all entries have expired or are removed: no index has kept one.
fn check_indexes(
    (environment, tables): (&environment::Environment, &Tables),
    model: &Model,
    now_ms: u64,
) {
    let mut txn = environment.write_txn().expect("a transaction");
    for key in model.keys() {
        let key = Key::new(key).expect("it is valid");
        tables.delete(&mut txn, &key, now_ms).expect("it is writable");
    }
    assert_eq!(tables.len(&txn).expect("it is readable"), 0);
    // The records of the two indexes.
    let used = tables.used(&txn).expect("it is readable");
    assert_eq!(used, u64::from(environment.stat().page_size));
    txn.abort();
}
