//! A load that starts at a time that it is given.

use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use jissoku_load::{Control, Outcome, RunError, Starter, run};
use jissoku_os::clock;

use crate::plan;
use crate::scripted::{Act, HELLO, Server};

const AHEAD_NS: u64 = 50_000_000;

/// The two clocks of a load generator differ by less, within a test.
const CLOCKS_NS: u64 = 1_000_000;

/// A run of ten requests that gets this line when it says that it is connected.
fn started(server: &Server, line: impl Fn() -> String) -> Result<Outcome, RunError> {
    let (interrupt, _never) = UnixStream::pair().expect("a pair can be had");
    let (read, write) = UnixStream::pair().expect("a pair can be had");
    let on_armed = || {
        assert_eq!(server.requests(), 0, "nothing is sent before the start");
        (&write).write_all(line().as_bytes()).expect("it is read");
        write.shutdown(std::net::Shutdown::Write).expect("it is open");
    };
    let control = Control {
        interrupt: interrupt.as_fd(),
        on_window_event: &|_| {},
        observer: None,
        starter: Some(Starter { on_armed: &on_armed, line: read.as_fd() }),
    };
    run(&plan(&[server.url()], 10), control)
}

#[test]
fn it_starts_at_the_time_that_it_is_given() {
    static FIRST_NS: AtomicU64 = AtomicU64::new(u64::MAX);
    let server = Server::new(|_| {
        FIRST_NS.fetch_min(clock::monotonic_ns(), Ordering::SeqCst);
        Act::Say(HELLO.to_owned())
    });
    let start_ns = AtomicU64::new(0);
    let outcome = started(&server, || {
        start_ns.store(clock::monotonic_ns() + AHEAD_NS, Ordering::SeqCst);
        format!("{}\n", start_ns.load(Ordering::SeqCst))
    });
    assert_eq!(outcome.expect("it can be measured").targets[0].counters.requests, 10);
    let first_ns = FIRST_NS.load(Ordering::SeqCst);
    assert!(first_ns + CLOCKS_NS >= start_ns.load(Ordering::SeqCst));
}

#[test]
fn another_line_is_refused() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let lines: [fn() -> String; 4] = [
        || format!("{}\n", clock::monotonic_ns()),
        || "soon\n".to_owned(),
        || "123".to_owned(),
        || "1".repeat(100),
    ];
    for line in lines {
        let refused = started(&server, line);
        assert!(matches!(refused, Err(RunError::NotStarted { .. })), "{refused:?}");
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn an_interrupt_ends_the_wait_for_the_line() {
    let server = Server::new(|_| Act::Say(HELLO.to_owned()));
    let (interrupt, bell) = UnixStream::pair().expect("a pair can be had");
    let (line, _silent) = UnixStream::pair().expect("a pair can be had");
    let on_armed = || (&bell).write_all(b"!").expect("it is read");
    let control = Control {
        interrupt: interrupt.as_fd(),
        on_window_event: &|_| {},
        observer: None,
        starter: Some(Starter { on_armed: &on_armed, line: line.as_fd() }),
    };
    let ended = run(&plan(&[server.url()], 10), control);
    assert!(matches!(ended, Err(RunError::Interrupted)), "{ended:?}");
}
