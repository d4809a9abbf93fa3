//! Responses produced while their requests are received, with every split of the bytes.

use jissoku_os::driver::{Action, ConnectionId, NewConnection, SendBuffer};

use super::*;
use crate::connection_limiter::Permit;
use crate::handler::RequestHead;
use crate::limits::Limits;
use crate::response::Response;
use crate::telemetry::Telemetry;

const SECOND_NS: u64 = 1_000_000_000;

/// Writes what it receives in brackets; the first letter of the path selects the behaviour.
#[derive(Debug, Default)]
struct Echo {
    /// Whether bodies are held back.
    is_holding: bool,
    hangups: usize,
}

#[derive(Debug, Default)]
struct EchoRequest {
    command: u8,
    received: Vec<u8>,
    has_begun: bool,
    has_ended: bool,
}

impl Handler for Echo {
    type Connection = ();
    type Request = EchoRequest;

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    fn on_head(&mut self, (): &mut (), head: &RequestHead<'_>) -> EchoRequest {
        EchoRequest { command: head.path_and_query().0[1], ..EchoRequest::default() }
    }

    fn body_flow(&self, _: &EchoRequest) -> BodyFlow {
        if self.is_holding { BodyFlow::Hold } else { BodyFlow::Receive }
    }

    fn on_body(&mut self, request: &mut EchoRequest, part: &[u8]) {
        request.received.extend_from_slice(part);
    }

    fn on_end(&mut self, request: &mut EchoRequest) {
        request.has_ended = true;
    }

    fn on_hangup(&mut self, (): &mut (), _: &mut EchoRequest) {
        self.hangups += 1;
    }

    fn respond(
        &mut self,
        (): &mut (),
        request: &mut EchoRequest,
        response: &mut Response<'_>,
    ) -> Progress {
        if request.command == b'w' && !request.has_ended {
            return Progress::Pending;
        }
        if !std::mem::replace(&mut request.has_begun, true) {
            let close: &[u8] = if response.keeps_alive() { b"" } else { b"!" };
            response.append(close);
            response.append(b"<");
            response.set_sent(200, 0);
            if request.command == b'u' {
                response.upgrade();
            }
        }
        response.append(&std::mem::take(&mut request.received));
        if !request.has_ended && request.command != b'e' {
            return Progress::Pending;
        }
        response.append(b">");
        Progress::Complete
    }
}

struct Scene {
    context: WorkerContext<Echo>,
    connection: Connection<Echo>,
    output: SendBuffer,
}

impl Scene {
    fn new() -> Self {
        let telemetry = Telemetry::default();
        let limits = Limits { pace_min_bps: 240, linger_size_max: 256 * 1024, ..Limits::DEFAULT };
        let context = WorkerContext::new(Echo::default(), limits, telemetry, SECOND_NS);
        let connection = Connection::new(ConnectionId::default(), Permit::default(), (), SECOND_NS);
        Self { context, connection, output: SendBuffer::default() }
    }

    fn send(&mut self, text: &[u8]) -> Action {
        self.connection.on_data(text, &mut self.context, &mut self.output)
    }

    fn resume(&mut self, seconds: u64) -> Action {
        self.context.now_ns += seconds * SECOND_NS;
        self.connection.resume(0, &mut self.context, &mut self.output)
    }

