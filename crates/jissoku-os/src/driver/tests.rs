//! One suite for every driver: what [`super`] promises, over real sockets. The client and the
//! driver take turns on one thread, so nothing is waited for but the kernel.

mod files;
mod flush;
mod opened;
mod stage;

use std::net::TcpStream;

use super::*;
use crate::socket::{self, Endpoint, Sharing};
pub(super) use stage::Paper;
use stage::{LARGE, Puppet, TURNS_MAX, play, play_with};

/// More than a ring takes requests, or has buffers, and than epoll reports events at once.
const MANY: usize = 1_100;

#[test]
fn bytes_come_and_answers_go() {
    play(|stage| {
        let mut client = stage.connect();
        for text in [&b"1"[..], b"234", b"5"] {
            client.write_all(text).expect("room to send");
            assert_eq!(stage.read(&mut *client, text.len()), text);
        }
    });
}

#[test]
fn connections_do_not_mix() {
    play(|stage| {
        let mut clients: Vec<_> = (0..100).map(|_| stage.connect()).collect();
        for (client, number) in clients.iter_mut().zip(100..) {
            write!(client, "{number}").expect("room to send");
        }
        for (client, number) in clients.iter_mut().zip(100..) {
            assert_eq!(stage.read(&mut **client, 3), format!("{number}").as_bytes());
        }
        assert_eq!(stage.driver.connections(), 100);
        drop(clients);
        stage.run_until("all are gone", |stage| stage.driver.connections() == 0);
        assert_eq!((stage.puppet.opened, stage.puppet.closed), (100, 100));
    });
}

#[test]
fn more_clients_than_any_queue_holds_are_answered() {
    // The limit is the process's; other tests do not mind a higher one.
    let limit = crate::process::raise_descriptor_limit().expect("a limit can be raised");
    if limit.is_some_and(|limit| limit < 6 * MANY as u64) {
        eprintln!("skipped: {MANY} clients need more descriptors than we may have");
        return;
    }
    play(|stage| {
        let mut clients = Vec::new();
        for _ in 0..MANY {
            clients.push(stage.connect());
            // A listener may queue fewer than there are clients.
            let count = clients.len();
            stage.run_until("it is taken", |stage| stage.driver.connections() == count);
        }
        for (round, number) in [b"1", b"2"].into_iter().zip(1..) {
            for client in &mut clients {
                client.write_all(round).expect("room to send");
            }
            let size = number * MANY;
            stage.run_until("all messages are received", |stage| stage.puppet.received == size);
            for client in &mut clients {
                assert_eq!(stage.read(&mut **client, 1), round);
            }
        }
    });
}

#[test]
fn nothing_is_left_behind_by_a_driver_that_is_gone() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"1").expect("room to send");
        assert_eq!(stage.read(&mut *client, 1), b"1");
        let mut late = stage.connect();
        stage.replace_driver();
        assert!(stage.try_connect().is_err(), "a listener is still open");
        client.expect_end();
        late.expect_end();
    });
}

#[test]
fn a_driver_dropped_before_its_first_iteration_has_accepted_nothing() {
    let here: Endpoint = "127.0.0.1:0".parse().expect("an address");
    let drivers = [Backend::Epoll, Backend::Uring];
    let usable = |backend: &Backend| *backend == Backend::Epoll || crate::uring::is_available();
    for backend in drivers.into_iter().filter(usable) {
        let listener =
            socket::bind_and_listen(&here, Sharing::Reuseport).expect("a place to listen");
        let address = socket::local_endpoint(&listener).expect("it has an address").to_string();
        let _client = TcpStream::connect(address).expect("it listens");
        let listeners =
            vec![Listener::SharedExclusive(listener.try_clone().expect("a descriptor"))];
        let settings = Settings { backend, ..Settings::default() };
        let waker = Waker::new().expect("a waker");
        drop(Driver::<Puppet>::new(listeners, waker, settings).expect("a driver"));
        let taken = socket::accept(&listener).expect("the listener stands");
        assert!(taken.is_some(), "{backend:?} has accepted a connection before its end");
    }
}

