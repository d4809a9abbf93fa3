//! Partial responses: RFC 9110 sections 14.4, 14.6, 15.3.7 and 15.5.17.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use super::representation::Representation;
use crate::response::{BodyPart, DynamicResponse};

/// 206 with a single part or as `multipart/byteranges`. All ranges are inside the representation
/// and not empty.
pub(super) fn partial(representation: &Representation, ranges: &[Range<u64>]) -> DynamicResponse {
    let fields = format!("{}{}", representation.coding_field(), representation.fields);
    if let [range] = ranges {
        let fields = format!("{}{fields}", part_fields(representation, range));
        return DynamicResponse::new(206, &fields, vec![representation.part(range.clone())]);
    }
    let boundary = boundary();
    let mut parts = Vec::new();
    for (at, range) in ranges.iter().enumerate() {
        let before = if at == 0 { "" } else { "\r\n" };
        let head = format!("{before}--{boundary}\r\n{}\r\n", part_fields(representation, range));
        parts.push(BodyPart::Bytes(head.into_bytes()));
        parts.push(representation.part(range.clone()));
    }
    parts.push(BodyPart::Bytes(format!("\r\n--{boundary}--\r\n").into_bytes()));
    let content_type = format!("Content-Type: multipart/byteranges; boundary={boundary}\r\n");
    DynamicResponse::new(206, &format!("{content_type}{fields}"), parts)
}

/// 416 with the actual size.
pub(super) fn unsatisfiable(representation: &Representation) -> DynamicResponse {
    let fields = format!("Content-Range: bytes */{}\r\n", representation.size);
    DynamicResponse::text(416, &fields, b"Range Not Satisfiable\n")
}

fn part_fields(representation: &Representation, range: &Range<u64>) -> String {
    let (content_type, size) = (&representation.content_type, representation.size);
    let (first, last) = (range.start, range.end - 1);
    format!("Content-Type: {content_type}\r\nContent-Range: bytes {first}-{last}/{size}\r\n")
}

/// 128 random bits, which cannot occur in the file except by chance. `RandomState` is seeded by the
/// kernel.
fn boundary() -> String {
    let state = RandomState::new();
    format!("{:016x}{:016x}", state.hash_one(1), state.hash_one(2))
}