    fn text(&mut self) -> String {
        let mut bytes = vec![0; self.output.size()];
        self.output.drain_into(&mut bytes).expect("it is all in memory");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Sends `input` in two parts at every place, and byte by byte.
fn check_splits(input: &str, expected: &str, end: Action) {
    let bytes = input.as_bytes();
    for place in 0..=bytes.len() {
        let mut scene = Scene::new();
        let mut next = Action::Receive;
        for part in [&bytes[..place], &bytes[place..]] {
            if !part.is_empty() {
                next = scene.send(part);
            }
        }
        assert_eq!((scene.text().as_str(), next), (expected, end), "{input:?} at {place}");
    }
    let mut scene = Scene::new();
    let nexts: Vec<_> = bytes.iter().map(|byte| scene.send(&[*byte])).collect();
    assert_eq!((scene.text().as_str(), nexts.last()), (expected, Some(&end)), "{input:?}");
}

#[test]
fn a_body_is_answered_while_it_arrives_however_it_is_split() {
    let sized = "POST /d HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef";
    let chunked = "POST /d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\nabc\r\n3;x\r\ndef\r\n0\r\nA: b\r\n\r\n";
    let whole = sized.replace("/d", "/w");
    for input in [sized, chunked, whole.as_str()] {
        check_splits(input, "<abcdef>", Action::Receive);
        check_splits(&input.repeat(2), "<abcdef><abcdef>", Action::Receive);
    }
    let mut scene = Scene::new();
    scene.send(&sized.as_bytes()[..sized.len() - 4]);
    assert_eq!(scene.text(), "<ab", "before the rest is there");
}

#[test]
fn bytes_after_an_upgrade_are_passed_on_as_they_are() {
    let input = "GET /u HTTP/1.1\r\nHost: a\r\n\r\nGET /d HTTP/1.1\r\n\r\n";
    check_splits(input, "<GET /d HTTP/1.1\r\n\r\n", Action::Receive);
    let mut scene = Scene::new();
    scene.send(input.as_bytes());
    scene.text();
    let next = scene.connection.on_eof(&mut scene.context, &mut scene.output);
    assert_eq!((scene.text().as_str(), next), (">", Action::Close));
}

#[test]
fn receiving_is_suspended_and_resumed() {
    let mut scene = Scene::new();
    scene.context.handler.is_holding = true;
    let head = b"POST /d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na";
    assert_eq!(scene.send(head), Action::Suspend);
    assert_eq!(scene.resume(3_600), Action::Suspend, "its pace does not count meanwhile");
    scene.connection.on_hangup(&mut scene.context);
    assert_eq!(scene.context.handler.hangups, 1);
    scene.context.handler.is_holding = false;
    assert_eq!(scene.resume(0), Action::Receive);
    assert_eq!(scene.resume(5), Action::Receive, "its grace begins now");
    assert_eq!(scene.send(b"bc"), Action::Receive);
    assert_eq!(scene.text(), "<abc>");
}

#[test]
fn a_streamed_body_below_the_minimum_rate_times_out() {
    for (path, text) in [("/d", "<a"), ("/w", "")] {
        let mut scene = Scene::new();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3000\r\n\r\na");
        assert_eq!(scene.send(head.as_bytes()), Action::Receive);
        assert_eq!(scene.resume(5), Action::Receive);
        let next = scene.resume(2);
        let expected = if text.is_empty() { Action::ShutdownWrite } else { Action::Close };
        assert_eq!(next, expected);
        let all = scene.text();
        assert!(if text.is_empty() { all.starts_with("HTTP/1.1 408") } else { all == text });
    }
}

#[test]
fn a_streamed_body_that_stops_after_a_fast_start_times_out() {
    let mut scene = Scene::new();
    let head = "POST /w HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    assert_eq!(scene.send(head.as_bytes()), Action::Receive);
    assert_eq!(scene.send(&vec![b'a'; 900_000]), Action::Receive);
    let after = (1..100).find(|_| scene.resume(1) == Action::ShutdownWrite);
    assert_eq!(after, Some(37), "30 s ahead of the rate, and the grace");
    assert!(scene.text().starts_with("HTTP/1.1 408"));
}

#[test]
fn a_100_is_sent_when_the_body_is_wanted() {
    let head = "POST /w HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let mut scene = Scene::new();
    scene.context.handler.is_holding = true;
    assert_eq!(scene.send(head.as_bytes()), Action::Suspend);
    assert_eq!(scene.text(), "");
    scene.context.handler.is_holding = false;
    assert_eq!(scene.resume(0), Action::Receive);
    assert_eq!(scene.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(scene.send(b"abc"), Action::Receive);
    assert_eq!(scene.text(), "<abc>", "and the connection persists");
    // A client that does not wait for it needs none.
    let mut scene = Scene::new();
    scene.send(format!("{head}abc").as_bytes());
    assert_eq!(scene.text(), "<abc>");
}

#[test]
fn after_an_early_response_the_connection_is_usable_or_closed() {
    let head =
        |size: usize| format!("POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
    let mut scene = Scene::new();
    assert_eq!(scene.send(head(4).as_bytes()), Action::Receive);
    assert_eq!(scene.text(), "<>");
    assert_eq!(scene.send(format!("abcd{}ab", head(2)).as_bytes()), Action::Receive);
    assert_eq!(scene.text(), "<ab>", "the rest was discarded");
    // Too much to discard.
    let mut scene = Scene::new();
    assert_eq!(scene.send(head(1_000_000).as_bytes()), Action::Receive);
    let part = vec![b'a'; 200_000];
    assert_eq!(scene.send(&part), Action::Receive);
    assert_eq!(scene.send(&part), Action::Close);
    // As much in chunks of a byte, for which the connection yields.
    let mut scene = Scene::new();
    let chunked = "POST /e HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(scene.send(chunked.as_bytes()), Action::Receive);
    let part = b"1\r\na\r\n".repeat(5_000);
    let after = (0..100).find(|_| {
        let mut next = scene.send(&part);
        while next == Action::Yield {
            next = scene.resume(0);
        }
        next != Action::Receive
    });
    assert_eq!(after, Some(52), "256 KiB are 53 times 5,000 bytes");
    // The client waits for a 100 that is not sent: it may send the body or not.
    let mut scene = Scene::new();
    scene.context.handler.is_holding = true;
    let expects = head(4).replace("Host", "Expect: 100-continue\r\nHost");
    assert_eq!(scene.send(expects.as_bytes()), Action::ShutdownWrite);
    assert_eq!(scene.text(), "!<>");
}

#[test]
fn a_broken_body_ends_a_response_that_has_begun() {
    let head = "POST /d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
    let mut scene = Scene::new();
    scene.send(head.as_bytes());
    assert_eq!(scene.send(b"nonsense\r\n"), Action::Close);
    assert_eq!(scene.text(), "<a", "no second response follows");
    let mut scene = Scene::new();
    scene.send(head.replace("/d", "/w").as_bytes());
    assert_eq!(scene.send(b"nonsense\r\n"), Action::ShutdownWrite);
    assert!(scene.text().starts_with("HTTP/1.1 400 "));
}
