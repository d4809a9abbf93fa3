//! Parts of a form: RFC 9110 sections 14.4, 14.6, 15.3.7 and 15.5.17.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use super::form::Form;
use super::{Content, Made, Part};

/// 206, in one piece or as `multipart/byteranges`. Every range lies inside the form and none is empty.
pub(super) fn partial(form: &Form, ranges: &[Range<u64>]) -> Made {
    let fields = format!("{}{}", form.coding_field(), form.fields);
    if let [range] = ranges {
        let fields = format!("{}{fields}", part_fields(form, range));
        return Made::new(206, &fields, Content { parts: vec![form.part(range.clone())] });
    }
    let boundary = boundary();
    let mut parts = Vec::new();
    for (at, range) in ranges.iter().enumerate() {
        let before = if at == 0 { "" } else { "\r\n" };
        let head = format!("{before}--{boundary}\r\n{}\r\n", part_fields(form, range));
        parts.push(Part::Bytes(head.into_bytes()));
        parts.push(form.part(range.clone()));
    }
    parts.push(Part::Bytes(format!("\r\n--{boundary}--\r\n").into_bytes()));
    let content_type = format!("Content-Type: multipart/byteranges; boundary={boundary}\r\n");
    Made::new(206, &format!("{content_type}{fields}"), Content { parts })
}

/// 416, with the size that is there.
pub(super) fn unsatisfiable(form: &Form) -> Made {
    let fields = format!("Content-Range: bytes */{}\r\n", form.size);
    Made::text(416, &fields, b"Range Not Satisfiable\n")
}

fn part_fields(form: &Form, range: &Range<u64>) -> String {
    let (content_type, size) = (&form.content_type, form.size);
    let (first, last) = (range.start, range.end - 1);
    format!("Content-Type: {content_type}\r\nContent-Range: bytes {first}-{last}/{size}\r\n")
}

/// 128 bits that nobody could know when the file was written, so that it holds them only by a wonder. The
/// standard library seeds its hash tables from the kernel for the same reason: so that they cannot be foreseen.
fn boundary() -> String {
    let state = RandomState::new();
    format!("{:016x}{:016x}", state.hash_one(1), state.hash_one(2))
}
