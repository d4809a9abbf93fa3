//! The requests of a connection are understood the same whole, byte by byte, and in pieces of a size that
//! the first byte chooses; its lowest bit chooses limits so small that they are met.

#![no_main]

use jissoku_http::Limits;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/jissoku-http/tests/it/transcript.rs"]
#[expect(dead_code, reason = "the tests use all of it")]
mod transcript;

const SMALL: Limits = Limits {
    request_line_size_max: 48,
    field_size_max: 40,
    fields_size_max: 120,
    fields_count_max: 4,
    body_size_max: 24,
    extensions_size_max: 16,
};

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let limits = if choice & 1 == 0 { Limits::DEFAULT } else { SMALL };
    let whole = transcript::read_within(&limits, [bytes]);
    assert_eq!(transcript::read_within(&limits, bytes.chunks(1)), whole);
    let size = usize::from(choice >> 1) + 2;
    assert_eq!(transcript::read_within(&limits, bytes.chunks(size)), whole);
});
