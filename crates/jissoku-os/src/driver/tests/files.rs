//! Output from files: between other bytes, larger than any buffer, and changed on the way.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use super::stage::Paper;
use super::stage::{LARGE, play};

/// More than any socket buffers, and each byte depends on its position.
fn large() -> Vec<u8> {
    (0..=250).cycle().take(LARGE).collect()
}

#[test]
fn a_file_is_sent_between_its_neighbours() {
    play(|stage| {
        stage.puppet.paper = Some(Paper::new(b"file"));
        let mut client = stage.connect();
        for _ in 0..2 {
            client.write_all(b"xFyS1").expect("room to send");
            assert_eq!(stage.read(&mut *client, 10), b"xfileFyfS1");
        }
    });
}

#[test]
fn a_large_file_arrives_whole() {
    let bytes = large();
    play(|stage| {
        stage.puppet.paper = Some(Paper::new(&bytes));
        let mut client = stage.connect();
        client.write_all(b"xFy").expect("room to send");
        let arrived = stage.read(&mut *client, LARGE + 3);
        assert_eq!((&arrived[..1], &arrived[LARGE + 1..]), (&b"x"[..], &b"Fy"[..]));
        assert!(arrived[1..=LARGE] == bytes);
        client.write_all(b"z").expect("room to send");
        assert_eq!(stage.read(&mut *client, 1), b"z");
    });
}

#[test]
fn a_connection_closes_once_its_file_has_gone() {
    let bytes = large();
    play(|stage| {
        stage.puppet.paper = Some(Paper::new(&bytes));
        let mut client = stage.connect();
        client.write_all(b"Fc").expect("room to send");
        stage.read(&mut *client, LARGE + 2);
        stage.read_end(&mut *client);
    });
}

#[test]
fn a_client_that_does_not_read_a_file_delays_no_other_client() {
    let bytes = large();
    play(|stage| {
        stage.puppet.paper = Some(Paper::new(&bytes));
        let mut idle = stage.connect();
        idle.write_all(b"F").expect("room to send");
        let mut other = stage.connect();
        other.write_all(b"S").expect("room to send");
        assert_eq!(stage.read(&mut *other, 2), [0, b'S']);
        drop(idle);
        stage.run_until("it is gone", |stage| stage.puppet.closed == 1);
        other.write_all(b"1").expect("room to send");
        assert_eq!(stage.read(&mut *other, 1), b"1");
    });
}

#[test]
fn who_has_gone_before_the_file_is_sent_is_let_go() {
    play(|stage| {
        stage.puppet.paper = Some(Paper::new(b"file"));
        let mut client = stage.connect();
        client.write_all(b"h").expect("room to send");
        assert_eq!(stage.read(&mut *client, 1), b"h");
        drop(client);
        stage.puppet.released = true;
        stage.run_until("it is gone", |stage| stage.puppet.closed == 1);
    });
}

/// Part of the file is with the client when it changes. With an expected size below the announced
/// one, at most that arrives and the connection is closed.
fn check_changed(change: impl Fn(&mut std::fs::File), expected_size: usize) {
    let bytes = large();
    play(|stage| {
        stage.puppet.paper = Some(Paper::new(&bytes));
        let mut client = stage.connect();
        client.write_all(b"F").expect("room to send");
        stage.read(&mut *client, 1);
        change(&mut stage.puppet.paper.as_mut().expect("it is there").writer);
        if expected_size < LARGE {
            let rest = stage.read_all(&mut *client);
            assert!(rest.len() < expected_size, "{} bytes arrived", rest.len());
            assert!(bytes[1..].starts_with(&rest), "other bytes arrived");
            assert_eq!(stage.puppet.closed, 1);
        } else {
            let rest = stage.read(&mut *client, LARGE);
            assert!(rest[..LARGE - 1] == bytes[1..] && rest.ends_with(b"F"), "other bytes arrived");
            client.write_all(b"z").expect("room to send");
            assert_eq!(stage.read(&mut *client, 1), b"z");
        }
    });
}

#[test]
fn a_file_that_grows_on_the_way_is_sent_up_to_its_announced_size() {
    check_changed(|file| file.write_all(b"more").expect("there is room"), LARGE);
}

#[test]
fn a_file_whose_metadata_change_on_the_way_is_sent_whole() {
    check_changed(
        |file| {
            file.set_modified(SystemTime::UNIX_EPOCH).expect("it is ours");
            let mut permissions = file.metadata().expect("it is open").permissions();
            permissions.set_mode(0o600);
            file.set_permissions(permissions).expect("it is ours");
        },
        LARGE,
    );
}

#[test]
fn a_file_that_shrinks_on_the_way_is_never_completed() {
    // Nothing that is in the client's buffers already is cut off.
    check_changed(|file| file.set_len(LARGE as u64 - 1).expect("it can be cut"), LARGE - 1);
}
