use proptest::prelude::*;

use super::*;
use crate::reject::Reject;

/// What was understood of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Transcript {
    interim: Vec<u16>,
    status: u16,
    body: Vec<u8>,
    trailers: Vec<u8>,
    /// Bytes after the end.
    excess: usize,
    ended: Option<Result<(), BadResponse>>,
}

/// Reads `pieces` as they would come from the network, and then the end of the connection.
fn read(is_head: bool, pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Transcript {
    let mut reader = ResponseReader::new(is_head);
    let mut seen = Transcript::default();
    let mut rest = Vec::new();
    for piece in pieces {
        rest.extend_from_slice(piece.as_ref());
        while seen.ended.is_none() {
            let step = match reader.step(&rest) {
                Ok(step) => step,
                Err(error) => {
                    seen.ended = Some(Err(error));
                    // How much came before the error depends on the split.
                    seen.trailers.clear();
                    return seen;
                }
            };
            match step.event {
                ResponseEvent::Partial => {
                    rest.drain(..step.used);
                    break;
                }
                ResponseEvent::Interim(head) => seen.interim.push(head.status),
                ResponseEvent::Head(head) => seen.status = head.status,
                ResponseEvent::Body(place) => seen.body.extend_from_slice(&rest[place]),
                ResponseEvent::Trailers(place) => seen.trailers.extend_from_slice(&rest[place]),
                ResponseEvent::End => seen.ended = Some(Ok(())),
            }
            rest.drain(..step.used);
        }
    }
    seen.excess = if seen.ended.is_some() { rest.len() } else { 0 };
    seen.ended = seen.ended.or_else(|| Some(reader.finish()));
    seen
}

/// Reads the bytes at once, at every split, and byte by byte: the result is the same.
fn read_at_every_split(is_head: bool, bytes: &[u8]) -> Transcript {
    let whole = read(is_head, [bytes]);
    for at in 0..=bytes.len() {
        let (front, back) = bytes.split_at(at);
        assert_eq!(read(is_head, [front, back]), whole, "split at {at}");
    }
    assert_eq!(read(is_head, bytes.chunks(1)), whole, "byte by byte");
    whole
}

fn check(bytes: &str, status: u16, body: &str) {
    let seen = read_at_every_split(false, bytes.as_bytes());
    let seen = (seen.ended, seen.status, String::from_utf8_lossy(&seen.body).into_owned());
    assert_eq!(seen, (Some(Ok(())), status, body.to_owned()), "{bytes:?}");
}

fn check_error(bytes: &str, error: BadResponse) {
    assert_eq!(read_at_every_split(false, bytes.as_bytes()).ended, Some(Err(error)), "{bytes:?}");
}

#[test]
fn keep_alive_has_the_time_for_which_a_connection_is_kept() {
    for (fields, seconds) in [
        ("", None),
        ("Keep-Alive: timeout=5\r\n", Some(5)),
        ("keep-alive: max=100, Timeout = 72\r\n", Some(72)),
        ("Keep-Alive: timeout=5\r\nKeep-Alive: timeout=3, timeout=1\r\n", Some(3)),
        ("Keep-Alive: timeout=0\r\nConnection: keep-alive\r\n", Some(0)),
        ("Keep-Alive: max=100\r\n", None),
        ("Keep-Alive: timeout=-1, timeout\r\n", None),
        ("Keep-Alive: timeout=4294967296\r\n", None),
        ("Keep-Alive: \r\n", None),
    ] {
        let bytes = format!("HTTP/1.1 204 No Content\r\n{fields}\r\n");
        let step = ResponseReader::new(false).step(bytes.as_bytes()).unwrap();
        let ResponseEvent::Head(head) = step.event else { panic!("{step:?}") };
        assert_eq!(head.keep_alive_s, seconds, "{fields:?}");
    }
}

#[test]
fn bodies_are_delimited_as_in_rfc_9112() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi");
    check("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, "");
    check("HTTP/1.0 404 \r\n\r\nuntil the end", 404, "until the end");
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nT: x\r\n\r\n",
        200,
        "hi",
    );
    check("HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", 204, "");
    check("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, "");
    let head = read_at_every_split(true, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    assert_eq!((head.status, head.ended), (200, Some(Ok(()))));
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let bytes = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let seen = read_at_every_split(false, bytes.as_bytes());
    assert_eq!((seen.interim, seen.status), (vec![100, 103], 200));
    let many = "HTTP/1.1 102 Processing\r\n\r\n".repeat(17);
    check_error(&many, BadResponse::InterimTooMany);
    let large = format!("HTTP/1.1 103 Early Hints\r\nX: {}\r\n\r\n", "x".repeat(20_000)).repeat(2);
    let seen = read(false, [large.as_bytes()]);
    assert_eq!(seen.ended, Some(Err(BadResponse::InterimTooMany)));
}

#[test]
fn a_switch_of_protocols_is_the_last_response() {
    let bytes = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x00";
    let seen = read_at_every_split(false, bytes);
    assert_eq!((seen.status, seen.excess, seen.ended), (101, 2, Some(Ok(()))));
}

#[test]
fn what_another_reader_could_take_differently_is_an_error() {
    use BadResponse::{Field, Incomplete, Status, StatusLine};
    check_error("HTTP/2 200 OK\r\n\r\n", StatusLine);
    check_error("HTTP/1.1 20 OK\r\n\r\n", StatusLine);
    check_error("HTTP/1.1  200 OK\r\n\r\n", StatusLine);
    check_error("HTTP/1.1 200 OK\n\r\n", StatusLine);
    check_error("HTTP/1.1 200 O\0K\r\n\r\n", StatusLine);
    check_error("\r\nHTTP/1.1 200 OK\r\n\r\n", StatusLine);
    check_error("HTTP/1.1 099 No\r\n\r\n", Status);
    check_error("HTTP/1.1 600 No\r\n\r\n", Status);
    let with = |fields: &str, reject| {
        check_error(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"), Field(reject));
    };
    with("Content-Length: 1\r\nContent-Length: 1", Reject::ContentLengthDuplicate);
    with("Content-Length: 1\r\nTransfer-Encoding: chunked", Reject::FramingConflict);
    with("Content-Length: +1", Reject::ContentLengthInvalid);
    with("Content-Length: 1, 1", Reject::ContentLengthInvalid);
    with("Transfer-Encoding: gzip, chunked", Reject::TransferEncodingUnknown);
    with("A: b\r\n c", Reject::ObsoleteFold);
    with("A : b", Reject::SpaceBeforeColon);
    with("A: b\rc", Reject::BareCr);
    with("A: \0", Reject::ControlByte);
    check_error(
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Field(Reject::TransferEncodingEarly),
    );
    check_error("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", Incomplete);
    check_error("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", Incomplete);
    check_error("HTTP/1.1 200 OK\r\nA: b\r\n", Incomplete);
    check_error("", Incomplete);
    check_error(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        BadResponse::Chunk(Reject::ChunkSizeInvalid),
    );
}

#[test]
fn heads_are_limited() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(101));
    let seen = read(false, [many.as_bytes()]).ended;
    assert_eq!(seen, Some(Err(BadResponse::Field(Reject::FieldsTooMany))));
    let large = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(40_000));
    let seen = read(false, [large.as_bytes()]).ended;
    assert!(matches!(seen, Some(Err(BadResponse::Field(_)))), "{seen:?}");
}

