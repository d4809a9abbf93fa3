//! Timeouts for each kind of slow client, over real sockets.
//!
//! The timeouts are shorter than the driver's interval, so that a test takes one second. Their
//! exact values are tested in `src/connection/tests.rs` with simulated time.

use jissoku_lab::fixtures::Echo;
use jissoku_server::{DynService, Fixed, Limits, Settings};

use crate::client::{Client, Target, contract, free_port};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

/// Timeouts shorter than the driver's interval, except that of a head: a client that is preempted
/// after it has connected could not send in time.
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

fn serve(limits: Limits, service: impl Into<DynService>) -> Target {
    Target::start(Settings { limits, ..Settings::new(free_port()) }, service)
}

/// Sends `before`, and then `piece` repeatedly at intervals; returns the status of the response.
fn drip(limits: Limits, before: &str, piece: &str) -> Option<u16> {
    let target = serve(limits, contract());
    let mut client = target.connect();
    client.send(before);
    client.drip(piece)
}

#[test]
fn a_silent_client_is_closed_without_a_response() {
    // The idle timeout does not apply before the first request.
    let limits = Limits { idle_ns_max: u64::MAX, ..impatient() };
    assert_eq!(drip(limits, "", ""), None);
}

#[test]
fn an_idle_client_is_closed_without_a_response() {
    let target = serve(impatient(), contract());
    let mut client = target.connect();
    client.send(GET);
    assert_eq!(client.answer().status, 200);
    client.expect_end();
}

/// As [`drip`] for concurrent clients, which all get a 408.
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

/// Sends requests until the server resets the connection of a client that does not read.
fn ask_without_reading(client: &mut Client) {
    let requests = GET.repeat(10_000);
    while client.try_send(requests.as_bytes()).is_ok() {}
}

#[test]
fn a_client_that_does_not_read_is_reset() {
    let target = serve(impatient(), contract());
    ask_without_reading(&mut target.connect());
}

#[test]
fn a_client_that_reads_slowly_is_reset() {
    let target = serve(impatient(), Fixed::new(&large()));
    let mut client = target.connect();
    client.send(GET);
    client.sip();
}

#[test]
fn a_half_closed_client_that_does_not_read_is_reset() {
    let target = serve(impatient(), Fixed::new(&large()));
    let mut client = target.connect();
    client.send(GET);
    client.finish();
    client.sip();
}

/// More than sockets buffer.
fn large() -> String {
    "x".repeat(32 * 1024 * 1024)
}

#[test]
fn a_client_at_the_minimum_rate_is_served() {
    let limits = Limits { pace_grace_ns: 1, pace_min_bps: 1, ..Limits::DEFAULT };
    let target = serve(limits, Echo::new());
    let mut client = target.connect();
    client.send(&format!("{POST}Content-Length: 60\r\n\r\n"));
    for _ in 0..60 {
        client.idle();
        client.send("x");
    }
    assert_eq!(client.answer().text(), "x".repeat(60));
}
