//! One representation of a file: its bytes or where they are, and what is said about it.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;

use jissoku_http::coding::Coding;
use jissoku_http::date;
use jissoku_http::response::Answer;
use jissoku_os::file::{File, Identity};

use crate::handler::{Content, Part, Reply};
use crate::limits::SHARED_SIZE_MIN;

/// What an open file counts as in memory: descriptors run out too.
const DESCRIPTOR_CHARGE: u64 = 512 << 10;

/// A file in one coding, or something else that is sent like one.
#[derive(Debug)]
pub(super) struct Form {
    /// As it is sent, with its quotes.
    pub(super) etag: String,
    /// When it changed last, in seconds since 1970, if a later change would show.
    pub(super) modified_s: Option<u64>,
    pub(super) content_type: String,
    coding: Option<Coding>,
    /// The header lines of every answer that shows any of it, but for Content-Type.
    pub(super) fields: String,
    pub(super) size: u64,
    body: Body,
    whole: Answer,
    pub(super) not_modified: Answer,
}

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Body {
    /// Behind the head.
    Inside,
    /// In memory.
    Shared(Arc<[u8]>),
    /// On disk.
    File(Arc<File>),
}

/// What is said about a form beside what its bytes say.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    pub(super) content_type: &'a str,
    pub(super) coding: Option<Coding>,
    /// Whether there are other forms of the same.
    pub(super) varies: bool,
    pub(super) cache_control: Option<&'a str>,
    /// On the wall clock.
    pub(super) now_ns: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Form {
    /// A form whose bytes are in memory; `mtime_ns` is when they changed last.
    pub(super) fn in_memory(bytes: Vec<u8>, mtime_ns: Option<i128>, about: &About<'_>) -> Self {
        let mut hasher = Hash128::new();
        hasher.write(&bytes);
        let etag = format!("\"{}{}\"", hasher.text(), suffix(about.coding));
        let size = bytes.len() as u64;
        let mut form = Self::described(etag, mtime_ns, size, about);
        if bytes.len() < SHARED_SIZE_MIN {
            form.whole = Answer::new(&form.content_fields_of_whole(), &bytes);
        } else {
            form.body = Body::Shared(bytes.into());
        }
        form
    }

    /// A form whose bytes stay on disk. Its tag stands for the state of the file, and is strong once equal
    /// states mean equal bytes; until then, no two readings have the same.
    pub(super) fn on_disk(file: File, about: &About<'_>) -> Self {
        let identity = *file.identity();
        let mut hasher = Hash128::new();
        for number in [identity.dev, identity.ino, identity.size] {
            hasher.write(&number.to_ne_bytes());
        }
        hasher.write(&identity.mtime_ns.to_ne_bytes());
        hasher.write(&identity.ctime_ns.to_ne_bytes());
        let is_settled = identity.is_settled(about.now_ns);
        if !is_settled {
            hasher.write(&about.now_ns.to_ne_bytes());
        }
        let weak = if is_settled { "" } else { "W/" };
        let etag = format!("{weak}\"{}{}\"", hasher.text(), suffix(about.coding));
        let mut form = Self::described(etag, Some(identity.mtime_ns), identity.size, about);
        form.body = Body::File(Arc::new(file));
        form
    }

    fn described(etag: String, mtime_ns: Option<i128>, size: u64, about: &About<'_>) -> Self {
        let now_s = about.now_ns / SECOND_NS;
        let mtime_s = mtime_ns.and_then(|ns| u64::try_from(ns / i128::from(SECOND_NS)).ok());
        // Within its second a file could change once more under the same date, so there is none yet. One from
        // the future counts as changed now, as RFC 9110 section 8.8.2.1 has it.
        let modified = mtime_s.filter(|&mtime_s| mtime_s != now_s).map(|mtime_s| {
            let date = date::imf_fixdate(mtime_s.min(now_s));
            format!("Last-Modified: {}\r\n", String::from_utf8_lossy(&date))
        });
        let rule = about.cache_control.map(|value| format!("Cache-Control: {value}\r\n"));
        let vary = if about.varies { "Vary: Accept-Encoding\r\n" } else { "" };
        let known = format!("ETag: {etag}\r\n{}{vary}", rule.unwrap_or_default());
        let fields = format!(
            "{known}{}Accept-Ranges: bytes\r\nX-Content-Type-Options: nosniff\r\n",
            modified.unwrap_or_default()
        );
        let mut form = Self {
            etag,
            modified_s: mtime_s.filter(|&mtime_s| mtime_s < now_s),
            content_type: about.content_type.to_owned(),
            coding: about.coding,
            fields,
            size,
            body: Body::Inside,
            whole: Answer::bare(""),
            not_modified: Answer::bare(&known),
        };
        form.whole = Answer::head_only(&form.content_fields_of_whole(), size);
        form
    }

    /// The header lines that belong to the content alone.
    pub(super) fn content_fields(&self) -> String {
        format!("Content-Type: {}\r\n{}", self.content_type, self.coding_field())
    }

    fn content_fields_of_whole(&self) -> String {
        format!("{}{}", self.content_fields(), self.fields)
    }

    /// What has been done to the bytes, if anything.
    pub(super) fn coding_field(&self) -> String {
        let coding = self.coding;
        coding.map_or_else(String::new, |coding| format!("Content-Encoding: {}\r\n", coding.name()))
    }

    #[inline]
    pub(super) fn reply(&self) -> Reply<'_> {
        match &self.body {
            Body::Inside => Reply::Whole(200, &self.whole),
            Body::Shared(bytes) => Reply::Split(200, &self.whole, bytes),
            Body::File(file) => Reply::File(200, &self.whole, file),
        }
    }

    /// All of it.
    pub(super) fn content(&self) -> Content {
        Content { parts: vec![self.part(0..self.size)] }
    }

    /// Some of it. `range` lies inside.
    pub(super) fn part(&self, range: Range<u64>) -> Part {
        let inside = || index(range.start)..index(range.end);
        match &self.body {
            Body::Inside => {
                let body = &self.whole.whole()[self.whole.head().len()..];
                Part::Bytes(body[inside()].to_vec())
            }
            Body::Shared(bytes) => Part::Shared(Arc::clone(bytes), inside()),
            Body::File(file) => Part::File(Arc::clone(file), range),
        }
    }

    pub(super) const fn is_on_disk(&self) -> bool {
        matches!(self.body, Body::File(_))
    }

    /// Whether the bytes are those that the head speaks of.
    pub(super) fn is_intact(&self) -> bool {
        match &self.body {
            Body::Inside | Body::Shared(_) => true,
            Body::File(file) => file.is_unchanged(),
        }
    }

    pub(super) fn charge(&self) -> u64 {
        let heads = self.fields.len() * 3 + self.content_type.len() + self.whole.whole().len();
        let body = match &self.body {
            Body::Inside => 0,
            Body::Shared(bytes) => bytes.len() as u64,
            Body::File(_) => DESCRIPTOR_CHARGE,
        };
        heads as u64 + body
    }
}

