//! A header of the PROXY protocol reads the same whole and byte by byte, and ends where it says.

#![no_main]

use jissoku_http::proxy_protocol;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = proxy_protocol::read(bytes);
    let mut reads = (0..=bytes.len()).map(|size| proxy_protocol::read(&bytes[..size]));
    assert_eq!(reads.find(|found| *found != Ok(None)).unwrap_or(Ok(None)), whole);
    let Ok(Some(header)) = whole else { return };
    assert_eq!(proxy_protocol::read(&bytes[..header.size]), whole);
    assert_eq!(proxy_protocol::read(&bytes[..header.size - 1]), Ok(None));
});
