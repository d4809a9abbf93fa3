//! Several writes in one transaction: all or none, whichever of them fails.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Folder, SMALL};
use crate::counts::Count;
use crate::{Change, Error, KEY_SIZE_MAX, Options, Store, Ttl, VALUE_SIZE_MAX, WhenFull};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A change that owns its bytes.
type Owned = (Vec<u8>, Option<Vec<u8>>);

/// Few keys, so that a batch writes some of them more than once.
fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0..3_u8, 1..3)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..20),
        (0..9_000_usize).prop_map(|size| vec![b'v'; size]),
    ]
}

fn batch() -> impl Strategy<Value = Vec<Owned>> {
    proptest::collection::vec((key(), proptest::option::weighted(0.7, value())), 0..40)
}

/// A change that fails, in a store of a mebibyte, and what its error says.
fn failing() -> impl Strategy<Value = (Owned, &'static str)> {
    prop_oneof![
        Just(((Vec::new(), Some(b"v".to_vec())), "and this one 0")),
        Just(((Vec::new(), None), "and this one 0")),
        Just(((vec![b'k'; KEY_SIZE_MAX + 1], Some(Vec::new())), "and this one 501")),
        Just(((b"k".to_vec(), Some(vec![0; VALUE_SIZE_MAX + 1])), "and this one 16777217")),
        Just(((b"k".to_vec(), Some(vec![0; 1 << 20])), "the store is full")),
    ]
}

fn put_many(store: &Store, batch: &[Owned]) -> Result<(), Error> {
    let changes = batch.iter().map(|(key, value)| (&key[..], value.as_deref()));
    store.put_many(&changes.collect::<Vec<Change<'_>>>(), Ttl::Default)
}

fn apply(map: &mut Map, batch: &[Owned]) {
    for (key, value) in batch.iter().cloned() {
        match value {
            Some(value) => drop(map.insert(key, value)),
            None => drop(map.remove(&key)),
        }
    }
}

fn all(store: &Store) -> Map {
    store.scan(b"", None, usize::MAX).expect("it is readable").into_iter().collect()
}

fn puts(store: &Store) -> u64 {
    store.counts()[Count::Puts as usize]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_is_written_as_a_whole_or_not_at_all(
        batches in proptest::collection::vec(batch(), 1..6),
        failing in failing(),
        place in any::<prop::sample::Index>(),
        drops in any::<bool>(),
    ) {
        let folder = Folder::new();
        let when_full = if drops { WhenFull::Drop } else { WhenFull::Refuse };
        let store = folder.open(Options { when_full, ..SMALL });
        let (mut map, mut count) = (Map::new(), 0);
        for batch in &batches {
            let (wrong, why) = failing.clone();
            let mut refused = batch.clone();
            let index = place.index(batch.len() + 1);
            refused.insert(index, wrong);
            let error = put_many(&store, &refused).expect_err("one of them fails").to_string();
            prop_assert!(error.starts_with(&format!("entries[{index}]: ")), "{}", error);
            prop_assert!(error.contains(why), "{}", error);
            prop_assert_eq!((all(&store), puts(&store)), (map.clone(), count));
            put_many(&store, batch).expect("all of them are valid");
            apply(&mut map, batch);
            count += batch.iter().filter(|(_, value)| value.is_some()).count() as u64;
            prop_assert_eq!((all(&store), puts(&store)), (map.clone(), count));
        }
    }
}

#[test]
fn a_batch_that_needs_more_than_the_store_drops_nothing() {
    for when_full in [WhenFull::Refuse, WhenFull::Drop] {
        let folder = Folder::new();
        let store = folder.open(Options { when_full, ..SMALL });
        store.put(b"old", b"1", Ttl::Default).expect("there is room");
        let batch = |count: u32| {
            let entry = |number: u32| (number.to_be_bytes().to_vec(), Some(vec![7; 1000]));
            (0..count).map(entry).collect::<Vec<_>>()
        };
        let error = put_many(&store, &batch(2000)).expect_err("two megabytes do not fit");
        let Error::Entry { index, error } = error else { panic!("{error}") };
        assert!((500..1100).contains(&index) && matches!(*error, Error::Full), "{index}: {error}");
        assert_eq!(all(&store), Map::from([(b"old".to_vec(), b"1".to_vec())]));
        put_many(&store, &batch(400)).expect("there is room");
        assert_eq!(store.stats().expect("it is readable").entries, 401);
    }
}

#[test]
fn a_batch_without_entries_is_no_transaction() {
    let folder = Folder::new();
    let store = folder.open(SMALL);
    let writes = || store.stats().expect("it is readable").writes;
    let before = writes();
    put_many(&store, &[]).expect("nothing fails");
    assert_eq!(writes(), before);
}
