//! A head reads the same whole and byte by byte, and as httparse reads it.

#![no_main]

use jissoku_http::head::{Head, HeadReader};
use jissoku_http::{Limits, Reject};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/jissoku-http/tests/it/agreement.rs"]
mod agreement;

fuzz_target!(|bytes: &[u8]| {
    let whole = HeadReader::default().read(bytes, &Limits::DEFAULT);
    assert_eq!(byte_by_byte(bytes), whole);
    if let Ok(Some(head)) = whole {
        assert!(head.size as usize <= bytes.len());
        assert!(!head.path_and_query(bytes).is_empty());
        let count = head.fields(bytes).count();
        assert!(count <= Limits::DEFAULT.fields_count_max as usize);
    }
    agreement::check(bytes);
});

fn byte_by_byte(bytes: &[u8]) -> Result<Option<Head>, Reject> {
    let mut reader = HeadReader::default();
    for size in 0..=bytes.len() {
        if let Some(head) = reader.read(&bytes[..size], &Limits::DEFAULT)? {
            return Ok(Some(head));
        }
    }
    Ok(None)
}
