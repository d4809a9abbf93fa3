//! Insertion and eviction within the memory budget.

use jissoku_http::response::StaticResponse;
use proptest::prelude::*;

use super::*;
use crate::files::entry::EntryKind;

/// An entry that costs a little more than `size`.
fn entry(size: usize) -> Arc<CacheEntry> {
    let what = EntryKind::Forbidden(StaticResponse::new("", &vec![0; size]));
    Arc::new(CacheEntry::new(what, Vec::new(), true, 0))
}

fn keep(store: &SharedCache, name: &str, size: usize) {
    store.keep(name.as_bytes(), entry(size), None);
}

/// Whether it is cached, without marking it as referenced.
fn has(store: &SharedCache, name: &str) -> bool {
    store.lock().places.contains_key(name.as_bytes())
}

#[test]
fn referenced_entries_stay_and_unreferenced_ones_are_evicted() {
    let store = SharedCache::new(20_000);
    keep(&store, "favourite", 1000);
    for number in 0..1000 {
        assert!(store.find(b"favourite").is_some(), "after {number} others");
        keep(&store, &format!("once {number}"), 1000);
    }
    assert!(has(&store, "once 999") && !has(&store, "once 0"));
}

#[test]
fn an_entry_larger_than_the_budget_is_not_cached() {
    let store = SharedCache::new(20_000);
    keep(&store, "small", 1000);
    keep(&store, "large", 20_000);
    assert!(has(&store, "small") && !has(&store, "large"));
}

#[test]
fn one_entry_is_evicted_if_all_are_referenced() {
    let store = SharedCache::new(8_000);
    for name in ["a", "b", "c", "d"] {
        keep(&store, name, 800);
        assert!(store.find(name.as_bytes()).is_some());
    }
    keep(&store, "e", 800);
    assert!(has(&store, "e"));
}

#[test]
fn the_number_of_names_is_limited() {
    let store = SharedCache::new(u64::MAX);
    for number in 0..=ENTRIES_MAX {
        keep(&store, &number.to_string(), 0);
    }
    assert_eq!(store.lock().slots.len(), ENTRIES_MAX);
}

#[test]
fn of_two_concurrent_lookups_the_first_result_is_cached() {
    let store = SharedCache::new(20_000);
    let [old, one, other] = [0; 3].map(entry);
    assert!(Arc::ptr_eq(&store.keep(b"a", Arc::clone(&old), None).0, &old));
    assert!(Arc::ptr_eq(&store.keep(b"a", Arc::clone(&one), Some(&old)).0, &one));
    assert!(Arc::ptr_eq(&store.keep(b"a", other, Some(&old)).0, &one));
    assert!(Arc::ptr_eq(&store.keep(b"a", entry(0), None).0, &one));
}

proptest! {
    #[test]
    fn the_budget_is_kept_and_every_name_has_its_entry(
        steps in prop::collection::vec((0..30_usize, 0..4000_usize, any::<bool>()), 1..200),
    ) {
        let store = SharedCache::new(16_000);
        for (number, size, is_asked) in steps {
            let name = format!("name {number}");
            if is_asked {
                store.find(name.as_bytes());
            } else {
                let seen = store.find(name.as_bytes());
                store.keep(name.as_bytes(), entry(size), seen.as_ref());
            }
            let entries = store.lock();
            let weight: u64 = entries.slots.iter().map(|slot| slot.weight).sum();
            prop_assert_eq!(weight, entries.weight);
            prop_assert!(weight <= entries.weight_max);
            prop_assert_eq!(entries.places.len(), entries.slots.len());
            for (place, slot) in entries.slots.iter().enumerate() {
                prop_assert_eq!(entries.places.get(&slot.name), Some(&place));
            }
        }
    }
}
