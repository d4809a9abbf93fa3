//! A packet reads the same whole and byte by byte, and its head has nothing but its variables.

#![no_main]

use jissoku_http::{Limits, uwsgi};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::DEFAULT;
    let whole = uwsgi::read(bytes, &limits);
    let reads = (0..=bytes.len()).map(|size| uwsgi::read(&bytes[..size], &limits));
    assert_eq!(reads.skip_while(|found| *found == Ok(None)).next().unwrap_or(Ok(None)), whole);
    let Ok(Some(packet)) = whole else { return };
    let Ok(found) = packet.to_head(&limits) else { return };
    assert_eq!(found.head.size as usize, found.text.len());
    assert!(!found.head.keeps_alive);
    let fields = packet.variables.iter().filter(|(name, _)| name.starts_with(b"HTTP_")).count();
    // CONTENT_TYPE and CONTENT_LENGTH are fields, too.
    assert!(found.head.fields(&found.text).count() <= fields + 2);
});
