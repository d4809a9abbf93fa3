//! The load generator reads a server's WebSocket messages the same whole, byte by byte and in pieces of any size,
//! and a message that it sends has the same payload under each masking key.

#![no_main]

use jissoku_load::MessageType;
use jissoku_load::fuzzing::messages::{masked, read};
use libfuzzer_sys::fuzz_target;

/// The payload of a masked frame, as RFC 6455 sections 5.2 and 5.3 describe it.
fn unmask(frame: &[u8]) -> Vec<u8> {
    let start = match frame[1] & 0x7f {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    let (key, payload) = frame[start..].split_at(4);
    payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, wire)) = bytes.split_first() else { return };
    let step = usize::from(first >> 1) + 1;
    let message_type = if first & 1 == 1 { MessageType::Binary } else { MessageType::Text };
    let whole = read(wire, wire.len(), message_type);
    assert_eq!(read(wire, 1, message_type), whole);
    assert_eq!(read(wire, step, message_type), whole);
    let numbers = wire.as_chunks().0.iter().take(3).map(|number| u64::from_ne_bytes(*number));
    let frame = masked(message_type, wire, &numbers.collect::<Vec<_>>());
    assert!(frame[1] & 0x80 != 0);
    assert_eq!(unmask(&frame), wire);
});
