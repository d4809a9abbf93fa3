//! The system calls of the server and the load generator, from `strace(1)`: as few as possible, and with an injected cause what
//! the cause says.

mod load;
mod strace;

use std::collections::HashSet;
use std::net::TcpStream;

use jissoku_os::clock;
use strace::{Call, ask, trace};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Requests per connection, and connections.
const REQUESTS: usize = 10;
const CONNECTIONS: usize = 30;

/// The delayed acknowledgement of Linux (`TCP_DELACK_MIN`), less a tick of the kernel's slowest clock.
const STALL_NS: u64 = 30_000_000;

/// What one worker does for a connection with several requests.
fn keep_alive(arguments: &[&str]) -> Vec<Call> {
    let arguments = [&["--fixed", "Hello", "--workers", "1"], arguments].concat();
    trace(&arguments, |address| {
        let mut client = TcpStream::connect(address).expect("it listens");
        for _ in 0..REQUESTS {
            ask(&mut client, GET).expect("an answer");
        }
    })
}

fn count(calls: &[Call], is_it: impl Fn(&Call) -> bool) -> usize {
    calls.iter().filter(|call| is_it(call)).count()
}

fn named(name: &str) -> impl Fn(&Call) -> bool + '_ {
    move |call| call.name == name
}

/// Whether a call is of the tick that goes once a second: its timer is set, or read, which nothing else is.
fn is_tick(call: &Call) -> bool {
    call.name == "timerfd_settime" || (call.name == "read" && call.result == "8")
}

#[test]
fn a_request_is_a_receive_a_send_and_its_share_of_a_wait() {
    if !strace::is_here() {
        return;
    }
    let calls = keep_alive(&[]);
    let sends: Vec<usize> = (0..calls.len()).filter(|&at| calls[at].name == "sendto").collect();
    assert_eq!(sends.len(), REQUESTS, "{calls:#?}");
    // After the first the connection is arranged for: it is watched, and the tick goes.
    let between = &calls[sends[1] + 1..=sends[REQUESTS - 1]];
    let ticks = count(between, is_tick);
    assert_eq!(count(between, named("recvfrom")), REQUESTS - 2, "{between:#?}");
    let waits = count(between, |call| call.name.starts_with("epoll_") && call.name != "epoll_ctl");
    assert!((REQUESTS - 2..=REQUESTS - 2 + ticks).contains(&waits), "{between:#?}");
    assert_eq!(between.len(), 2 * (REQUESTS - 2) + waits + ticks, "{between:#?}");
}

/// The calls about a descriptor from its birth to its end, by name.
fn lives(calls: &[Call]) -> Vec<Vec<String>> {
    let born = |at: usize| calls[at].name == "accept4" && !calls[at].has_failed();
    let births = (0..calls.len()).filter(|&at| born(at));
    let life = |at: usize| {
        let descriptor = &calls[at].result;
        let is_about = |call: &&Call| {
            let is_watch =
                call.name == "epoll_ctl" && call.text.contains(&format!(", {descriptor},"));
            call.descriptor() == descriptor || is_watch
        };
        let mut names = vec!["accept4".to_owned()];
        for call in calls[at + 1..].iter().filter(is_about) {
            names.push(call.name.clone());
            if call.name == "close" {
                break;
            }
        }
        names
    };
    births.map(life).collect()
}

#[test]
fn a_connection_with_one_request_is_taken_received_answered_and_closed() {
    if !strace::is_here() {
        return;
    }
    let calls = trace(&["--fixed", "Hello", "--workers", "1"], |address| {
        // All ask before the first is answered, so that most requests are there with their connection.
        let mut clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let mut client = TcpStream::connect(address).expect("it listens");
                std::io::Write::write_all(&mut client, LAST.as_bytes()).expect("room to send");
                client
            })
            .collect();
        for client in &mut clients {
            ask(client, "").expect("an answer");
            assert_eq!(ask(client, ""), None, "the connection ends");
        }
    });
    let lives = lives(&calls);
    assert_eq!(lives.len(), CONNECTIONS);
    let least = ["accept4", "recvfrom", "sendto", "close"];
    // A request that comes after its connection has to be waited for.
    let waited = ["accept4", "recvfrom", "epoll_ctl", "recvfrom", "sendto", "close"];
    for life in &lives {
        assert!(*life == least || *life == waited, "{life:?}");
    }
    assert!(lives.iter().any(|life| *life == least), "{lives:?}");
    // Beside that there are only waits, ticks, and the ends of rounds of taking.
    let others = count(&calls, |call| {
        let is_life = least.contains(&&*call.name) || call.name == "epoll_ctl";
        !is_life && !call.name.starts_with("epoll_") && !is_tick(call)
    });
    assert!(others <= ENDING, "{calls:#?}");
}

/// Calls of a worker that ends: it reads its waker, and gives back its memory.
const ENDING: usize = 20;

