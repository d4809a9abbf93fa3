//! The load generator understands answers the same whole, byte by byte and in pieces of any size, whether or not
//! it asked for a body, and its short way to a verdict agrees with the strict one.

#![no_main]

use jissoku_load::fuzzing::read;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, wire)) = bytes.split_first() else { return };
    let (step, head_only) = (usize::from(first >> 1) + 1, first & 1 == 1);
    let whole = read(wire, wire.len(), head_only);
    assert_eq!(read(wire, 1, head_only), whole);
    assert_eq!(read(wire, step, head_only), whole);
});
