//! The wide scans find the same ends as their scalar versions and as a loop over bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/jissoku-http/src/scan/mod.rs"]
#[expect(dead_code, reason = "the parser uses all of it")]
mod scan;

fuzz_target!(|bytes: &[u8]| {
    for start in 0..bytes.len().min(17) {
        let bytes = &bytes[start..];
        let value = end(bytes, |byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
        assert_eq!((scan::value_end(bytes), scan::swar::value_end(bytes)), (value, value));
        let target = end(bytes, |byte| (b'!'..=b'~').contains(&byte));
        assert_eq!((scan::target_end(bytes), scan::swar::target_end(bytes)), (target, target));
    }
});

fn end(bytes: &[u8], is_allowed: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| !is_allowed(byte)).unwrap_or(bytes.len())
}
