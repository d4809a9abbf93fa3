//! Damaged files: they are set aside, or can be used; no process ends.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::{Folder, SMALL};
use crate::{Options, Store, Ttl, WhenFull};

const OPTIONS: Options = Options { when_full: WhenFull::Drop, ..SMALL };

/// A store with small and large values, with times to live, and with free pages.
fn filled(folder: &Folder) {
    let store = folder.open(OPTIONS);
    for number in 0..300_u32 {
        let value = vec![7; if number % 50 == 0 { 9000 } else { 100 }];
        let ttl = if number % 3 == 0 { Ttl::Ms(3_600_000) } else { Ttl::Never };
        store.put(&number.to_be_bytes(), &value, ttl).expect("there is room");
    }
    for number in (0..300_u32).step_by(5) {
        store.delete(&number.to_be_bytes()).expect("it is writable");
    }
}

/// Uses all that can be used of a store.
fn used(store: &Store) {
    let _all = store.scan(b"", None, usize::MAX);
    for number in 0..400_u32 {
        let _value = store.get(&number.to_be_bytes());
        let _written = store.put(&number.to_be_bytes(), &[8; 200], Ttl::Default);
    }
    let _stats = store.stats();
}

fn set_aside_count(folder: &Folder) -> usize {
    let names = fs::read_dir(folder.path().join("shop")).expect("a folder");
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.contains(".damaged-")).count()
}

#[test]
fn a_file_that_is_none_is_set_aside_with_a_sentence() {
    for contents in [&b"not a store"[..], &[0; 4096], &[0xff; 10_000]] {
        let folder = Folder::new();
        filled(&folder);
        fs::write(folder.data(), contents).expect("it is ours");
        let store = folder.open(OPTIONS);
        let notice = store.notice().expect("it is damaged").to_owned();
        assert!(notice.contains("shop was damaged") && notice.contains(".damaged-"), "{notice}");
        assert_eq!(store.stats().expect("it is readable").entries, 0);
        used(&store);
        drop(store);
        // Once: the new file is as it should be.
        assert_eq!((folder.open(OPTIONS).notice(), set_aside_count(&folder)), (None, 1));
    }
}

#[test]
fn a_file_that_was_cut_off_is_set_aside() {
    let folder = Folder::new();
    filled(&folder);
    let whole = fs::read(folder.data()).expect("it is ours");
    for size in (1..whole.len()).step_by(3000) {
        fs::write(folder.data(), &whole[..size]).expect("it is ours");
        let store = folder.open(OPTIONS);
        used(&store);
        let is_new = store.notice().is_some();
        drop(store);
        if is_new {
            fs::remove_file(folder.data()).expect("it is ours");
        }
        assert!(is_new || size > whole.len() / 2, "{size} of {} bytes", whole.len());
    }
}

#[test]
fn an_undamaged_file_is_used() {
    let folder = Folder::new();
    filled(&folder);
    let store = folder.open(OPTIONS);
    assert_eq!((store.notice(), store.stats().expect("it is readable").entries), (None, 240));
}

/// Changes a file of pages of 4 KiB, by a function that gets the number and the bytes of each page.
fn changed(folder: &Folder, change: Change<'_>) {
    let mut whole = fs::read(folder.data()).expect("it is ours");
    for (number, page) in whole.chunks_mut(4096).enumerate() {
        change(number, page);
    }
    fs::write(folder.data(), whole).expect("it is ours");
}

/// What is done to each page, by its number.
type Change<'a> = &'a dyn Fn(usize, &mut [u8]);

#[test]
fn what_would_lead_lmdb_beyond_a_page_or_the_file_is_damage() {
    const LEAF: u8 = 2;
    let is_leaf = |page: &[u8]| page[10] == LEAF && page[11] == 0;
    let changes: [(&str, Change<'_>); 5] = [
        ("page sizes", &|number, page| {
            if number == 1 {
                page[40..44].copy_from_slice(&0x8000_u32.to_le_bytes());
            }
        }),
        ("a tree has the flags 0xc", &|number, page| {
            if number < 2 {
                page[44] |= 4;
            }
        }),
        ("is not what refers to it says", &|_, page| {
            if is_leaf(page) {
                page[10] |= 0x10;
            }
        }),
        ("overlap, or are outside of it", &|_, page| {
            if is_leaf(page) {
                page.copy_within(16..18, 18);
            }
        }),
        ("a list of free pages is not in order", &|_, page| {
            // A list of one page: a leaf with the numbers of transactions as keys.
            let at = usize::from(u16::from_le_bytes([page[16], page[17]]));
            if is_leaf(page) && page.get(at + 6..at + 8) == Some(&[8, 0]) {
                let list = at + 16;
                page.copy_within(list + 8..list + 16, list + 16);
            }
        }),
    ];
    for (words, change) in changes {
        let folder = Folder::new();
        filled(&folder);
        changed(&folder, change);
        let store = folder.open(OPTIONS);
        let notice = store.notice().expect("it is damaged");
        assert!(notice.contains(words), "{words}: {notice}");
        used(&store);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_end_no_process(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        zeroed in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = Folder::new();
        filled(&folder);
        let size = usize::try_from(fs::metadata(folder.data()).expect("a file").len()).expect("it is small");
        let file = OpenOptions::new().write(true).open(folder.data()).expect("it is ours");
        for (place, byte) in &changes {
            // Half of them where a page has its header and the places of its entries.
            let at = place.index(size);
            let at = if byte % 2 == 0 { at / 4096 * 4096 + at % 64 } else { at };
            file.write_all_at(&[*byte], at.min(size - 1) as u64).expect("it is ours");
        }
        if let Some(place) = zeroed {
            file.write_all_at(&[0; 4096], (place.index(size) / 4096 * 4096) as u64).expect("it is ours");
        }
        drop(file);
        let store = folder.open(OPTIONS);
        used(&store);
        drop(store);
        used(&folder.open(OPTIONS));
    }
}
