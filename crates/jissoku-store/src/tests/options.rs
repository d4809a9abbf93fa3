//! Sizes, times to live, and stores that are opened more than once.

use std::time::Duration;

use super::{Folder, SMALL};
use crate::{
    Change, Durability, Error, KEY_SIZE_MAX, Options, Store, Ttl, VALUE_SIZE_MAX, WhenFull,
};

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    let folder = Folder::new();
    let store = folder.open(SMALL);
    let value = [7; 1000];
    let count = (0..10_000_u32)
        .take_while(|number| match store.put(&number.to_be_bytes(), &value, Ttl::Default) {
            Ok(()) => true,
            Err(error) => {
                assert!(matches!(error, Error::Full), "{error}");
                false
            }
        })
        .count();
    assert!((500..1100).contains(&count), "{count} entries of 1 KiB in 1 MiB");
    let stats = store.stats().expect("it is readable");
    assert!(stats.used_bytes <= SMALL.size && stats.entries == count as u64, "{stats:?}");
    assert_eq!(store.get(&0_u32.to_be_bytes()).expect("it is readable"), Some(value.to_vec()));
    // What does not grow is written, and what is removed makes room.
    store.put(&0_u32.to_be_bytes(), &[8; 1000], Ttl::Default).expect("it does not grow");
    for number in 0..10_u32 {
        assert!(store.delete(&number.to_be_bytes()).expect("it is writable"));
    }
    store.put(b"another", &value, Ttl::Default).expect("there is room again");
}

