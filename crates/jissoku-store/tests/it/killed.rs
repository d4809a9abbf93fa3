//! Processes that are killed at random instants: no lock is left, no value is torn, and nothing that
//! was acknowledged is lost.

use std::time::Duration;

use jissoku_store::{Store, Ttl};

use crate::child::{Folder, KEYS, number_of, numbers};

/// How often a writer and a reader are killed: seconds.
const KILLS: u64 = 60;

/// The same in the long tests: minutes.
const MANY_KILLS: u64 = 1_000;

/// The greatest number that the store has.
fn greatest(store: &Store) -> u64 {
    let values = (0..KEYS).filter_map(|key| store.get(&[key]).expect("it is readable"));
    values.map(|value| number_of(&value)).max().unwrap_or(0)
}

/// Kills a writer after a time that differs from round to round, from its start-up to some hundred
/// writes; returns the last number that it has acknowledged.
fn kill_one(folder: &Folder, work: &str, round: u64) -> u64 {
    let mut writer = folder.child(work);
    let mut reader = folder.child("read");
    let pause_us = round * 7919 % 25_000;
    std::thread::park_timeout(Duration::from_micros(pause_us));
    writer.kill().expect("it is a child");
    reader.kill().expect("it is a child");
    writer.wait().expect("it ends");
    reader.wait().expect("it ends");
    numbers(&mut writer, "wrote").last().copied().unwrap_or(0)
}

/// Kills writers while this process has the store open, too.
#[expect(clippy::print_stderr, reason = "what the long tests have done")]
fn kill_beside_others(kills: u64) {
    let folder = Folder::new();
    let store = folder.open();
    let mut last = 0;
    for round in 0..kills {
        last = last.max(kill_one(&folder, "write", round));
        let found = greatest(&store);
        assert!(found >= last, "round {round}: {last} was acknowledged, and {found} is there");
        store.put(b"other", &round.to_le_bytes(), Ttl::Default).expect("no lock is left");
    }
    assert!(last > 100, "the writers have written: {last}");
    let stats = store.stats().expect("it is readable");
    assert_eq!((stats.entries, stats.file_bytes < 128 << 20), (17, true), "{stats:?}");
    eprintln!("{kills} killed beside others, {last} values");
}

/// Kills all processes that have the store open.
#[expect(clippy::print_stderr, reason = "what the long tests have done")]
fn kill_all(kills: u64) {
    let folder = Folder::new();
    let mut last = 0;
    for round in 0..kills {
        last = last.max(kill_one(&folder, "synchronise", round));
        // This process is the only one, and checks the file.
        let store = folder.open();
        assert_eq!(store.notice(), None, "round {round}");
        let found = greatest(&store);
        assert!(found >= last, "round {round}: {last} was acknowledged, and {found} is there");
    }
    assert!(last > 50, "the writers have written: {last}");
    eprintln!("{kills} killed, {last} values");
}

#[test]
fn a_killed_writer_leaves_no_lock_to_those_who_go_on() {
    kill_beside_others(KILLS);
}

#[test]
fn a_store_of_killed_processes_is_undamaged() {
    kill_all(KILLS);
}

#[test]
#[ignore = "minutes"]
fn endurance_of_a_thousand_killed_writers_beside_others() {
    kill_beside_others(MANY_KILLS);
}

#[test]
#[ignore = "minutes"]
fn endurance_of_a_thousand_killed_processes() {
    kill_all(MANY_KILLS);
}
