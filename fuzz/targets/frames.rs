//! The server reads a client's WebSocket frames the same whole, byte by byte and in pieces of any size. A message
//! that it writes, or that the load generator masks, can be read again.

#![no_main]
#![expect(dead_code, reason = "a part of each included file is used here")]

#[path = "../../crates/jissoku-apps/src/asgi/deflate.rs"]
mod deflate;
#[path = "../../crates/jissoku-apps/src/asgi/failure.rs"]
mod failure;
#[path = "../../crates/jissoku-apps/src/asgi/frames.rs"]
mod frames;

use deflate::Deflate;
use failure::Failure;
use frames::{Decoder, Event, write_message};
use jissoku_load::MessageType;
use jissoku_load::fuzzing::messages::masked;
use libfuzzer_sys::fuzz_target;

/// The largest message; inputs can be larger.
const SIZE_MAX: usize = 600;

fn read(wire: &[u8], step: usize, compresses: bool) -> (Vec<Event>, Option<Failure>) {
    let (mut decoder, mut deflate) = (Decoder::new(compresses, SIZE_MAX), Deflate::default());
    let mut events = Vec::new();
    for piece in wire.chunks(step.max(1)) {
        if let Err(failure) = decoder.feed(piece, &mut deflate, |event| events.push(event)) {
            return (events, Some(failure));
        }
        if let Some(Event::Close(..)) = events.last() {
            break;
        }
    }
    (events, None)
}

/// A frame of a server as a client sends it.
fn mask(frame: &[u8], key: [u8; 4]) -> Vec<u8> {
    let start = match frame[1] {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    let payload = frame[start..].iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key);
    let header = [frame[0], frame[1] | 0x80];
    header.iter().chain(&frame[2..start]).chain(&key).copied().chain(payload).collect()
}

/// Writes a message, and reads it as one of a client.
fn check_written(event: &Event, compresses: bool) {
    let (is_text, payload) = match event {
        Event::Text(text) => (true, text.as_bytes()),
        Event::Binary(bytes) => (false, &bytes[..]),
        Event::Ping(_) | Event::Pong | Event::Close(..) => return,
    };
    assert!(payload.len() <= SIZE_MAX);
    let (mut deflate, mut frame) = (Deflate::default(), Vec::new());
    let append = |part: &[u8]| frame.extend_from_slice(part);
    write_message(is_text, payload, Some(&mut deflate).filter(|_| compresses), append);
    let (events, failure) = read(&mask(&frame, [1, 2, 3, 4]), frame.len() + 4, compresses);
    assert_eq!((events.as_slice(), failure), (std::slice::from_ref(event), None));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, wire)) = bytes.split_first() else { return };
    let (step, compresses) = (usize::from(first >> 1) + 1, first & 1 == 1);
    let whole = read(wire, wire.len(), compresses);
    assert_eq!(read(wire, 1, compresses), whole);
    assert_eq!(read(wire, step, compresses), whole);
    whole.0.iter().for_each(|event| check_written(event, compresses));
    let payload = &wire[..wire.len().min(SIZE_MAX)];
    let sent = masked(MessageType::Binary, payload, &[0x0102_0304_0506_0708]);
    assert_eq!(read(&sent, sent.len(), false), (vec![Event::Binary(payload.to_vec())], None));
});