#[test]
fn a_full_store_drops_what_was_written_least_recently() {
    let folder = Folder::new();
    let store = folder.open(Options { when_full: WhenFull::Drop, ..SMALL });
    for number in 0..5000_u32 {
        store.put(&number.to_be_bytes(), &[7; 1000], Ttl::Default).expect("room is made");
        // Is written again and again, and so is never among the oldest.
        store.put(b"kept", &number.to_be_bytes(), Ttl::Default).expect("room is made");
    }
    let stats = store.stats().expect("it is readable");
    assert!(stats.used_bytes <= SMALL.size, "{stats:?}");
    let kept: Vec<_> = store.scan(b"\0", None, 10_000).expect("it is readable");
    let first = 5000 - u32::try_from(kept.len()).expect("they are few");
    let expected = (first..5000).map(|number| number.to_be_bytes().to_vec());
    assert!(kept.len() > 400, "{}", kept.len());
    assert_eq!(
        kept.into_iter().map(|(key, _)| key).collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
    let last = store.get(b"kept").expect("it is readable");
    assert_eq!(last, Some(4999_u32.to_be_bytes().to_vec()));
    // A value that needs the whole store is refused, and nothing is dropped for it.
    let refused = store.put(b"whole", &vec![0; 1 << 20], Ttl::Default);
    assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    assert_eq!(store.stats().expect("it is readable").entries, stats.entries);
}

#[test]
fn large_values_fit_up_to_their_limit() {
    let folder = Folder::new();
    let store = folder.open(Options { size: 64 << 20, when_full: WhenFull::Drop, ..SMALL });
    let value = b"0123456789abcdef".repeat(VALUE_SIZE_MAX / 16);
    for number in 0..12_u8 {
        store.put(&[number], &value, Ttl::Default).expect("room is made");
    }
    assert_eq!(store.get(&[11]).expect("it is readable"), Some(value));
    let entries = store.stats().expect("it is readable").entries;
    assert_eq!(entries, 3, "of 16 MiB and a page in 64 MiB");
    let long = vec![0; VALUE_SIZE_MAX + 1];
    assert!(matches!(store.put(b"a", &long, Ttl::Default), Err(Error::ValueSize(_))));
}

#[test]
fn keys_have_one_to_five_hundred_bytes() {
    let folder = Folder::new();
    let store = folder.open(Options { when_full: WhenFull::Drop, ..SMALL });
    let longest = [b'k'; KEY_SIZE_MAX];
    store.put(&longest, b"value", Ttl::Ms(60_000)).expect("it is valid");
    assert_eq!(store.get(&longest).expect("it is readable"), Some(b"value".to_vec()));
    for key in [&b""[..], &[b'k'; KEY_SIZE_MAX + 1]] {
        let refused = store.put(key, b"value", Ttl::Default).expect_err("it is invalid");
        assert!(refused.is_bad_input() && store.get(key).is_err(), "{refused}");
    }
}

#[test]
fn entries_expire_on_reading_and_are_swept() {
    let folder = Folder::new();
    let store = folder.open(Options { ttl_ms: Some(3_600_000), ..SMALL });
    store.put(b"default", b"1", Ttl::Default).expect("there is room");
    store.put(b"never", b"1", Ttl::Never).expect("there is room");
    for number in 0..100_u8 {
        store.put(&[b'e', number], b"1", Ttl::Ms(0)).expect("there is room");
        assert_eq!(store.get(&[b'e', number]).expect("it is readable"), None);
    }
    assert_eq!(store.scan(b"e", None, 1000).expect("it is readable"), []);
    assert!(store.put_if_absent(b"e\x63", b"2", Ttl::Ms(0)).expect("it has expired"));
    // Writes sweep, too, so that few are left.
    store.sweep().expect("it is writable");
    assert_eq!(store.stats().expect("it is readable").entries, 2);
    assert_eq!(store.sweep().expect("it is writable"), 0);
}

#[test]
fn a_process_has_a_store_open_once() {
    let folder = Folder::new();
    let store = folder.open(SMALL);
    store.put(b"key", b"value", Ttl::Default).expect("there is room");
    let other = Store::open(folder.path(), "shop", None).expect("it exists");
    assert_eq!(other.get(b"key").expect("it is readable"), Some(b"value".to_vec()));
    let larger = Options { size: SMALL.size * 2, ..SMALL };
    let refused = Store::open(folder.path(), "shop", Some(&larger)).expect_err("it differs");
    assert!(refused.is_bad_input(), "{refused}");
    drop((store, other));
    assert_eq!(folder.open(larger).options(), larger);
}

#[test]
fn the_time_to_live_may_change_while_a_store_is_open() {
    let folder = Folder::new();
    let store = folder.open(SMALL);
    let changed = folder.open(Options { ttl_ms: Some(5), ..SMALL });
    assert_eq!((store.options().ttl_ms, changed.options().ttl_ms), (None, Some(5)));
    drop((store, changed));
    let later = Store::open(folder.path(), "shop", None).expect("it exists");
    assert_eq!(later.options().ttl_ms, Some(5));
}

#[test]
fn a_store_can_be_opened_with_another_policy() {
    let folder = Folder::new();
    let store = folder.open(SMALL);
    for number in 0..500_u32 {
        store.put(&number.to_be_bytes(), &[7; 1000], Ttl::Default).expect("there is room");
    }
    drop(store);
    let store = folder.open(Options { when_full: WhenFull::Drop, ..SMALL });
    for number in 500..2000_u32 {
        store.put(&number.to_be_bytes(), &[7; 1000], Ttl::Default).expect("room is made");
    }
    assert_eq!(store.get(&0_u32.to_be_bytes()).expect("it is readable"), None);
    drop(store);
    let store = folder.open(SMALL);
    store.put(&1999_u32.to_be_bytes(), b"", Ttl::Default).expect("it does not grow");
}

#[test]
fn a_store_in_memory_is_found_again_and_stays_in_memory() {
    let folder = Folder::new();
    let options = Options { durability: Durability::Memory, ..SMALL };
    let store = folder.open(options);
    store.put(b"key", b"value", Ttl::Default).expect("there is room");
    drop(store);
    assert!(!folder.data().exists());
    let store = folder.open(options);
    assert_eq!(store.get(b"key").expect("it is readable"), Some(b"value".to_vec()));
    drop(store);
    let refused = Store::open(folder.path(), "shop", Some(&SMALL)).expect_err("it is in memory");
    assert!(refused.is_bad_input(), "{refused}");
    let text = std::fs::read_to_string(folder.path().join("shop/store.toml")).expect("a file");
    let data = text.lines().find_map(|line| line.strip_prefix("data = ")).expect("its folder");
    std::fs::remove_dir_all(data.trim_matches('"')).expect("it is ours");
}

#[test]
fn what_does_not_exist_is_not_created_without_options() {
    let folder = Folder::new();
    let refused = Store::open(folder.path(), "shop", None).expect_err("there is none");
    assert!(matches!(refused, Error::Missing { .. }) && !folder.path().exists());
    for name in ["", "-a", "a/b", "..", "a b", &"a".repeat(65)] {
        let refused = Store::open(folder.path(), name, Some(&SMALL)).expect_err("it is invalid");
        assert!(matches!(refused, Error::Name(_)), "{name:?}");
    }
    let small = Options { size: 1, ..SMALL };
    assert!(matches!(Store::open(folder.path(), "a", Some(&small)), Err(Error::Size(1))));
    folder.open(SMALL);
    assert_eq!(crate::names(folder.path()).expect("it is readable"), ["shop"]);
}

#[test]
fn a_thread_reads_a_store_once_at_a_time() {
    let folder = Folder::new();
    let store = folder.open(SMALL);
    let snapshot = store.snapshot().expect("it is readable");
    assert!(matches!(store.get(b"key"), Err(Error::Nested)));
    store.put(b"key", b"value", Ttl::Default).expect("a write is no read");
    assert_eq!(snapshot.get(b"key").expect("it is readable"), None, "it is from before");
    drop(snapshot);
    assert_eq!(store.get(b"key").expect("it is readable"), Some(b"value".to_vec()));
}

#[test]
fn a_scan_goes_on_behind_a_key() {
    let folder = Folder::new();
    let store = folder.open(SMALL);
    let keys: Vec<Vec<u8>> = (0..100_u8).map(|number| vec![b'a', number]).collect();
    let entries: Vec<Change<'_>> = keys.iter().map(|key| (&key[..], Some(&b"v"[..]))).collect();
    store.put_many(&entries, Ttl::Default).expect("there is room");
    store.put(b"b", b"v", Ttl::Default).expect("there is room");
    let mut found: Vec<Vec<u8>> = Vec::new();
    loop {
        let after = found.last().cloned();
        let more = store.scan(b"a", after.as_deref(), 7).expect("it is readable");
        if more.is_empty() {
            break;
        }
        found.extend(more.into_iter().map(|(key, _)| key));
    }
    assert_eq!(found, keys);
}

#[test]
fn a_process_that_writes_becomes_the_keeper() {
    let folder = Folder::new();
    let store = folder.open(SMALL);
    store.put(b"gone", b"v", Ttl::Ms(1)).expect("there is room");
    let is_swept = || store.stats().is_ok_and(|stats| stats.entries == 0);
    let begin_ns = jissoku_os::clock::monotonic_ns();
    while !is_swept() && jissoku_os::clock::monotonic_ns() - begin_ns < 30_000_000_000 {
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert!(is_swept(), "the housekeeping removes what has expired");
}

#[test]
fn what_is_done_is_counted_once() {
    let folder = Folder::new();
    let store = folder.open(Options { when_full: WhenFull::Drop, ..SMALL });
    for number in 0..2000_u32 {
        store.put(&number.to_be_bytes(), &[7; 1000], Ttl::Default).expect("room is made");
    }
    let entries = store.stats().expect("it is readable").entries;
    assert_eq!(store.counts(), [0, 0, 2000, 2000 - entries, 0]);
    let refused = store.put(b"whole", &vec![0; 1 << 20], Ttl::Default);
    assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    store.put(b"brief", b"1", Ttl::Ms(0)).expect("room is made");
    let swapped = store.compare_and_swap(b"sum", Some(b"1"), b"2", Ttl::Default);
    assert!(!swapped.expect("it is writable"));
    assert_eq!(store.increment(b"sum", 1, Ttl::Default).expect("room is made"), 1);
    assert_eq!(store.get(b"sum").expect("it is readable"), Some(b"1".to_vec()));
    assert_eq!(store.get(b"none").expect("it is readable"), None);
    let [gets, hits, puts, _, expired] = store.counts();
    assert_eq!((gets, hits, puts, expired), (2, 1, 2002, 1));
}