/// Whether a form made from a file in this state at `now_ns` needs no second look while the state stays.
pub(super) fn is_final(identity: &Identity, now_ns: u64) -> bool {
    let second = i128::from(SECOND_NS);
    identity.is_settled(now_ns) && identity.mtime_ns / second < i128::from(now_ns) / second
}

fn index(at: u64) -> usize {
    usize::try_from(at).expect("what is in memory has places in memory")
}

/// Tags of two codings differ even where their bytes do not.
const fn suffix(coding: Option<Coding>) -> &'static str {
    match coding {
        None => "",
        Some(Coding::Brotli) => "-br",
        Some(Coding::Zstd) => "-zstd",
        Some(Coding::Gzip) => "-gzip",
    }
}

/// 128 bits of SipHash-1-3, as two of 64 with different beginnings. Its key is public, so who writes files can
/// make two of them agree, and harm himself alone; by chance it happens once in 10^19 files (a birthday in 2^128).
struct Hash128([DefaultHasher; 2]);

impl Hash128 {
    fn new() -> Self {
        let mut hashers = [DefaultHasher::new(), DefaultHasher::new()];
        for (hasher, start) in hashers.iter_mut().zip([1, 2]) {
            hasher.write_u8(start);
        }
        Self(hashers)
    }

    fn write(&mut self, bytes: &[u8]) {
        for hasher in &mut self.0 {
            hasher.write(bytes);
        }
    }

    fn text(&self) -> String {
        let [one, other] = &self.0;
        format!("{:016x}{:016x}", one.finish(), other.finish())
    }
}
