use proptest::prelude::*;

use super::*;

fn decode(mut bytes: &[u8]) -> Result<(Vec<u8>, Chunk), Reject> {
    let mut decoder = Decoder::new();
    let mut body = Vec::new();
    loop {
        let (used, chunk) = decoder.next(bytes, &Limits::DEFAULT)?;
        match chunk {
            Chunk::Data(place) => body.extend_from_slice(&bytes[place]),
            last => return Ok((body, last)),
        }
        bytes = &bytes[used..];
    }
}

#[test]
fn what_follows_the_end_is_left_alone() {
    let mut decoder = Decoder::new();
    let used = decoder.next(b"0\r\n\r\nGET", &Limits::DEFAULT);
    assert_eq!(used, Ok((5, Chunk::End)));
}

#[test]
fn the_limit_counts_all_chunks_together() {
    let limits = Limits { body_size_max: 4, ..Limits::DEFAULT };
    let mut decoder = Decoder::new();
    assert_eq!(decoder.next(b"3\r\nabc", &limits), Ok((6, Chunk::Data(3..6))));
    assert_eq!(decoder.next(b"\r\n2\r\n", &limits), Err(Reject::BodyTooLong));
}

proptest! {
    #[test]
    fn what_was_encoded_comes_back(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8)) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            bytes.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        prop_assert_eq!(decode(&bytes), Ok((chunks.concat(), Chunk::End)));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _outcome = decode(&bytes);
    }

    #[test]
    fn no_likely_bytes_make_it_panic(text in "[0-9a-fx;=\"\\\\ \t\r\n:A]{0,64}") {
        let _outcome = decode(text.as_bytes());
    }
}
