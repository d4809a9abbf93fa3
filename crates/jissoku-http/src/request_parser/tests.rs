use proptest::prelude::*;

use super::*;

fn step(parser: &mut RequestParser, bytes: &[u8]) -> Step {
    parser.step(bytes, &Limits::DEFAULT).expect("the bytes are in order")
}

#[test]
fn a_request_with_a_body_ends_of_its_own() {
    let mut parser = RequestParser::new();
    let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiGET";
    let head = step(&mut parser, bytes);
    assert_eq!(head.used, bytes.len() - 5);
    assert!(matches!(head.event, Event::Head(_)));
    assert!(!parser.is_in_head());
    assert_eq!(step(&mut parser, b"h"), Step { used: 1, event: Event::Body(0..1) });
    assert_eq!(step(&mut parser, b""), Step { used: 0, event: Event::Partial });
    assert_eq!(step(&mut parser, b"iGET"), Step { used: 1, event: Event::Body(0..1) });
    assert_eq!(step(&mut parser, b"GET"), Step { used: 0, event: Event::End });
    assert!(parser.is_in_head());
    assert_eq!(step(&mut parser, b"GET"), Step { used: 0, event: Event::Partial });
}

#[test]
fn lines_that_were_read_are_not_read_again() {
    let mut parser = RequestParser::new();
    let first = b"GET /first HTTP/1.1\r\nHost: a\r\n";
    assert_eq!(step(&mut parser, first), Step { used: 0, event: Event::Partial });
    // The caller must give the same bytes again; other ones show what is not looked at.
    let second = b"XXX /first HTTP/1.1\r\nYYYY: a\r\n\r\n";
    assert!(matches!(step(&mut parser, second).event, Event::Head(_)));
}

/// The body of a request with a limit of its own, whose pieces come one after the other.
fn read_limited(size_max: u64, pieces: &[&[u8]]) -> Result<Vec<u8>, Reject> {
    let (mut parser, mut rest, mut body) = (RequestParser::new(), Vec::new(), Vec::new());
    for piece in pieces {
        rest.extend_from_slice(piece);
        loop {
            let step = parser.step(&rest, &Limits::DEFAULT)?;
            match step.event {
                Event::Head(_) => parser.limit_body(size_max)?,
                Event::Body(place) => body.extend_from_slice(&rest[place]),
                Event::Partial | Event::End => {
                    rest.drain(..step.used);
                    break;
                }
            }
            rest.drain(..step.used);
        }
    }
    Ok(body)
}

#[test]
fn a_body_has_a_limit_of_its_own_however_it_is_split() {
    let sized = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef";
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\nabc\r\n3;x\r\ndef\r\n0\r\n\r\n";
    for text in [sized, chunked] {
        let bytes = text.as_bytes();
        for (size_max, expected) in [
            (0, Err(Reject::BodyTooLong)),
            (5, Err(Reject::BodyTooLong)),
            (6, Ok(b"abcdef".to_vec())),
            (u64::MAX, Ok(b"abcdef".to_vec())),
        ] {
            for at in 0..=bytes.len() {
                let (front, back) = bytes.split_at(at);
                assert_eq!(read_limited(size_max, &[front, back]), expected, "{text:?} at {at}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(read_limited(size_max, &single), expected, "{text:?} byte by byte");
        }
    }
}

#[test]
fn the_limit_of_a_body_ends_with_it() {
    let mut parser = RequestParser::new();
    let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for size_max in [Some(1), None] {
        assert!(matches!(step(&mut parser, bytes).event, Event::Head(_)));
        if let Some(size_max) = size_max {
            assert_eq!(parser.limit_body(size_max), Ok(()));
            assert_eq!(step(&mut parser, b"0\r\n\r\n").event, Event::End);
        }
    }
    assert_eq!(step(&mut parser, b"2\r\nhi").event, Event::Body(3..5));
}

#[test]
fn it_is_small_enough_for_ten_thousand() {
    assert!(size_of::<RequestParser>() <= 160, "{} bytes", size_of::<RequestParser>());
}

/// All events of connections that share the last head, or of each alone. A connection is a list of
/// pieces that arrive one after the other; the connections take turns.
fn events(connections: &[Vec<Vec<u8>>], shares: bool) -> Vec<Result<Step, Reject>> {
    let mut last = LastHead::default();
    let mut states = vec![(RequestParser::new(), Vec::new(), true); connections.len()];
    let mut seen = Vec::new();
    let turns = connections.iter().map(Vec::len).max().unwrap_or_default();
    for turn in 0..turns {
        for (pieces, (parser, rest, is_open)) in connections.iter().zip(&mut states) {
            rest.extend_from_slice(pieces.get(turn).map_or(&[], Vec::as_slice));
            while *is_open {
                let step = if shares {
                    parser.step_after(&mut last, rest, &Limits::DEFAULT)
                } else {
                    parser.step(rest, &Limits::DEFAULT)
                };
                seen.push(step.clone());
                let Ok(Step { used, event }) = step else {
                    *is_open = false;
                    break;
                };
                rest.drain(..used);
                if event == Event::Partial || rest.is_empty() {
                    break;
                }
            }
        }
    }
    seen
}

/// Requests of which many begin with the bytes of others.
fn connection() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let request = prop::sample::select(
        &[
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n X: y\r\n\r\n",
            "GET /",
        ][..],
    );
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..4);
    (prop::collection::vec(request, 1..6), cuts).prop_map(|(requests, cuts)| {
        let bytes = requests.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([bytes.len()]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        starts.zip(ends).map(|(start, end)| bytes[start..end].to_vec()).collect()
    })
}

proptest! {
    #[test]
    fn a_head_that_is_not_parsed_again_is_the_same(
        connections in prop::collection::vec(connection(), 1..4)
    ) {
        prop_assert_eq!(events(&connections, true), events(&connections, false));
    }
}
