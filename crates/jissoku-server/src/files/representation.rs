//! One representation of a file: its bytes or their location, and its header fields.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

use jissoku_http::content_coding::ContentCoding;
use jissoku_http::date;
use jissoku_http::name_rule::Fields;
use jissoku_http::response::StaticResponse;
use jissoku_os::file::{File, FileStamp};
use ring::digest::{SHA256, digest};

use crate::limits::SHARED_SIZE_MIN;
use crate::response::{BodyPart, DynamicResponse, Response};

/// Weight of an open file, because descriptors are limited too.
const DESCRIPTOR_WEIGHT: u64 = 512 << 10;

/// A file in one content coding, or a generated listing.
#[derive(Debug)]
pub(super) struct Representation {
    /// The entity tag with its quotes.
    pub(super) etag: String,
    /// Last modification in seconds since 1970, if a later change would be visible.
    pub(super) modified_s: Option<u64>,
    pub(super) content_type: String,
    coding: Option<ContentCoding>,
    /// The header lines of every 200 and 206 response, except Content-Type.
    pub(super) fields: String,
    /// The header lines of other responses for this name.
    pub(super) fields_of_errors: String,
    pub(super) size: u64,
    body: Storage,
    whole: StaticResponse,
    pub(super) not_modified: StaticResponse,
}

