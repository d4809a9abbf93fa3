//! Several writes of a store in one transaction.

#![expect(clippy::disallowed_types, reason = "one test at a time uses the store")]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs, process, ptr};

use jissoku_store::{Options, SIZE_MIN, Store, WhenFull};

use super::super::store::Entry;
use super::super::{API, DONE, Str};
use super::Session;
use super::choices::{Choices, NAMES, VALUES};

static ONE: Mutex<()> = Mutex::new(());
static STORE: OnceLock<Store> = OnceLock::new();

/// A store whose files have no name any more. Old entries make room.
fn open() -> Store {
    let folder = env::temp_dir().join(format!("jissoku-random-calls-{}", process::id()));
    let options = Options { size: SIZE_MIN, when_full: WhenFull::Drop, ..Options::DEFAULT };
    let store = Store::open(&folder, "calls", Some(&options)).expect("it opens");
    fs::remove_dir_all(folder).expect("it is ours");
    store
}

/// An entry that owns its bytes.
struct Owned {
    key: Vec<u8>,
    value: Vec<u8>,
    is_removed: bool,
    /// Whether the key, or the value, is NULL.
    is_null: [bool; 2],
}

impl Owned {
    fn choose(choices: &mut Choices<'_>) -> Self {
        let (key, value) = (choices.text(&NAMES), choices.text(&VALUES));
        let is_removed = choices.below(4) == 3;
        Self { key, value, is_removed, is_null: [choices.rarely(), choices.rarely()] }
    }

    fn is_valid(&self) -> bool {
        let [has_no_key, has_no_value] = self.is_null;
        let is_value = self.is_removed || !has_no_value || self.value.is_empty();
        !has_no_key && (1..=500).contains(&self.key.len()) && is_value
    }

    fn entry(&self) -> Entry {
        let text = |text: &[u8], is_null: bool| {
            let text = Str::of(text);
            Str { ptr: if is_null { ptr::null() } else { text.ptr }, ..text }
        };
        let [has_no_key, has_no_value] = self.is_null;
        Entry {
            key: text(&self.key, has_no_key),
            value: text(&self.value, has_no_value),
            is_removed: c_int::from(self.is_removed),
        }
    }
}

impl Session<'_> {
    /// Writes entries, which are all there afterwards, or none of them.
    pub(super) fn put_many(&mut self) {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let store = STORE.get_or_init(open);
        let count = self.choices.below(6);
        let owned: Vec<_> = (0..count).map(|_| Owned::choose(&mut self.choices)).collect();
        let entries: Vec<_> = owned.iter().map(Owned::entry).collect();
        let ttl_ms = [0, -1, i64::MAX][self.choices.below(3)];
        let (has_store, has_entries) = (!self.choices.rarely(), !self.choices.rarely());
        let start = if has_entries { entries.as_ptr() } else { ptr::null() };
        let keys = owned.iter().filter(|it| (1..=500).contains(&it.key.len()));
        let found = |key: &[u8]| store.get(key).expect("it is readable");
        let mut expected: BTreeMap<_, _> = keys.map(|it| (&it.key, found(&it.key))).collect();
        let result = (API.store_put_many)(has_store.then_some(store), start, count, ttl_ms);
        let is_valid =
            has_store && (has_entries || count == 0) && owned.iter().all(Owned::is_valid);
        assert_eq!(result, if is_valid { DONE } else { -1 });
        if is_valid {
            let value = |it: &Owned| (!it.is_removed).then(|| it.value.clone());
            expected.extend(owned.iter().map(|it| (&it.key, value(it))));
        }
        for (key, value) in expected {
            assert_eq!(found(key), value, "{result}");
        }
    }
}
