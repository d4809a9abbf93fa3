//! Processes that use a store, and the folder that they share.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use jissoku_store::{Change, Durability, Options, Store, Ttl, WhenFull};

const FOLDER: &str = "JISSOKU_STORE_TEST_FOLDER";
const WORK: &str = "JISSOKU_STORE_TEST_WORK";

pub(crate) const OPTIONS: Options = Options {
    size: 32 << 20,
    ttl_ms: None,
    durability: Durability::Lazy,
    when_full: WhenFull::Drop,
};

/// How many keys a writer writes in turn.
pub(crate) const KEYS: u8 = 16;

/// The key of a number.
pub(crate) fn key_of(number: u64) -> [u8; 1] {
    [u8::try_from(number % u64::from(KEYS)).expect("it is small")]
}

/// A folder that is removed with all in it.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("jissoku-store-it-{}-{number}", std::process::id());
        Self(env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(self.path(), "shop", Some(&OPTIONS)).expect("it opens")
    }

    /// Starts a process that does `work`, whose standard output can be read.
    pub(crate) fn child(&self, work: &str) -> Child {
        Command::new(env::current_exe().expect("a program"))
            .args(["child::does_its_work", "--exact", "--ignored", "--nocapture", "--quiet"])
            .env(FOLDER, self.path())
            .env(WORK, work)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("it starts")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.0);
    }
}

/// The whole lines that a child has printed and that have this word before a number, until it ends.
pub(crate) fn numbers(child: &mut Child, word: &str) -> Vec<u64> {
    let lines = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut found = Vec::new();
    for line in lines.split(b'\n') {
        let line = String::from_utf8(line.expect("it is readable")).expect("it is text");
        let number = line.strip_prefix(word).and_then(|rest| rest.strip_suffix('.'));
        found.extend(number.and_then(|number| number.trim().parse::<u64>().ok()));
    }
    found
}

/// A value of which every part says the same number; some have many pages.
pub(crate) fn value_of(number: u64) -> Vec<u8> {
    let count = if number.is_multiple_of(7) { 3000 } else { number % 50 + 1 };
    number.to_le_bytes().repeat(usize::try_from(count).expect("it is small"))
}

/// The number of a whole value.
pub(crate) fn number_of(value: &[u8]) -> u64 {
    let number = u64::from_le_bytes(*value.first_chunk().expect("it has a number"));
    assert!(value == value_of(number), "a torn value of {} bytes with {number}", value.len());
    number
}

#[test]
#[ignore = "is a child of other tests"]
fn does_its_work() {
    let folder = PathBuf::from(env::var_os(FOLDER).expect("a parent has set it"));
    let work = env::var_os(WORK).expect("a parent has set it");
    let store = Store::open(&folder, "shop", Some(&OPTIONS)).expect("it opens");
    let work = work.to_str().expect("a parent has written it");
    let (work, count) = work.split_once(':').unwrap_or((work, "0"));
    let count: u64 = count.parse().expect("it is a number");
    match work {
        "increment" => {
            for _ in 0..2000 {
                store.increment(b"sum", 1, Ttl::Default).expect("it is a number");
            }
        }
        "write" => write(&store, &mut |_| ()),
        "write many" => write_many(&store),
        "read all" => loop {
            let _number = number_of_all(&store);
        },
        "synchronise" => write(&store, &mut |number| {
            if number.is_multiple_of(16) {
                store.sync().expect("the disk has room");
            }
        }),
        "read" => {
            for round in 0.. {
                let snapshot = store.snapshot().expect("it is readable");
                snapshot.get(&key_of(round)).expect("it is readable").map(number_of);
            }
        }
        "read many" => {
            for round in 0..count {
                let value = store.get(&key_of(round)).expect("it is readable");
                value.as_deref().map(number_of);
            }
            print_number("read", count);
        }
        other => panic!("{other}"),
    }
}

/// Writes until it is killed, and prints each number after its write.
fn write(store: &Store, then: &mut dyn FnMut(u64)) {
    let next = (0..KEYS).filter_map(|key| store.get(&[key]).expect("it is readable"));
    let next = next.map(|value| number_of(&value)).max().map_or(1, |last| last + 1);
    for number in next.. {
        store.put(&key_of(number), &value_of(number), Ttl::Default).expect("room is made");
        then(number);
        print_number("wrote", number);
    }
}

/// Writes all keys in one transaction until it is killed, and prints each number after its write.
fn write_many(store: &Store) {
    for number in number_of_all(store) + 1.. {
        let value = value_of(number);
        let keys: Vec<[u8; 1]> = (0..KEYS).map(|key| [key]).collect();
        // Every third one writes even keys only, and removes the others.
        let value = |key: u8| (key_is_written(key, number)).then_some(&value[..]);
        let entries: Vec<Change<'_>> = keys.iter().map(|key| (&key[..], value(key[0]))).collect();
        store.put_many(&entries, Ttl::Default).expect("room is made");
        print_number("wrote", number);
    }
}

fn key_is_written(key: u8, number: u64) -> bool {
    !number.is_multiple_of(3) || key.is_multiple_of(2)
}

/// The number of the last of those transactions, which all keys have; 0 before the first one.
pub(crate) fn number_of_all(store: &Store) -> u64 {
    let snapshot = store.snapshot().expect("it is readable");
    let numbers: Vec<Option<u64>> =
        (0..KEYS).map(|key| snapshot.get(&[key]).expect("it is readable").map(number_of)).collect();
    let number = numbers[0].unwrap_or(0);
    for (key, found) in (0..KEYS).zip(&numbers) {
        let is_there = number > 0 && key_is_written(key, number);
        assert_eq!(*found, is_there.then_some(number), "half of a batch: {numbers:?}");
    }
    number
}

/// The full stop shows that the line was written to its end.
fn print_number(word: &str, number: u64) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{word} {number}.").and_then(|()| stdout.flush()).expect("a parent reads it");
}
