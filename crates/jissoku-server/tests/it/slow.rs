//! Limits of time for slow clients: each kind of slowness, over real sockets.
//!
//! The limits are over before the driver first looks, so that a test takes one of its seconds. That
//! they are over no sooner than they say is tested in `src/connection/tests.rs`, where time is a
//! number.

use jissoku_fixtures::Echo;
use jissoku_server::{AnyService, Fixed, Limits, Settings};

use crate::client::{Client, Target, contract, free_port};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

/// Limits that are over before the driver first looks; that of a head is not, because a client that
/// is interrupted after it connected could not send before it.
pub(crate) fn impatient() -> Limits {
    Limits {
        head_ns_max: 1_000_000_000,
        idle_ns_max: 1,
        pace_grace_ns: 1,
        pace_min_bps: 1_000_000,
        linger_ns_max: 1,
        ..Limits::DEFAULT
    }
}

fn serve(limits: Limits, service: impl Into<AnyService>) -> Target {
    Target::start(Settings { limits, ..Settings::new(free_port()) }, service)
}

/// Sends `before`, and then `piece` again and again, as slowly as the client likes: the status that
/// it gets.
fn drip(limits: Limits, before: &str, piece: &str) -> Option<u16> {
    let target = serve(limits, contract());
    let mut client = target.connect();
    client.send(before);
    let status = client.drip(piece);
    target.end();
    status
}

#[test]
fn who_never_says_anything_is_closed_without_a_word() {
    // The time between requests does not apply before the first.
    let limits = Limits { idle_ns_max: u64::MAX, ..impatient() };
    assert_eq!(drip(limits, "", ""), None);
}

#[test]
fn who_says_nothing_more_is_closed_without_a_word() {
    let target = serve(impatient(), contract());
    let mut client = target.connect();
    client.send(GET);
    assert_eq!(client.answer().status, 200);
    client.expect_end();
    target.end();
}

/// As [`drip`] for clients beside each other, who are all to be told that they take too long.
fn check(cases: &[(&str, &str)]) {
    std::thread::scope(|scope| {
        let drips =
            cases.iter().map(|case| (case, scope.spawn(|| drip(impatient(), case.0, case.1))));
        for (case, drip) in drips.collect::<Vec<_>>() {
            assert_eq!(drip.join().expect("the client ends"), Some(408), "{case:?}");
        }
    });
}

#[test]
fn a_head_that_never_ends_times_out() {
    check(&[("GET / HT", ""), ("GET /", "x"), ("GET / HTTP/1.1\r\nHost: a\r\n", "X: y\r\n")]);
}

#[test]
fn a_body_that_never_ends_times_out() {
    let head = format!("{POST}Content-Length: 1000000\r\n\r\n");
    check(&[(&head, ""), (&head, "x")]);
}

#[test]
fn chunks_that_never_end_time_out() {
    let head = format!("{POST}Transfer-Encoding: chunked\r\n\r\n");
    check(&[
        (&format!("{head}9;"), "x"),
        (&head, "1\r\nx\r\n"),
        (&format!("{head}0\r\n"), "X: y\r\n"),
    ]);
}

/// Asks until the server has had enough of a client that reads nothing.
fn ask_without_reading(client: &mut Client) {
    let requests = GET.repeat(10_000);
    while client.try_send(requests.as_bytes()).is_ok() {}
}

#[test]
fn who_does_not_read_is_cut_off() {
    let target = serve(impatient(), contract());
    ask_without_reading(&mut target.connect());
    target.end();
}

#[test]
fn who_reads_slowly_is_cut_off() {
    let target = serve(impatient(), Fixed::new(&large()));
    let mut client = target.connect();
    client.send(GET);
    client.sip();
    target.end();
}

#[test]
fn who_has_finished_and_does_not_read_is_cut_off() {
    let target = serve(impatient(), Fixed::new(&large()));
    let mut client = target.connect();
    client.send(GET);
    client.finish();
    client.sip();
    target.end();
}

/// More than sockets buffer.
fn large() -> String {
    "x".repeat(32 * 1024 * 1024)
}

#[test]
fn who_keeps_the_pace_is_served() {
    let limits = Limits { pace_grace_ns: 1, pace_min_bps: 1, ..Limits::DEFAULT };
    let target = serve(limits, Echo::new());
    let mut client = target.connect();
    client.send(&format!("{POST}Content-Length: 60\r\n\r\n"));
    for _ in 0..60 {
        client.idle();
        client.send("x");
    }
    assert_eq!(client.answer().text(), "x".repeat(60));
    target.end();
}