#[test]
fn a_short_send_is_finished_when_there_is_room() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"xLy").expect("room to send");
        let bytes = stage.read(&mut *client, LARGE + 3);
        assert_eq!((&bytes[..1], &bytes[LARGE + 1..]), (&b"x"[..], &b"Ly"[..]));
        assert!(bytes[1..=LARGE].iter().all(|&byte| byte == b'l'));
        client.write_all(b"z").expect("room to send");
        assert_eq!(stage.read(&mut *client, 1), b"z");
    });
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"L").expect("room to send");
        stage.run_until("answers wait", |stage| stage.puppet.largest == 1);
        client.write_all(b"22").expect("room to send");
        for _ in 0..50 {
            stage.driver.run_once(&mut stage.puppet).expect("a turn succeeds");
        }
        assert_eq!(stage.puppet.largest, 1, "bytes were received beside waiting answers");
        stage.read(&mut *client, LARGE + 1);
        assert_eq!(stage.read(&mut *client, 2), b"22");
    });
}

#[test]
fn a_held_connection_is_left_alone_until_it_is_due() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"h").expect("room to send");
        assert_eq!(stage.read(&mut *client, 1), b"h");
        client.write_all(b"1").expect("room to send");
        for _ in 0..50 {
            stage.driver.run_once(&mut stage.puppet).expect("a turn succeeds");
        }
        stage.puppet.released = true;
        assert_eq!(stage.read(&mut *client, 2), b"H1");
    });
}

#[test]
fn who_wants_another_turn_gets_it() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"p").expect("room to send");
        assert_eq!(stage.read(&mut *client, 2), b"pP");
        client.write_all(b"1").expect("room to send");
        assert_eq!(stage.read(&mut *client, 1), b"1");
    });
}

#[test]
fn a_connection_closes_once_its_answers_have_gone() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"Lc").expect("room to send");
        stage.read(&mut *client, LARGE + 2);
        stage.read_end(&mut *client);
        assert_eq!(stage.driver.connections(), 0);
    });
}

#[test]
fn an_aborted_connection_closes_at_once() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"a").expect("room to send");
        stage.read_end(&mut *client);
        assert_eq!(stage.puppet.closed, 1);
    });
}

#[test]
fn a_finished_connection_still_receives() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"f").expect("room to send");
        assert_eq!(stage.read(&mut *client, 1), b"f");
        stage.read_end(&mut *client);
        assert_eq!(stage.puppet.closed, 0);
        client.write_all(b"333").expect("it is open");
        stage.run_until("it is received", |stage| stage.puppet.largest == 3);
    });
}

#[test]
fn a_client_that_has_finished_still_gets_its_answer() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"h").expect("room to send");
        client.finish();
        assert_eq!(stage.read(&mut *client, 1), b"h");
        stage.puppet.released = true;
        assert_eq!(stage.read(&mut *client, 2), b"HE");
        stage.read_end(&mut *client);
    });
}

#[test]
fn bytes_and_the_end_may_come_together() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"1").expect("room to send");
        client.finish();
        assert_eq!(stage.read(&mut *client, 2), b"1E");
        stage.read_end(&mut *client);
        assert_eq!(stage.driver.connections(), 0);
    });
}

#[test]
fn more_bytes_than_the_buffer_holds_all_come() {
    play(|stage| {
        let mut client = stage.connect();
        let bytes = vec![b'.'; 1024 * 1024];
        let mut sent = 0;
        let mut echoed = 0;
        let mut buffer = vec![0; 64 * 1024];
        stage.run_until("all bytes have come back", |_| {
            if let Ok(count) = client.write(&bytes[sent..]) {
                sent += count;
            }
            if let Ok(count) = client.read(&mut buffer) {
                echoed += count;
            }
            echoed == bytes.len()
        });
    });
}