#[test]
fn an_injected_getpeername_is_made_for_each_request() {
    if strace::is_here() {
        let calls = keep_alive(&["--cause", "peername=3"]);
        assert_eq!(count(&calls, named("getpeername")), 3 * REQUESTS);
        assert_eq!(count(&keep_alive(&[]), named("getpeername")), 0);
    }
}

#[test]
fn an_injected_file_is_opened_for_each_request() {
    if strace::is_here() {
        let calls = keep_alive(&["--cause", "open=2"]);
        let opened = |call: &Call| call.name == "openat" && !call.has_failed();
        assert_eq!(count(&calls, opened), 2 * REQUESTS);
        let looked = |call: &Call| ["fstat", "statx", "newfstatat"].contains(&&*call.name);
        assert_eq!(count(&calls, looked), 2 * REQUESTS);
        assert_eq!(count(&keep_alive(&[]), opened), 0);
    }
}

#[test]
fn a_split_answer_takes_two_sends() {
    if strace::is_here() {
        let calls = keep_alive(&["--cause", "split"]);
        let sends: Vec<&str> =
            calls.iter().filter(|call| call.name == "sendto").map(|call| &*call.text).collect();
        assert_eq!(sends.len(), 2 * REQUESTS);
        assert!(sends.iter().step_by(2).all(|text| text.contains("HTTP/1.1 200 OK")));
        assert!(sends.iter().skip(1).step_by(2).all(|text| text.contains("\"Hello\"")));
        assert_eq!(count(&calls, named("setsockopt")), 0);
    }
}

#[test]
fn a_split_answer_with_nagle_stalls() {
    if !strace::is_here() {
        return;
    }
    let arguments = ["--fixed", "Hello", "--workers", "1", "--cause", "split-delayed"];
    let mut longest_ns = 0;
    let calls = trace(&arguments, |address| {
        let mut client = TcpStream::connect(address).expect("it listens");
        for _ in 0..REQUESTS {
            let start_ns = clock::monotonic_ns();
            ask(&mut client, GET).expect("an answer");
            longest_ns = longest_ns.max(clock::monotonic_ns() - start_ns);
        }
    });
    let nagle = |call: &Call| call.name == "setsockopt" && call.text.contains("TCP_NODELAY, [0]");
    assert_eq!(count(&calls, nagle), 1);
    assert_eq!(count(&calls, named("sendto")), 2 * REQUESTS);
    assert!(longest_ns >= STALL_NS, "no answer waited for an acknowledgement: {longest_ns} ns");
}

#[test]
fn a_connection_ends_after_its_injected_number_of_requests() {
    if !strace::is_here() {
        return;
    }
    let arguments = ["--fixed", "Hello", "--workers", "1", "--cause", "close-after=3"];
    let calls = trace(&arguments, |address| {
        for _ in 0..2 {
            let mut client = TcpStream::connect(address).expect("it listens");
            for number in 1..=3 {
                let answer = ask(&mut client, GET).expect("an answer");
                assert_eq!(answer.contains("Connection: close"), number == 3, "{answer}");
            }
            assert_eq!(ask(&mut client, ""), None, "the connection ends");
        }
    });
    assert_eq!(count(&calls, named("sendto")), 6);
}

/// How many threads took connections, and how often an accept found none.
fn takers(arguments: &[&str]) -> (usize, usize) {
    let arguments = [&["--fixed", "Hello", "--workers", "4"], arguments].concat();
    let calls = trace(&arguments, |address| {
        for _ in 0..CONNECTIONS {
            let mut client = TcpStream::connect(address).expect("it listens");
            ask(&mut client, LAST).expect("an answer");
        }
    });
    let took = |call: &&Call| call.name == "accept4" && !call.has_failed();
    let threads: HashSet<u32> = calls.iter().filter(took).map(|call| call.thread).collect();
    (threads.len(), count(&calls, |call| call.name == "accept4" && call.has_failed()))
}

#[test]
fn a_single_worker_takes_all_connections() {
    if strace::is_here() {
        assert_eq!(takers(&["--cause", "single-worker"]).0, 1);
        assert!(takers(&[]).0 > 1, "otherwise the kernel spreads them");
    }
}

#[test]
fn a_thundering_herd_wakes_for_nothing() {
    if strace::is_here() {
        let (_, spurious) = takers(&["--cause", "herd"]);
        let (_, spurious_without) = takers(&[]);
        assert!(
            spurious > spurious_without + CONNECTIONS / 4,
            "{spurious}, {spurious_without} without"
        );
    }
}

#[test]
fn a_line_is_written_for_each_request() {
    if strace::is_here() {
        let logged = |call: &Call| call.name == "write" && call.text.contains("\"127.0.0.1 - -");
        assert_eq!(count(&keep_alive(&["--cause", "log"]), logged), REQUESTS);
        assert_eq!(count(&keep_alive(&[]), logged), 0);
    }
}
