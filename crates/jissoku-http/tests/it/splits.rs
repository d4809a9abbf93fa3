//! Requests made up by a machine, good and bad: whatever they mean, the cuts do not matter.

use proptest::prelude::*;

use crate::transcript::{Ends, read, read_at_every_split};

/// Parts that a request is made of, with the odd wrong one among them.
fn part() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        8 => Just("GET / HTTP/1.1\r\n"), 2 => Just("POST /a HTTP/1.1\r\n"),
        1 => Just("PUT http://h/x HTTP/1.0\r\n"), 1 => Just("GET /\r\n"), 1 => Just("\r\n"),
    ];
    let field = prop_oneof![
        8 => Just("Host: a\r\n"), 3 => Just("Content-Length: 3\r\n"), 2 => Just("X: y\t\u{e9}\r\n"),
        3 => Just("Transfer-Encoding: chunked\r\n"), 1 => Just("Connection: close\r\n"),
        1 => Just("Expect: 100-continue\r\n"), 1 => Just("X : y\r\n"), 1 => Just(" fold\r\n"),
        1 => Just("X: y\n"), 1 => Just("X: y\rz\r\n"), 1 => Just("Host: b\r\n"),
    ];
    let rest = prop_oneof![
        8 => Just("\r\n"), 3 => Just("abc"), 3 => Just("3\r\nabc\r\n"), 3 => Just("0\r\n\r\n"),
        1 => Just("2;a=\"b\"\r\nab\r\n"), 1 => Just("0\r\nT: u\r\n\r\n"), 1 => Just("zz\r\n"),
        1 => Just("\n"), 1 => Just("\0"),
    ];
    prop_oneof![line, field, rest].prop_map(str::to_owned)
}

/// Requests that are in order, so that bodies and pipelines are reached often.
fn request() -> impl Strategy<Value = String> {
    let body = "[ -~]{0,40}";
    let plain = Just("GET /x?y HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n".to_owned());
    let length = body.prop_map(|body: String| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    });
    let chunks = prop::collection::vec(body, 0..4).prop_map(|chunks| {
        let head = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
        let full = chunks.iter().filter(|chunk| !chunk.is_empty());
        let add = |text, chunk: &String| format!("{text}{:x};e\r\n{chunk}\r\n", chunk.len());
        full.fold(head, add) + "0\r\nTrailer: x\r\n\r\n"
    });
    prop_oneof![plain, length, chunks]
}

fn bytes_of(parts: &[String]) -> Vec<u8> {
    parts.concat().chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect()
}

proptest! {
    #[test]
    fn cuts_do_not_matter_to_anything(parts in prop::collection::vec(part(), 0..12)) {
        read_at_every_split(&bytes_of(&parts));
    }

    #[test]
    fn cuts_do_not_matter_to_requests_in_order(requests in prop::collection::vec(request(), 0..4)) {
        let seen = read_at_every_split(&bytes_of(&requests));
        prop_assert_eq!(seen.ends, Ends::Idle);
        prop_assert_eq!(seen.requests.len(), requests.len());
        prop_assert!(seen.requests.iter().all(|request| request.is_whole));
    }

    #[test]
    fn one_changed_byte_is_judged_the_same_at_every_cut(
        requests in prop::collection::vec(request(), 1..3),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = bytes_of(&requests);
        let place = place.index(bytes.len());
        bytes[place] = byte;
        read_at_every_split(&bytes);
    }

    #[test]
    fn many_cuts_are_like_none(
        requests in prop::collection::vec(request(), 1..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = bytes_of(&requests);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([bytes.len()]);
        let pieces: Vec<&[u8]> = starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect();
        prop_assert_eq!(read(pieces), read([bytes.as_slice()]));
    }

    #[test]
    fn a_refusal_stands_whatever_follows(parts in prop::collection::vec(part(), 1..8)) {
        let bytes = bytes_of(&parts);
        let seen = read([bytes.as_slice()]);
        if let Ends::Refused(_) = seen.ends {
            prop_assert_eq!(read([&bytes[..], b"GET / HTTP/1.1\r\n\r\n"]), seen);
        }
    }
}
