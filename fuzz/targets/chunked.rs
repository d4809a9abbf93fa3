//! A chunked body decodes the same whole and byte by byte, and where it ends well, as httparse has it.

#![no_main]

use httparse::Status;
use jissoku_http::chunked::{Decoder, Chunk};
use jissoku_http::{Limits, Reject};
use libfuzzer_sys::fuzz_target;

/// Small enough to be met: a fuzzer does not send mebibytes.
const LIMITS: Limits = Limits { body_size_max: 1024, extensions_size_max: 256, ..Limits::DEFAULT };

/// The body so far, and how many bytes were used if it has ended.
type Outcome = Result<(Vec<u8>, Option<usize>), Reject>;

fuzz_target!(|bytes: &[u8]| {
    let whole = decode(bytes, bytes.len());
    assert_eq!(decode(bytes, 1), whole);
    if let Ok((body, Some(used))) = whole {
        assert_eq!(decode_by_others(&bytes[..used]), Some(body));
    }
});

/// Gives the decoder `step` bytes more each time that it wants more.
fn decode(bytes: &[u8], step: usize) -> Outcome {
    let mut decoder = Decoder::new();
    let (mut at, mut there, mut body) = (0, 0, Vec::new());
    loop {
        let (used, chunk) = decoder.next(&bytes[at..there], &LIMITS)?;
        match chunk {
            Chunk::Data(place) => body.extend_from_slice(&bytes[at..][place]),
            Chunk::End => return Ok((body, Some(at + used))),
            Chunk::Partial if there == bytes.len() => return Ok((body, None)),
            Chunk::Partial => there = (there + step).min(bytes.len()),
        }
        at += used;
    }
}

fn decode_by_others(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut body) = (bytes, Vec::new());
    loop {
        let Ok(Status::Complete((used, size))) = httparse::parse_chunk_size(rest) else {
            return None;
        };
        rest = &rest[used..];
        if size == 0 {
            let mut trailers = [httparse::EMPTY_HEADER; 128];
            let outcome = httparse::parse_headers(rest, &mut trailers).ok()?;
            return matches!(outcome, Status::Complete((used, _)) if used == rest.len())
                .then_some(body);
        }
        let (data, after) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        body.extend_from_slice(data);
        rest = after.strip_prefix(b"\r\n")?;
    }
}