#[test]
fn at_the_limit_nothing_is_accepted_until_a_connection_closes() {
    play_with(Settings { connections_max: 2, ..Settings::default() }, |stage| {
        let mut first = stage.connect();
        let mut second = stage.connect();
        let mut third = stage.connect();
        for client in [&mut first, &mut second, &mut third] {
            client.write_all(b"1").expect("room to send");
        }
        assert_eq!(stage.read(&mut *first, 1), b"1");
        assert_eq!(stage.read(&mut *second, 1), b"1");
        for _ in 0..50 {
            stage.driver.run_once(&mut stage.puppet).expect("a turn succeeds");
        }
        assert_eq!(stage.driver.connections(), 2);
        drop(first);
        assert_eq!(stage.read(&mut *third, 1), b"1");
    });
}

#[test]
fn connections_in_the_queue_are_served_after_the_listener_closed() {
    play(|stage| {
        let mut clients: Vec<_> = (0..70).map(|_| stage.connect()).collect();
        stage.driver.stop_listening(&mut stage.puppet).expect("it can stop");
        assert!(stage.try_connect().is_err());
        assert_eq!(stage.driver.connections(), 70);
        for client in &mut clients {
            client.write_all(b"1").expect("room to send");
            assert_eq!(stage.read(&mut **client, 1), b"1");
        }
    });
}

#[test]
fn connections_that_come_while_a_handler_works_do_not_hold_up_a_stop() {
    play(|stage| {
        let mut clients: Vec<_> = (0..3).map(|_| stage.connect()).collect();
        for client in &mut clients {
            client.write_all(b"v").expect("room to send");
        }
        stage.puppet.visited = Some(stage.endpoint.clone());
        stage.driver.stop_listening(&mut stage.puppet).expect("it can stop");
        assert_eq!(stage.driver.connections(), 3);
        for client in &mut clients {
            assert_eq!(stage.read(&mut **client, 1), b"v");
        }
    });
}

#[test]
fn another_thread_can_wake_it() {
    play(|stage| {
        let waker = stage.waker.clone();
        let other = std::thread::spawn(move || waker.wake());
        let mut turns = 0;
        while stage.driver.run_once(&mut stage.puppet).expect("a turn succeeds")
            != PollOutcome::Woken
        {
            turns += 1;
            assert!(turns < TURNS_MAX, "it was not woken");
        }
        other.join().expect("the thread ends").expect("waking succeeds");
        let outcome = stage.driver.run_once(&mut stage.puppet).expect("a turn succeeds");
        assert_eq!(outcome, PollOutcome::Ordinary, "one call wakes once");
    });
}

#[test]
fn the_end_of_a_held_client_is_reported() {
    play(|stage| {
        let mut client = stage.connect();
        client.write_all(b"h").expect("room to send");
        assert_eq!(stage.read(&mut *client, 1), b"h");
        assert_eq!(stage.puppet.hung_up, 0);
        client.finish();
        stage.run_until("its end is reported", |stage| stage.puppet.hung_up > 0);
        // Bytes and the end, both before the connection is held.
        let mut other = stage.connect();
        other.write_all(b"h").expect("room to send");
        other.finish();
        let before = stage.puppet.hung_up;
        stage.run_until("its end is reported", |stage| stage.puppet.hung_up > before);
        assert_eq!(stage.puppet.closed, 0, "they still wait for a response");
        stage.puppet.released = true;
        assert_eq!(stage.read(&mut *client, 2), b"HE");
        assert_eq!(stage.read(&mut *other, 3), b"hHE");
    });
}

#[test]
fn another_descriptor_is_watched_for_as_long_as_it_is_readable() {
    play(|stage| {
        let watched = Waker::new().expect("a waker");
        stage.driver.watch(&watched).expect("it can be watched");
        stage.driver.run_once(&mut stage.puppet).expect("a turn succeeds");
        assert_eq!(stage.puppet.watched, 0);
        for expected in [2, 4] {
            watched.wake().expect("waking succeeds");
            stage.run_until("it is reported", |stage| stage.puppet.watched >= expected);
            watched.take();
            // The last report may be under way.
            stage.driver.run_once(&mut stage.puppet).expect("a turn succeeds");
            stage.puppet.watched = expected;
            stage.driver.run_once(&mut stage.puppet).expect("a turn succeeds");
            assert_eq!(stage.puppet.watched, expected, "nothing is readable");
        }
    });
}
