//! System calls of the load generator, observed with `strace(1)`: per request a send, a receive and
//! a share of a wait; the clock needs none.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread::spawn;

use super::strace::{Call, Log, all_calls, is_here};

/// Requests of the run. The first ones are skipped: they include the start.
const REQUESTS: usize = 400;
const FIRST: usize = 100;

/// Timers, such as timeout checks, expire a few times per second.
const NOW_AND_THEN: usize = 20;

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";

fn answer(mut client: TcpStream) {
    let mut buffer = [0; 4096];
    // A request arrives in one piece here: it is short, and sent with one call.
    while let Ok(1..) = client.read(&mut buffer) {
        if client.write_all(HELLO).is_err() {
            return;
        }
    }
}

/// The system calls of the sending thread between request `FIRST` and the last.
fn steady_state(arguments: &[&str]) -> Vec<Call> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it has a name"));
    // It ends with the test's process.
    let _serving = spawn(move || {
        for client in listener.incoming().flatten() {
            let _answering = spawn(move || answer(client));
        }
    });
    let log = Log::new();
    let status = Command::new("strace")
        .args(["-f", "-qq", "-s", "16", "-o"])
        .arg(log.path())
        .arg(env!("CARGO_BIN_EXE_jissoku"))
        .args(["load", "--driver", "epoll", "--format", "quiet", "--timeout", "60s"])
        .args(["-n", &REQUESTS.to_string(), &url])
        .args(arguments)
        .status();
    assert!(status.expect("strace starts").success(), "every request is answered");
    let calls = all_calls(&log.read());
    let is_request = |call: &&Call| call.name == "sendto" && call.text.contains("GET ");
    let thread = calls.iter().find(is_request).expect("something is sent").thread;
    let mine: Vec<Call> = calls.into_iter().filter(|call| call.thread == thread).collect();
    let sends: Vec<usize> = (0..mine.len()).filter(|&at| mine[at].name == "sendto").collect();
    assert_eq!(sends.len(), REQUESTS);
    let (first, last) = (sends[FIRST], sends[REQUESTS - 1]);
    mine.into_iter().skip(first + 1).take(last - first).collect()
}

fn count(calls: &[Call], is_it: impl Fn(&str) -> bool) -> usize {
    calls.iter().filter(|call| is_it(&call.name)).count()
}

fn is_wait(name: &str) -> bool {
    name.starts_with("epoll_") && name != "epoll_ctl"
}

#[test]
fn an_answer_of_the_closed_loop_is_a_wait_a_receive_and_a_send() {
    if !is_here() {
        return;
    }
    let calls = steady_state(&["-c", "1"]);
    let answers = REQUESTS - 1 - FIRST;
    assert_eq!(count(&calls, |name| name == "sendto"), answers);
    assert_eq!(count(&calls, |name| name == "recvfrom"), answers, "no receive returns nothing");
    let waits = count(&calls, is_wait);
    assert!((answers..=answers + NOW_AND_THEN).contains(&waits), "{waits} waits");
    let others = calls.len() - 2 * answers - waits;
    assert!(others <= NOW_AND_THEN, "{others} other calls");
    let timed = calls.iter().filter(|call| is_wait(&call.name) && !waits_for_ever(call)).count();
    assert!(timed <= NOW_AND_THEN, "{timed} waits had timers of their own");
    assert_eq!(count(&calls, |name| name.contains("time") && name.contains("get")), 0);
}

fn waits_for_ever(call: &Call) -> bool {
    ["-1", "NULL"].iter().any(|never| call.text.contains(never))
}

#[test]
fn a_request_of_the_open_loop_is_a_send_a_receive_and_two_waits_at_most() {
    if !is_here() {
        return;
    }
    let calls = steady_state(&["-c", "4", "-R", "400"]);
    let requests = REQUESTS - 1 - FIRST;
    assert_eq!(count(&calls, |name| name == "sendto"), requests);
    let receives = count(&calls, |name| name == "recvfrom");
    assert!((requests - 4..=requests + 4).contains(&receives), "{receives} receives");
    // One wait ends with a response and one because a request is due, unless both coincide.
    let waits = count(&calls, is_wait);
    assert!(waits <= 2 * requests + 4 + NOW_AND_THEN, "{waits} waits");
    assert_eq!(calls.len(), requests + receives + waits, "nothing else");
}
