//! Timeouts of a connection, with simulated time.

use std::sync::Arc;

use jissoku_os::driver::SendBuffer;

use super::*;
use crate::fixed::Fixed;
use crate::limits::{Limits, SHARED_SIZE_MIN};
use crate::telemetry::Telemetry;

const SECOND_NS: u64 = 1_000_000_000;
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

/// The maximum of one receive of the driver.
const RECEIVED_SIZE_MAX: usize = 32 * 1024;

/// A connection, its context and its output.
struct Scene {
    context: WorkerContext<Arc<Fixed>>,
    connection: Connection<Arc<Fixed>>,
    output: SendBuffer,
}

impl Scene {
    fn new() -> Self {
        Self::with_limits(Limits { pace_min_bps: 240, ..Limits::DEFAULT })
    }

    fn with_limits(limits: Limits) -> Self {
        let service = Arc::new(Fixed::new("Hello, World!"));
        let telemetry = Telemetry::default();
        let context = WorkerContext::new(service, limits, telemetry, SECOND_NS);
        let connection = Connection::new(ConnectionId::default(), Permit::default(), (), SECOND_NS);
        Self { context, connection, output: SendBuffer::default() }
    }

    /// The driver is about to close the connection, and finds bytes of the client unread.
    fn find_unread(&mut self) -> Action {
        self.connection.on_unread(&mut self.context)
    }

    fn send(&mut self, text: &str) -> Action {
        self.connection.on_data(text.as_bytes(), &mut self.context, &mut self.output)
    }

