//! Processes that are killed at random instants: no lock is left, no value is torn, and nothing that
//! was acknowledged is lost.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::time::Duration;

use jissoku_store::{Store, Ttl};

use crate::child::{Folder, KEYS, number_of, number_of_all, numbers};

/// How often a writer and a reader are killed: seconds.
const KILLS: u64 = 60;

/// The same in the long tests: minutes.
const MANY_KILLS: u64 = 1_000;

const SIGKILL: i32 = 9;

/// Each write has one key, and each read one.
const ONE: (&str, &str) = ("write", "read");

/// Each write has all keys, and so has each read.
const ALL: (&str, &str) = ("write many", "read all");

/// The greatest number that the store has.
fn greatest(store: &Store) -> u64 {
    let values = (0..KEYS).filter_map(|key| store.get(&[key]).expect("it is readable"));
    values.map(|value| number_of(&value)).max().unwrap_or(0)
}

/// Kills a child, which has not ended by itself because something was wrong.
fn kill(child: &mut Child) {
    child.kill().expect("it is a child");
    assert_eq!(child.wait().expect("it ends").signal(), Some(SIGKILL));
}

/// Kills a writer after a time that differs from round to round, from its start-up to some hundred
/// writes; returns the last number that it has acknowledged.
fn kill_one(folder: &Folder, (write, read): (&str, &str), round: u64) -> u64 {
    let mut writer = folder.child(write);
    let mut reader = folder.child(read);
    let pause_us = round * 7919 % 25_000;
    std::thread::park_timeout(Duration::from_micros(pause_us));
    kill(&mut writer);
    kill(&mut reader);
    numbers(&mut writer, "wrote").last().copied().unwrap_or(0)
}

/// Kills writers while this process has the store open, too.
#[expect(clippy::print_stderr, reason = "what the long tests have done")]
fn kill_beside_others(works: (&str, &str), last_of: fn(&Store) -> u64, kills: u64) {
    let folder = Folder::new();
    let store = folder.open();
    let mut last = 0;
    for round in 0..kills {
        last = last.max(kill_one(&folder, works, round));
        let found = last_of(&store);
        assert!(found >= last, "round {round}: {last} was acknowledged, and {found} is there");
        store.put(b"other", &round.to_le_bytes(), Ttl::Default).expect("no lock is left");
    }
    assert!(last > 100, "the writers have written: {last}");
    let stats = store.stats().expect("it is readable");
    assert!([9, 17].contains(&stats.entries) && stats.file_bytes < 128 << 20, "{stats:?}");
    eprintln!("{kills} killed beside others, {last} values");
}

/// Kills all processes that have the store open.
#[expect(clippy::print_stderr, reason = "what the long tests have done")]
fn kill_all(kills: u64) {
    let folder = Folder::new();
    let mut last = 0;
    for round in 0..kills {
        last = last.max(kill_one(&folder, ("synchronise", "read"), round));
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
    kill_beside_others(ONE, greatest, KILLS);
}

#[test]
fn a_killed_writer_leaves_no_half_of_a_batch() {
    kill_beside_others(ALL, number_of_all, KILLS);
}

#[test]
fn a_store_of_killed_processes_is_undamaged() {
    kill_all(KILLS);
}

#[test]
#[ignore = "minutes"]
fn endurance_of_a_thousand_killed_writers_beside_others() {
    kill_beside_others(ONE, greatest, MANY_KILLS);
}

#[test]
#[ignore = "minutes"]
fn endurance_of_a_thousand_killed_writers_of_batches() {
    kill_beside_others(ALL, number_of_all, MANY_KILLS);
}

#[test]
#[ignore = "minutes"]
fn endurance_of_a_thousand_killed_processes() {
    kill_all(MANY_KILLS);
}
