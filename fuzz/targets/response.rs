//! A response of an upstream server reads the same whole, byte by byte and in pieces, and its forwarded head can
//! be read again.

#![no_main]

use jissoku_http::forward::{ClientFraming, write_response_head};
use jissoku_http::response_reader::{BadResponse, ResponseEvent, ResponseReader};
use libfuzzer_sys::fuzz_target;

/// The statuses of all heads, the body, and how it ended.
type Seen = (Vec<u16>, Vec<u8>, Option<BadResponse>);

fn read(bytes: &[u8], step: usize, is_head: bool) -> Seen {
    let mut reader = ResponseReader::new(is_head);
    let (mut statuses, mut body, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for piece in bytes.chunks(step) {
        rest.extend_from_slice(piece);
        loop {
            let parsed = match reader.step(&rest) {
                Ok(parsed) => parsed,
                Err(error) => return (statuses, body, Some(error)),
            };
            let is_partial = parsed.event == ResponseEvent::Partial;
            match parsed.event {
                ResponseEvent::Interim(head) | ResponseEvent::Head(head) => {
                    statuses.push(head.status);
                    let mut output = Vec::new();
                    write_response_head(&head, &rest, ClientFraming::AsReceived, None, &mut output);
                    let again = ResponseReader::new(true).step(&output).expect("it was written here");
                    assert_eq!(again.used, output.len());
                }
                ResponseEvent::Body(place) => body.extend_from_slice(&rest[place]),
                ResponseEvent::End => return (statuses, body, None),
                ResponseEvent::Trailers(_) | ResponseEvent::Partial => {}
            }
            rest.drain(..parsed.used);
            if is_partial {
                break;
            }
        }
    }
    (statuses, body, reader.finish().err())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, wire)) = bytes.split_first() else { return };
    let (step, is_head) = (usize::from(first >> 1) + 1, first & 1 == 1);
    let whole = read(wire, wire.len().max(1), is_head);
    assert_eq!(read(wire, 1, is_head), whole);
    assert_eq!(read(wire, step, is_head), whole);
});