    /// Takes the output.
    fn text(&mut self) -> String {
        let mut bytes = vec![0; self.output.size()];
        self.output.drain_into(&mut bytes).expect("it is all in memory");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Advances the time by a second, after which the driver checks timeouts.
    fn wait(&mut self, unsent: usize) -> Action {
        self.context.now_ns += SECOND_NS;
        self.connection.resume(unsent, &mut self.context, &mut self.output)
    }

    /// Sends `piece` every second until the connection ends; returns the seconds and the last
    /// action.
    fn drip(&mut self, piece: &str) -> (u32, Action) {
        for seconds in 1..10_000 {
            let next = self.wait(0);
            if next != Action::Receive {
                return (seconds, next);
            }
            if !piece.is_empty() {
                assert_eq!(self.send(piece), Action::Receive, "{piece:?}");
            }
        }
        panic!("the connection never ends");
    }
}

fn check(before: &str, piece: &str, expected: (u32, Action)) {
    let mut scene = Scene::new();
    if !before.is_empty() {
        scene.send(before);
    }
    assert_eq!(scene.drip(piece), expected, "{before:?}, then {piece:?}");
}

#[test]
fn a_silent_connection_has_the_timeout_of_a_head() {
    check("", "", (11, Action::Close));
}

#[test]
fn a_connection_without_a_further_request_has_the_idle_timeout() {
    check(GET, "", (76, Action::Close));
}

#[test]
fn the_timeout_of_a_head_is_not_restarted_by_bytes() {
    check("\r\n", "", (11, Action::ShutdownWrite));
    check("G", "", (11, Action::ShutdownWrite));
    check("GET /", "x", (11, Action::ShutdownWrite));
    check("GET / HTTP/1.1\r\nHost: a\r\n", "X: y\r\n", (11, Action::ShutdownWrite));
    check(&format!("{GET}\r\n"), "", (11, Action::ShutdownWrite));
    check(&format!("{GET}GET"), "x", (11, Action::ShutdownWrite));
}

#[test]
fn a_rejected_head_request_gets_no_body() {
    let fields = "Host: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n";
    let refusal = |method: &str| {
        let mut scene = Scene::new();
        assert_eq!(scene.send(&format!("{method} / HTTP/1.1\r\n{fields}")), Action::ShutdownWrite);
        scene.text()
    };
    assert!(refusal("GET").ends_with("Content-Length: 12\r\n\r\nBad Request\n"));
    assert!(refusal("HEAD").ends_with("Content-Length: 12\r\n\r\n"), "{}", refusal("HEAD"));
    // The body is rejected, or its rate, after the head was discarded.
    let chunked = "HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (head, rest) in [(chunked, "x"), ("HEAD nowhere HTTP/1.1\r\n\r\n", "")] {
        let mut scene = Scene::new();
        scene.send(head);
        scene.send(rest);
        assert!(scene.text().ends_with("\r\n\r\n"), "{head}");
    }
    let mut scene = Scene::new();
    scene.send("HEAD /slow");
    assert_eq!(scene.drip(""), (11, Action::ShutdownWrite));
    let text = scene.text();
    assert!(text.starts_with("HTTP/1.1 408 ") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn a_body_below_the_minimum_rate_times_out() {
    let slow = format!("{POST}Content-Length: 1000000\r\n\r\n");
    check(&slow, "", (6, Action::ShutdownWrite));
    // After the grace period 240 bytes are due each second; earlier bytes count.
    check(&slow, "x", (6, Action::ShutdownWrite));
    check(&slow, &"x".repeat(100), (8, Action::ShutdownWrite));
    let mut scene = Scene::new();
    scene.send(&slow);
    for _ in 0..1_000 {
        assert_eq!(scene.wait(0), Action::Receive, "who keeps the pace is left alone");
        scene.send(&"x".repeat(240));
    }
}

/// Sends `before`, and then `piece` after each pause; returns the seconds until the connection ends.
fn pauses(before: &str, piece: &str, pause_s: u32) -> Option<u32> {
    let mut scene = Scene::with_limits(Limits::DEFAULT);
    scene.send(before);
    for second in 1..1_000 {
        if scene.wait(0) != Action::Receive {
            return Some(second);
        }
        if second % pause_s == 0 && !piece.is_empty() {
            scene.send(piece);
        }
    }
    None
}

#[test]
fn an_upload_may_pause_for_a_minute() {
    let sized = format!("{POST}Content-Length: 1000000\r\n\r\n");
    let chunked = format!("{POST}Transfer-Encoding: chunked\r\n\r\n");
    for (head, piece) in [(&sized, "x"), (&chunked, "1\r\nx\r\n"), (&chunked, "1")] {
        assert_eq!(pauses(head, piece, 59), None);
        assert_eq!(pauses(head, "", 59), Some(61));
        assert_eq!(pauses(head, piece, 62), Some(61));
    }
}

#[test]
fn a_download_may_pause_for_a_minute() {
    let mut scene = Scene::with_limits(Limits::DEFAULT);
    scene.send(GET);
    for round in 0..10 {
        for _ in 0..59 {
            assert_ne!(scene.wait(1_000_000 - round * 1_000), Action::Abort);
        }
    }
    assert_eq!((0..100).find(|_| scene.wait(1) == Action::Abort), Some(61));
}

#[test]
fn bytes_ahead_of_the_rate_count_for_30_seconds() {
    // Detected after a second; 30 s ahead of the rate, and the grace period.
    let start = format!("{POST}Content-Length: 1000000\r\n\r\n{}", "x".repeat(900_000));
    check(&start, "", (37, Action::ShutdownWrite));
    check(&start, &"x".repeat(120), (72, Action::ShutdownWrite));
}

/// A scene after a 413 to a body that may come nevertheless.
fn too_large(limits: Limits) -> Scene {
    let mut scene = Scene::with_limits(limits);
    let head = format!("{POST}Content-Length: {}\r\n\r\n", 1_u64 << 40);
    assert_eq!(scene.send(&head), Action::Receive);
    let text = scene.text();
    assert!(text.starts_with("HTTP/1.1 413 ") && text.contains("\r\nConnection: close\r\n"));
    scene
}

#[test]
fn a_body_that_is_too_large_is_discarded_before_the_connection_ends() {
    let mut scene = too_large(Limits::DEFAULT);
    let part = "x".repeat(1_000_000);
    for _ in 0..100 {
        assert_eq!(scene.send(&part), Action::Receive);
    }
    assert_eq!(scene.send(GET), Action::Receive);
    assert_eq!(scene.text(), "", "nothing more is answered");
    assert_eq!(scene.connection.on_eof(&mut scene.context, &mut scene.output), Action::Close);
}

#[test]
fn a_response_that_is_known_from_the_head_comes_in_place_of_a_100() {
    let head = format!("{POST}Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    let mut scene = Scene::new();
    assert_eq!(scene.send(&head), Action::ShutdownWrite);
    let text = scene.text();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("\r\nConnection: close\r\n"));
    // A client that sends the body nevertheless keeps its connection.
    let mut scene = Scene::new();
    assert_eq!(scene.send(&format!("{head}abc{GET}")), Action::Receive);
    let text = scene.text();
    assert_eq!(text.matches("HTTP/1.1 200 ").count(), 2, "{text}");
    assert!(!text.contains("Connection: close") && !text.contains(" 100 "), "{text}");
}

#[test]
fn what_is_discarded_is_bounded_in_bytes_time_and_connections() {
    let limits = Limits { linger_size_max: 10_000, ..Limits::DEFAULT };
    let mut scene = too_large(limits);
    assert_eq!(scene.send(&"x".repeat(10_000)), Action::Receive);
    assert_eq!(scene.send("x"), Action::Close);
    assert_eq!(too_large(Limits::DEFAULT).drip("x"), (31, Action::Close));
    assert_eq!(too_large(Limits::DEFAULT).drip(""), (6, Action::Close));
    let mut scene = too_large(Limits::DEFAULT);
    assert_eq!(scene.context.lingering, 1);
    let permit = Permit::default();
    let other = || Connection::new(ConnectionId::default(), permit, (), SECOND_NS);
    scene.context.lingering = LINGERING_MAX;
    let first = std::mem::replace(&mut scene.connection, other());
    assert_eq!(scene.send(&format!("{POST}Content-Length: 9999999\r\n\r\n")), Action::Close);
    first.end(&mut scene.context);
    scene.connection = other();
    assert_eq!(scene.send(&format!("{POST}Content-Length: 9999999\r\n\r\n")), Action::Receive);
}

#[test]
fn a_client_that_sends_beyond_a_limit_is_not_read_any_longer() {
    let limits = Limits { linger_size_max: 10_000, ..Limits::DEFAULT };
    // Behind the last response, and the rest of a body whose response is complete.
    let early = format!("{POST}Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n");
    for head in [early.clone(), format!("{POST}Content-Length: {}\r\n\r\n", 1_u64 << 40)] {
        for is_in_one in [false, true] {
            let mut scene = Scene::with_limits(limits);
            scene.send(&head);
            if is_in_one {
                scene.send(&"x".repeat(30_000));
            } else {
                for _ in 0..30 {
                    scene.send(&"x".repeat(1000));
                }
            }
            assert_eq!(scene.connection.state.next(), Action::Close, "{head}");
            assert_eq!(scene.find_unread(), Action::Close, "{head}");
            assert_eq!(scene.context.lingering, 0);
        }
    }
    for piece in ["x", ""] {
        let mut scene = too_large(Limits::DEFAULT);
        assert_eq!(scene.drip(piece).1, Action::Close);
        assert_eq!(scene.find_unread(), Action::Close, "{piece:?}");
    }
    let mut scene = Scene::new();
    scene.context.lingering = LINGERING_MAX;
    assert_eq!(scene.send(&early), Action::Close);
    scene.context.lingering -= 1;
    assert_eq!(scene.find_unread(), Action::Close, "it was refused, and is not asked again");
}

proptest::proptest! {
    /// Whatever the order of receives, pauses and closes with unread bytes: what is read behind the
    /// last response is bounded in bytes and in time.
    #[test]
    fn what_a_client_sends_behind_the_last_response_is_bounded(
        kind in 0..3_usize,
        turns in proptest::collection::vec((1..RECEIVED_SIZE_MAX, proptest::bool::weighted(0.2)), 40),
    ) {
        let size_max = 100_000;
        let linger_ns_max = 5 * SECOND_NS;
        let mut scene =
            Scene::with_limits(Limits { linger_size_max: size_max, linger_ns_max, ..Limits::DEFAULT });
        let mut next = scene.send(&[
            format!("{POST}Content-Length: {}\r\n\r\n", 1_u64 << 40),
            format!("{POST}Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"),
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
        ][kind]);
        let (mut sent, begun_ns) = (0, scene.context.now_ns);
        for (size, is_pause) in turns {
            if next == Action::Close {
                next = scene.find_unread();
            }
            if next == Action::Close {
                break;
            }
            next = if is_pause { scene.wait(0) } else {
                sent += size as u64;
                scene.send(&"x".repeat(size))
            };
        }
        // One receive of the driver, and one check of the time, may be beyond the limit.
        assert!(sent <= size_max + RECEIVED_SIZE_MAX as u64, "{sent}");
        assert!(scene.context.now_ns - begun_ns <= linger_ns_max + SECOND_NS);
    }
}

#[test]
fn a_connection_that_is_closed_lingers_once() {
    let limits = Limits { linger_size_max: 10_000, ..Limits::DEFAULT };
    let mut scene = Scene::with_limits(limits);
    assert_eq!(scene.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), Action::Close);
    assert_eq!(scene.find_unread(), Action::ShutdownWrite);
    assert_eq!(scene.send(&"x".repeat(10_000)), Action::ShutdownWrite);
    assert_eq!(scene.send("x"), Action::Close);
    assert_eq!(scene.find_unread(), Action::Close);
}

#[test]
fn chunk_framing_does_not_count_for_the_rate() {
    let slow = format!("{POST}Transfer-Encoding: chunked\r\n\r\n");
    // 600 bytes per second, of which 100 are the body.
    check(&slow, &"1\r\nx\r\n".repeat(100), (8, Action::ShutdownWrite));
    check(&format!("{slow}9;"), "x", (6, Action::ShutdownWrite));
    check(&format!("{slow}0\r\n"), "X: y\r\n", (6, Action::ShutdownWrite));
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let mut scene = Scene::new();
    scene.send(GET);
    let after = (0..100).find(|_| scene.wait(1_000_000) == Action::Abort);
    assert_eq!(after, Some(6), "a second passes before it is noticed, and five are its grace");
}

#[test]
fn a_client_that_reads_below_the_minimum_rate_is_closed() {
    let check = |pace, expected| {
        let mut scene = Scene::new();
        scene.send(GET);
        let mut unsent = 1_000_000;
        let after = (0..600).find(|_| {
            unsent -= pace;
            scene.wait(unsent) == Action::Abort
        });
        assert_eq!(after, expected, "{pace} bytes per second");
    };
    check(10, Some(6));
    check(200, Some(31));
    check(240, None);
}

#[test]
fn a_client_that_stops_reading_after_a_fast_start_is_closed() {
    let mut scene = Scene::new();
    scene.send(GET);
    for unsent in [10_000_000, 1_000_000] {
        assert_ne!(scene.wait(unsent), Action::Abort);
    }
    let after = (0..100).find(|_| scene.wait(1_000_000) == Action::Abort);
    assert_eq!(after, Some(35), "30 s ahead of the rate, and the grace");
}

#[test]
fn new_output_does_not_count_as_a_stall() {
    let mut scene = Scene::new();
    scene.send(GET);
    for second in 0..600 {
        assert_ne!(scene.wait(1_000_000 + second % 3 * 10_000 - second * 240), Action::Abort);
    }
}

#[test]
fn buffers_of_a_client_that_does_not_read_are_bounded() {
    let mut scene = Scene::new();
    let requests = GET.repeat(RECEIVED_SIZE_MAX / GET.len());
    assert_eq!(scene.send(&requests), Action::Yield);
    let held = scene.output.copied_size() + scene.connection.input.capacity();
    // A response that is copied may exceed the limit by this much.
    let held_max = held + SHARED_SIZE_MIN;
    assert!(held_max <= 64 * 1024, "{held_max} bytes");
    // Nothing is added while the output is not sent.
    for _ in 0..5 {
        assert_eq!(scene.wait(held), Action::Yield);
    }
    assert_eq!(scene.output.copied_size() + scene.connection.input.capacity(), held);
}

#[test]
fn requests_that_are_received_in_part_do_not_double_the_buffer() {
    let mut scene = Scene::new();
    let requests = GET.repeat(4 * RECEIVED_SIZE_MAX / GET.len());
    for bytes in requests.as_bytes().chunks(RECEIVED_SIZE_MAX) {
        let mut next = scene.send(std::str::from_utf8(bytes).expect("it is ASCII"));
        let capacity = scene.connection.input.capacity();
        assert!(capacity < RECEIVED_SIZE_MAX + GET.len(), "{capacity} bytes");
        while next == Action::Yield {
            assert_ne!(scene.text(), "");
            next = scene.wait(0);
        }
        assert_eq!(next, Action::Receive);
    }
}

#[test]
fn an_idle_connection_is_small() {
    let mut scene = Scene::new();
    scene.send(GET);
    assert_eq!(scene.connection.input.capacity(), 0, "its bytes are given back");
    let size = size_of::<Connection<Arc<Fixed>>>();
    assert!(size <= 320, "{size} bytes");
}
