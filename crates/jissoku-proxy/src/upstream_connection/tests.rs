//! Responses of servers at every split of their bytes, without sockets.

use crate::policy::configuration::{ClientEnd, Protocol};
use jissoku_http::head::HeadReader;
use jissoku_http::{Head, Limits};
use jissoku_os::driver::ConnectionId;

use super::*;
use crate::Slab;
use crate::config::Forwarding;
use crate::exchange::Exchange;
use crate::failure::Fault;
use crate::policy::statuses::Statuses;
use jissoku_server::ForwardedAnomalies;

/// What became of a response, whatever its split.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    status: u16,
    body_size: u64,
    is_reusable: bool,
    /// Bytes behind the response, or later on the unused connection.
    has_surplus: bool,
    fault: Option<Fault>,
    notes: ForwardedAnomalies,
    malformed: Option<Vec<u8>>,
}

fn head_of(request: &str) -> Head {
    let head = HeadReader::default().read(request.as_bytes(), &Limits::DEFAULT);
    head.expect("it is in order").expect("it is whole")
}

fn exchange_of(head: &Head, forwarding: Forwarding) -> Exchange {
    Exchange::new(ConnectionId::default(), head, (forwarding, Protocol::Http, 0), false)
}

/// A connection to which a request was sent.
fn busy(exchange: Key, endpoint: Arc<Endpoint>, is_head: bool) -> UpstreamConnection {
    let phase = Phase::Busy(exchange, Sending::Done);
    let mut connection = UpstreamConnection::new(phase, (0, endpoint), 0);
    connection.reader = ResponseReader::new(is_head);
    connection
}

/// Reads `pieces` as the response to `request`, which was sent as a whole or not.
fn read(request: &str, is_sent: bool, pieces: &[&[u8]]) -> Seen {
    let head = head_of(request);
    let mut exchange = exchange_of(&head, Forwarding::new(0, 0));
    let mut keys = Slab::default();
    let (key, endpoint) = (keys.insert(()), Arc::new(Endpoint::Unix("none".into())));
    let is_head = head.method == jissoku_http::Method::Head;
    let mut upstream = busy(key, endpoint, is_head);
    let mut seen = Seen::default();
    let mut is_complete = false;
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        if is_complete {
            // The handler drops a connection with such bytes, or counts them if it was unused.
            seen.has_surplus = true;
            seen.is_reusable = false;
            continue;
        }
        match upstream.read(piece, is_sent, &mut exchange, &Statuses::NONE) {
            Outcome::Partial => {}
            Outcome::Complete { is_reusable, has_excess } => {
                is_complete = true;
                (seen.is_reusable, seen.has_surplus) = (is_reusable, has_excess);
                let notes = exchange.logged(None, None, 0).outcome.notes;
                assert_eq!(notes.has(ForwardedAnomalies::EXCESS), has_excess);
            }
            Outcome::Failed(fault) => {
                seen.fault = Some(fault);
                break;
            }
            Outcome::Undecided { .. } => panic!("no status is retried"),
        }
    }
    let logged = exchange.logged(None, None, 0);
    let notes = logged.outcome.notes;
    seen.notes = if notes.has(ForwardedAnomalies::EARLY) {
        ForwardedAnomalies::EARLY
    } else {
        ForwardedAnomalies::NONE
    };
    seen.malformed = Some(logged.response.to_vec()).filter(|start| !start.is_empty());
    (seen.status, seen.body_size) = (exchange.status(), exchange.body_size());
    seen
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Reads a response at once, at every split and byte by byte: but for how much of a malformed head
/// was there when it was noticed, the result is the same.
fn at_every_split(request: &str, is_sent: bool, bytes: &[u8]) -> Seen {
    let whole = read(request, is_sent, &[bytes]);
    let check = |pieces: &[&[u8]], how: &dyn std::fmt::Debug| {
        let mut seen = read(request, is_sent, pieces);
        if let (Some(part), Some(all)) = (&seen.malformed, &whole.malformed) {
            assert!(!part.is_empty() && all.starts_with(part), "{how:?}: {part:?}");
            seen.malformed.clone_from(&whole.malformed);
        }
        assert_eq!(seen, whole, "{how:?}");
    };
    for at in 0..=bytes.len() {
        let (front, back) = bytes.split_at(at);
        check(&[front, back], &at);
    }
    check(&bytes.chunks(1).collect::<Vec<_>>(), &"byte by byte");
    whole
}

