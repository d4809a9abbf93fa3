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
        let mut text = Vec::new();
        if let Some(rewritten) = head.in_origin_form(bytes, &mut text) {
            assert!(matches!(rewritten.path_and_query(&text), [b'/' | b'*', ..]));
            assert!(rewritten.host(&text).is_some_and(|host| !host.is_empty()));
            assert_eq!(rewritten.in_origin_form(&text, &mut Vec::new()), None);
        }
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