/// Where the body is stored.
#[derive(Debug)]
pub(super) enum Storage {
    /// Behind the head.
    Inline,
    /// In memory.
    Shared(Arc<[u8]>),
    /// On disk.
    File(Arc<File>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Metadata<'a> {
    pub(super) content_type: &'a str,
    pub(super) coding: Option<ContentCoding>,
    /// Whether there are other variants (Vary).
    pub(super) varies: bool,
    pub(super) fields: &'a Fields,
    /// On the wall clock.
    pub(super) now_ns: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

/// How far the clock of file times, which moves with the kernel's tick, may be behind that of this
/// process.
const CLOCK_LAG_NS: u64 = 20_000_000;

impl Representation {
    /// A representation in memory; `mtime_ns` is its last modification.
    pub(super) fn in_memory(
        bytes: Vec<u8>,
        mtime_ns: Option<i128>,
        metadata: &Metadata<'_>,
    ) -> Self {
        let etag = format!("\"{}{}\"", hash_of(&bytes), suffix(metadata.coding));
        let size = bytes.len() as u64;
        let mut representation = Self::described(etag, mtime_ns, size, metadata);
        if bytes.len() < SHARED_SIZE_MIN {
            representation.whole =
                StaticResponse::new(&representation.content_fields_of_whole(), &bytes);
        } else {
            representation.body = Storage::Shared(bytes.into());
        }
        representation
    }

    /// A representation on disk. Its tag is its modification time and its size, so that a copy on
    /// another server, another link or another mode has the same; it is strong once a later change
    /// would have another time. Until then it is weak and unique.
    pub(super) fn on_disk(file: File, metadata: &Metadata<'_>) -> Self {
        let stamp = *file.stamp();
        let FileStamp { size, mtime_ns, .. } = stamp;
        let tag = if has_known_mtime(mtime_ns) {
            format!("{mtime_ns:x}-{size:x}")
        } else {
            // The time is that of no change, so the tag is that of this file on this server.
            let FileStamp { dev, ino, ctime_ns, .. } = stamp;
            format!("{dev:x}-{ino:x}-{ctime_ns:x}-{size:x}")
        };
        let (weak, unique) = if stamp.is_mtime_past(metadata.now_ns) {
            ("", String::new())
        } else {
            ("W/", format!("-{:x}", metadata.now_ns))
        };
        let etag = format!("{weak}\"{tag}{unique}{}\"", suffix(metadata.coding));
        let mut representation = Self::described(etag, Some(stamp.mtime_ns), stamp.size, metadata);
        representation.body = Storage::File(Arc::new(file));
        representation
    }

    fn described(etag: String, mtime_ns: Option<i128>, size: u64, metadata: &Metadata<'_>) -> Self {
        let now_s = metadata.now_ns / SECOND_NS;
        let mtime_ns = mtime_ns.filter(|&ns| has_known_mtime(ns));
        let mtime_s = mtime_ns.and_then(|ns| u64::try_from(ns / i128::from(SECOND_NS)).ok());
        // Within the second of its change a file could change again under the same date, so none is
        // sent. A date in the future is replaced by now (RFC 9110 section 8.8.2.1).
        let is_over = |mtime_s: u64| metadata.now_ns >= (mtime_s + 1) * SECOND_NS + CLOCK_LAG_NS;
        let is_sent = |mtime_s: &u64| *mtime_s > now_s || is_over(*mtime_s);
        let modified = mtime_s.filter(is_sent).map(|mtime_s| {
            let date = date::imf_fixdate(mtime_s.min(now_s));
            format!("Last-Modified: {}\r\n", String::from_utf8_lossy(&date))
        });
        let vary = if metadata.varies { "Vary: Accept-Encoding\r\n" } else { "" };
        let known = format!("ETag: {etag}\r\n{}{vary}", metadata.fields.all);
        let fields = format!(
            "{known}{}Accept-Ranges: bytes\r\nX-Content-Type-Options: nosniff\r\n",
            modified.unwrap_or_default()
        );
        let mut representation = Self {
            etag,
            modified_s: mtime_s.filter(|&mtime_s| mtime_s <= now_s && is_over(mtime_s)),
            content_type: metadata.content_type.to_owned(),
            coding: metadata.coding,
            fields,
            fields_of_errors: metadata.fields.of_errors.clone(),
            size,
            body: Storage::Inline,
            whole: StaticResponse::without_body(""),
            not_modified: StaticResponse::without_body(&known),
        };
        representation.whole =
            StaticResponse::head_only(&representation.content_fields_of_whole(), size);
        representation
    }

    /// Content-Type and Content-Encoding.
    pub(super) fn content_fields(&self) -> String {
        format!("Content-Type: {}\r\n{}", self.content_type, self.coding_field())
    }

    fn content_fields_of_whole(&self) -> String {
        format!("{}{}", self.content_fields(), self.fields)
    }

    pub(super) fn coding_field(&self) -> String {
        let coding = self.coding;
        coding.map_or_else(String::new, |coding| format!("Content-Encoding: {}\r\n", coding.name()))
    }

    /// Writes the whole of it with status 200.
    #[inline]
    pub(super) fn write(&self, response: &mut Response<'_>) {
        match &self.body {
            Storage::Inline => response.send(200, &self.whole),
            Storage::Shared(bytes) => response.send_shared(200, &self.whole, bytes),
            Storage::File(file) => response.send_file(200, &self.whole, file),
        }
    }

    /// A part of the body; `range` lies inside.
    pub(super) fn part(&self, range: Range<u64>) -> BodyPart {
        let inside = || index(range.start)..index(range.end);
        match &self.body {
            Storage::Inline => {
                let body = &self.whole.bytes()[self.whole.head().len()..];
                BodyPart::Bytes(body[inside()].to_vec())
            }
            Storage::Shared(bytes) => BodyPart::Shared(Arc::clone(bytes), inside()),
            Storage::File(file) => BodyPart::File(Arc::clone(file), range),
        }
    }

    pub(super) const fn is_on_disk(&self) -> bool {
        matches!(self.body, Storage::File(_))
    }

    /// Whether the file is unchanged.
    pub(super) fn is_intact(&self) -> bool {
        match &self.body {
            Storage::Inline | Storage::Shared(_) => true,
            Storage::File(file) => file.is_unchanged(),
        }
    }

    pub(super) fn weight(&self) -> u64 {
        let heads = self.fields.len() * 3 + self.content_type.len() + self.whole.bytes().len();
        let body = match &self.body {
            Storage::Inline => 0,
            Storage::Shared(bytes) => bytes.len() as u64,
            Storage::File(_) => DESCRIPTOR_WEIGHT,
        };
        heads as u64 + body
    }
}

/// Whether a representation created from a file with this stamp at `now_ns` is valid while the
/// stamp is equal.
pub(super) fn is_final(stamp: &FileStamp, now_ns: u64) -> bool {
    let second = i128::from(SECOND_NS);
    stamp.is_mtime_stable(now_ns) && stamp.mtime_ns / second < i128::from(now_ns) / second
}

/// Whether a modification time is that of a change. Package managers and image builders set 0 or 1 s
/// for every file, so that two contents would have the same date.
const fn has_known_mtime(mtime_ns: i128) -> bool {
    mtime_ns >= 2 * SECOND_NS as i128
}

fn index(at: u64) -> usize {
    usize::try_from(at).expect("what is in memory has places in memory")
}

/// Suffix of the tag, so that tags of two codings always differ.
const fn suffix(coding: Option<ContentCoding>) -> &'static str {
    match coding {
        None => "",
        Some(ContentCoding::Brotli) => "-br",
        Some(ContentCoding::Zstd) => "-zstd",
        Some(ContentCoding::Gzip) => "-gzip",
    }
}

/// The first 128 bits of SHA-256 (FIPS 180-4) in hexadecimal digits: the same with every compiler and
/// on every machine, so that a new build or a second server does not make clients fetch again what
/// they have.
fn hash_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(32);
    for byte in &digest(&SHA256, bytes).as_ref()[..16] {
        write!(text, "{byte:02x}").expect("memory takes everything");
    }
    text
}

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
    DynamicResponse::new(206, format!("{content_type}{fields}"), parts)
}

/// 416 with the actual size.
pub(super) fn unsatisfiable(representation: &Representation) -> DynamicResponse {
    let Representation { size, fields_of_errors, .. } = representation;
    let fields = format!("Content-Range: bytes */{size}\r\n{fields_of_errors}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_the_same_with_every_compiler() {
        let metadata = Metadata {
            content_type: "text/plain",
            coding: Some(ContentCoding::Gzip),
            varies: true,
            fields: &Fields::default(),
            now_ns: 0,
        };
        // The first half of SHA-256 of "abc" (FIPS 180-4).
        let representation = Representation::in_memory(b"abc".to_vec(), None, &metadata);
        assert_eq!(representation.etag, "\"ba7816bf8f01cfea414140de5dae2223-gzip\"");
    }
}