#[test]
fn a_malformed_head_is_kept_for_the_log() {
    for (head, start) in [
        ("HTTP/2 200 OK\r\n\r\n", "HTTP/2 200 OK\r\n\r\n"),
        ("HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nA b\r\n\r\n", "HTTP/1.1 200 OK\r\nA b\r\n\r\n"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        ),
        // Not what came before it.
        ("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 \0\r\n\r\n", "HTTP/1.1 \0\r\n\r\n"),
        ("HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n\x01", "HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n\x01"),
    ] {
        let seen = at_every_split(GET, true, head.as_bytes());
        assert!(seen.fault.is_some_and(Fault::is_malformed_head), "{head:?}");
        assert_eq!(seen.malformed.as_deref(), Some(start.as_bytes()), "{head:?}");
    }
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\nA b\r\n\r\n", "x".repeat(300));
    let seen = at_every_split(GET, true, long.as_bytes());
    assert_eq!(seen.malformed.as_deref(), Some(&long.as_bytes()[..200]));
    let many = "HTTP/1.1 102 Processing\r\n\r\n".repeat(17);
    let seen = at_every_split(GET, true, many.as_bytes());
    assert_eq!(seen.malformed.as_deref(), Some(&b"HTTP/1.1 102 Processing\r\n\r\n"[..]));
}

#[test]
fn what_is_too_large_or_incomplete_is_not_malformed() {
    let large = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    let seen = read(GET, true, &[large.as_bytes()]);
    assert!(seen.fault.is_some() && seen.malformed.is_none());
    let body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx";
    let seen = at_every_split(GET, true, body);
    assert!(seen.fault.is_some() && seen.malformed.is_none());
}

#[test]
fn bytes_behind_a_response_end_its_connection_however_they_come() {
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    for (request, response, body_size) in [
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 2),
        (GET, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 2),
        (GET, "HTTP/1.1 204 No Content\r\n\r\n", 0),
        (head, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", 0),
    ] {
        let exact = at_every_split(request, true, response.as_bytes());
        assert!(exact.is_reusable && !exact.has_surplus, "{response:?}");
        for surplus in ["\r\n", "x", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"] {
            let seen = at_every_split(request, true, format!("{response}{surplus}").as_bytes());
            assert!(seen.has_surplus && !seen.is_reusable, "{response:?} {surplus:?}");
            assert_eq!((seen.body_size, seen.fault), (body_size, None), "{response:?}");
        }
    }
}

#[test]
fn a_final_response_before_the_whole_request_is_early() {
    let response = b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    for (is_sent, notes) in [(true, ForwardedAnomalies::NONE), (false, ForwardedAnomalies::EARLY)] {
        let seen = at_every_split(GET, is_sent, response);
        assert_eq!((seen.notes, seen.is_reusable), (notes, is_sent));
    }
    // An interim one is not.
    let seen = at_every_split(GET, false, b"HTTP/1.1 103 Early\r\n\r\n");
    assert_eq!(seen.notes, ForwardedAnomalies::NONE);
}

#[test]
fn a_response_without_an_end_needs_a_reader_unless_it_is_finished() {
    let endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n";
    let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi";
    for (on_client_end, response, is_cancelled) in [
        (ClientEnd::Deliver, &endless[..], true),
        (ClientEnd::Deliver, sized, false),
        (ClientEnd::Finish, endless, false),
        (ClientEnd::Abort, endless, true),
    ] {
        let forwarding = Forwarding { on_client_end, ..Forwarding::new(0, 0) };
        let mut exchange = exchange_of(&head_of(GET), forwarding);
        let key = Slab::default().insert(());
        let mut upstream = busy(key, Arc::new(Endpoint::Unix("none".into())), false);
        let outcome = upstream.read(response, true, &mut exchange, &Statuses::NONE);
        assert_eq!((outcome, exchange.abort()), (Outcome::Partial, None));
        let ends = exchange.record_client_end().is_some();
        assert_eq!(ends, on_client_end == ClientEnd::Abort);
        assert!(!exchange.is_without_reader(999_999_999));
        assert_eq!(exchange.is_without_reader(1_000_000_000), is_cancelled, "{on_client_end:?}");
        // It is finished for a client that is gone only if there is a server.
        assert!(!exchange.is_finishable());
        exchange.enter_connection(key, false, 0);
        assert_eq!(exchange.is_finishable(), on_client_end == ClientEnd::Finish);
    }
}
