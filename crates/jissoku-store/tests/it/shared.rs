//! Processes that write and read at the same time.

use std::sync::mpsc::{self, TryRecvError};
use std::thread;

use jissoku_store::Ttl;

use crate::child::{Folder, key_of, number_of, numbers, value_of};

#[test]
fn sums_over_processes_are_exact() {
    let folder = Folder::new();
    let store = folder.open();
    let mut children: Vec<_> = (0..4).map(|_| folder.child("increment")).collect();
    for _ in 0..2000 {
        store.increment(b"sum", 1, Ttl::Default).expect("it is a number");
    }
    for child in &mut children {
        numbers(child, "");
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(store.get(b"sum").expect("it is readable"), Some(b"10000".to_vec()));
}

/// Reads this often in each of several processes, while this one writes: each value is whole.
#[expect(clippy::print_stderr, reason = "what the long tests have done")]
fn read_while_written(processes: usize, reads: u64) {
    let folder = Folder::new();
    let store = folder.open();
    let work = format!("read many:{reads}");
    let mut readers: Vec<_> = (0..processes).map(|_| folder.child(&work)).collect();
    let (done, is_done) = mpsc::channel::<()>();
    let ended = thread::spawn(move || {
        for reader in &mut readers {
            assert_eq!(numbers(reader, "read"), [reads]);
            assert!(reader.wait().expect("it ends").success());
        }
        drop(done);
    });
    let mut number = 0;
    while is_done.try_recv() == Err(TryRecvError::Empty) {
        number += 1;
        store.put(&key_of(number), &value_of(number), Ttl::Default).expect("room is made");
    }
    ended.join().expect("all values were whole");
    assert!(number > 100, "{number} writes");
    let last = store.get(&key_of(number));
    assert_eq!(number_of(&last.expect("it is readable").expect("it was written")), number);
    eprintln!("{processes} x {reads} reads of whole values beside {number} writes");
}

#[test]
fn readers_see_whole_values_while_one_process_writes() {
    read_while_written(2, 400_000);
}

/// 10^8 reads.
#[test]
#[ignore = "minutes"]
fn endurance_of_a_hundred_million_reads_while_one_process_writes() {
    read_while_written(8, 12_500_000);
}
