//! Parts of a response that follow each other at once ([`Action::Flush`]).

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::UNSENT_MAX;
use super::stage::{Client, PART_SIZE, PARTS, Stage, play};

/// Reads as soon as the driver is in the middle of a call, on a thread of its own.
fn read_meanwhile(stage: &mut Stage, mut client: Box<dyn Client + Send>, size: usize) -> Vec<u8> {
    let done = AtomicBool::new(false);
    let is_done = &done;
    thread::scope(|scope| {
        // The client is closed as soon as it has read enough.
        let reader = scope.spawn(move || {
            let mut bytes = Vec::new();
            let mut buffer = vec![0; 64 * 1024];
            while bytes.len() < size {
                match client.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                    Err(_) => thread::yield_now(),
                }
            }
            is_done.store(true, Ordering::Relaxed);
            bytes
        });
        stage.run_until("all is read", |_| {
            thread::yield_now();
            is_done.load(Ordering::Relaxed)
        });
        reader.join().expect("it reads")
    })
}

#[test]
fn parts_follow_each_other_before_any_other_connection() {
    play(|stage| {
        let mut clients: Vec<_> = (0..20).map(|_| stage.connect()).collect();
        for round in 0..3 {
            for client in &mut clients {
                client.write_all(if round == 1 { b"1" } else { b"n" }).expect("room to send");
            }
            for client in &mut clients {
                let expected: &[u8] = if round == 1 { b"1" } else { b"n........" };
                assert_eq!(stage.read(&mut **client, expected.len()), expected);
            }
        }
        // Other output is in front of it and behind it.
        clients[0].write_all(b"12n").expect("room to send");
        clients[0].write_all(b"3").expect("room to send");
        let bytes = stage.read(&mut *clients[0], 3 + PARTS + 1);
        assert!(bytes == b"12n........3" || bytes == b"12n3........", "{bytes:?}");
    });
}

#[test]
fn a_client_that_reads_slowly_gets_all_and_little_waits_for_it() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"N").expect("room to send");
        let size = 1 + PARTS * PART_SIZE;
        assert_eq!(read_meanwhile(stage, client, size).len(), size);
        assert!(stage.puppet.unsent_max <= UNSENT_MAX);
        // The connection goes on as any other.
        let mut other = stage.connect();
        other.write_all(b"n").expect("room to send");
        assert_eq!(stage.read(&mut *other, 1 + PARTS), b"n........");
    });
}

#[test]
fn a_client_that_leaves_ends_the_parts() {
    play(|stage| {
        for leaves_first in [true, false] {
            let mut client = stage.connect();
            client.write_all(b"N").expect("room to send");
            if leaves_first {
                drop(client);
                let closed = stage.puppet.closed;
                stage.run_until("it is closed", |stage| stage.puppet.closed > closed);
            } else {
                assert!(!read_meanwhile(stage, client, PART_SIZE).is_empty());
                stage.run_until("it is closed", |stage| stage.driver.connections() == 0);
            }
            assert_eq!(stage.puppet.flushed, None);
        }
    });
}

#[test]
fn the_end_of_a_client_is_reported_although_nothing_is_sent() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"e").expect("room to send");
        client.finish();
        assert_eq!(stage.read(&mut *client, 2), b"eE");
        assert!(stage.puppet.hung_up > 0);
        // Without a reader, the connection itself ends it.
        let mut gone = stage.connect();
        gone.write_all(b"e").expect("room to send");
        drop(gone);
        stage.run_until("it is closed", |stage| stage.driver.connections() == 0);
    });
}
