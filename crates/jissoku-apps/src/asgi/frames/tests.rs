use super::*;

const MASK: [u8; 4] = [1, 2, 3, 4];

/// A frame as a client sends it.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(first, payload, &mut |part: &[u8]| bytes.extend_from_slice(part));
    bytes[1] |= 0x80;
    let mut masked = payload.to_vec();
    unmask(&mut masked, MASK);
    bytes.truncate(bytes.len() - payload.len());
    [&bytes[..], &MASK, &masked].concat()
}

fn decode(compresses: bool, parts: &[&[u8]]) -> Result<Vec<Event>, Failure> {
    let mut decoder = Decoder::new(compresses, 100_000);
    let (mut deflate, mut events) = (Deflate::default(), Vec::new());
    for part in parts {
        decoder.feed(part, &mut deflate, |event| events.push(event))?;
    }
    Ok(events)
}

#[test]
fn messages_are_the_same_however_they_are_split() {
    let long = "\u{e9}".repeat(40_000);
    let input = [
        frame(FIN | TEXT, b"one"),
        frame(BINARY, b"tw"),
        frame(FIN | PING, b"ping"),
        frame(CONTINUATION, b""),
        frame(FIN | CONTINUATION, b"o"),
        frame(TEXT, &long.as_bytes()[..301]),
        frame(FIN | CONTINUATION, &long.as_bytes()[301..]),
        frame(FIN | PONG, b""),
        frame(FIN | CLOSE, b"\x03\xe8bye"),
    ]
    .concat();
    let expected = vec![
        Event::Text("one".to_owned()),
        Event::Ping(b"ping".to_vec()),
        Event::Binary(b"two".to_vec()),
        Event::Text(long),
        Event::Pong,
        Event::Close(1000, "bye".to_owned()),
    ];
    for place in (0..60).chain([600, 1000, 70_000, input.len() - 1, input.len()]) {
        let (front, back) = input.split_at(place);
        assert_eq!(decode(false, &[front, back]).as_ref(), Ok(&expected), "{place}");
    }
    let bytes: Vec<_> = input[..60].chunks(1).chain([&input[60..]]).collect();
    assert_eq!(decode(false, &bytes), Ok(expected));
}

#[test]
fn violations_of_the_protocol_fail_the_connection() {
    let long = vec![b'a'; 126];
    let unmasked = [FIN | TEXT, 1, b'a'];
    for (input, code) in [
        (frame(FIN | 0x03, b""), 1002),
        (frame(FIN | 0x0b, b""), 1002),
        (frame(FIN | RSV1 | TEXT, b""), 1002),
        (frame(FIN | 0x20 | TEXT, b""), 1002),
        (frame(PING, b""), 1002),
        (frame(FIN | PING, &long), 1002),
        (frame(FIN | CONTINUATION, b""), 1002),
        ([frame(TEXT, b"a"), frame(FIN | TEXT, b"b")].concat(), 1002),
        (frame(FIN | CLOSE, b"\x03"), 1002),
        (frame(FIN | CLOSE, b"\x03\xed"), 1002),
        (frame(FIN | CLOSE, b"\x03\xe8\xff"), 1007),
        (frame(FIN | TEXT, b"\xff"), 1007),
        (frame(TEXT, b"\xc3("), 1007),
        (unmasked.to_vec(), 1002),
        (vec![FIN | BINARY, 0xff, 0, 0, 0, 1, 0, 0, 0, 0], 1009),
    ] {
        let failure = decode(false, &[&input]).map_err(|failure| failure.0);
        assert_eq!(failure, Err(code), "{input:?}");
    }
    assert!(decode(true, &[&frame(FIN | RSV1 | CONTINUATION, b"")]).is_err());
}

#[test]
fn compressed_messages_are_decompressed() {
    let text = "jissoku ".repeat(100);
    let mut sent = Vec::new();
    let mut deflate = Deflate::default();
    for message in [text.as_str(), "short", text.as_str()] {
        let append = |part: &[u8]| sent.extend_from_slice(part);
        write_message(true, message.as_bytes(), Some(&mut deflate), append);
    }
    assert!(sent.len() < 200, "{} bytes", sent.len());
    // The frame as a client sends it.
    let first = 2 + usize::from(sent[1]);
    let (one, rest) = sent.split_at(first);
    assert_eq!((one[0], rest[0], one), (FIN | RSV1 | TEXT, FIN | TEXT, &rest[7..]));
    let payload = &one[2..];
    let whole = frame(FIN | RSV1 | TEXT, payload);
    let parts =
        [frame(RSV1 | TEXT, &payload[..5]), frame(FIN | CONTINUATION, &payload[5..])].concat();
    for input in [whole, parts] {
        assert_eq!(decode(true, &[&input]), Ok(vec![Event::Text(text.clone())]));
    }
    let bomb = vec![0; 10_000_000];
    let mut bytes = Vec::new();
    write_message(false, &bomb, Some(&mut deflate), |part| bytes.extend_from_slice(part));
    // Its size depends on the backend of flate2, which other crates of a build may select.
    let header_size = match bytes[1] {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    let payload = &bytes[header_size..];
    let failure = decode(true, &[&frame(FIN | RSV1 | BINARY, payload)]);
    assert_eq!(failure, Err(Failure(1009, "the message is too big")));
}