fn part() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("HTTP/1.1 200 OK\r\n"), 1 => Just("HTTP/1.0 200 OK\r\n"),
        2 => Just("HTTP/1.1 103 Early Hints\r\n"), 1 => Just("HTTP/1.1 204\r\n"),
        3 => Just("Content-Length: 3\r\n"), 3 => Just("Transfer-Encoding: chunked\r\n"),
        2 => Just("Connection: close\r\n"), 2 => Just("X: y\t z \r\n"), 1 => Just("X : y\r\n"),
        1 => Just(" fold\r\n"), 1 => Just("X: y\n"), 6 => Just("\r\n"), 3 => Just("abc"),
        2 => Just("3\r\nabc\r\n"), 2 => Just("0\r\n\r\n"), 1 => Just("\0"),
    ]
}

proptest! {
    #[test]
    fn splits_do_not_matter(parts in prop::collection::vec(part(), 0..10), is_head in any::<bool>()) {
        read_at_every_split(is_head, parts.concat().as_bytes());
    }

    #[test]
    fn heads_are_read_as_httparse_reads_them(parts in prop::collection::vec(part(), 1..8)) {
        let bytes = parts.concat();
        let ours = ResponseHeadReader::default().read(bytes.as_bytes(), &RESPONSE_LIMITS);
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut theirs = httparse::Response::new(&mut fields);
        let outcome = theirs.parse(bytes.as_bytes());
        if let Ok(Some(head)) = ours {
            prop_assert_eq!(outcome, Ok(httparse::Status::Complete(head.size as usize)));
            prop_assert_eq!(theirs.code, Some(head.status));
            let theirs = theirs.headers.iter().map(|field| (field.name.as_bytes(), field.value));
            prop_assert!(theirs.eq(head.fields(bytes.as_bytes())));
        }
    }
}

#[test]
fn trailers_are_returned_as_lines_and_a_cr() {
    let check = |end: &str, trailers: &str| {
        let bytes = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{end}GET");
        let seen = read_at_every_split(false, bytes.as_bytes());
        let text = String::from_utf8_lossy(&seen.trailers).into_owned();
        assert_eq!((text.as_str(), seen.ended), (trailers, Some(Ok(()))), "{end:?}");
        assert_eq!((seen.excess, seen.body.as_slice()), (3, &b"hi"[..]), "{end:?}");
    };
    check("2\r\nhi\r\n0\r\n\r\n", "\r");
    check("2\r\nhi\r\n00;a=b\r\nT: x\r\nSum: 1\r\n\r\n", "T: x\r\nSum: 1\r\n\r");
}

#[test]
fn a_response_has_as_many_fields_as_it_may() {
    let fields = |count: usize| "A: b\r\n".repeat(count);
    let read = |fields_max: u32, count: usize| {
        let head = format!("HTTP/1.1 200 OK\r\n{}\r\n", fields(count));
        let mut reader = ResponseReader::new(true).with_fields_max(fields_max);
        reader.step(head.as_bytes()).is_ok()
    };
    assert_eq!((read(100, 100), read(100, 101)), (true, false));
    assert_eq!((read(400, 400), read(400, 401)), (true, false));
    let unsaid = format!("HTTP/1.1 200 OK\r\n{}\r\n", fields(101));
    assert!(ResponseReader::new(true).step(unsaid.as_bytes()).is_err());
    // Of trailers, too.
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
    for (count, is_right) in [(3, true), (4, false)] {
        let mut reader = ResponseReader::new(false).with_fields_max(3);
        let text = format!("{chunked}{}\r\n", fields(count));
        let mut rest = text.as_bytes();
        let mut outcome = Ok(());
        while outcome.is_ok() && !rest.is_empty() {
            outcome = reader.step(rest).map(|step| rest = &rest[step.used..]);
        }
        assert_eq!(outcome.is_ok(), is_right, "{count}");
    }
}
