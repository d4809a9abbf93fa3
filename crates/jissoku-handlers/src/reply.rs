//! The response of a handler, until it is sent.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use jissoku_http::connection_fields::ConnectionField;
use jissoku_http::head::{is_field_name, is_field_value};
use jissoku_http::response::reason;
use jissoku_os::driver::LentBytes;
use jissoku_os::file::File;
use jissoku_server::{Progress, Response};

use crate::parts::Parts;

/// A copied body above this size is handed over instead of copied again.
const COPIED_SIZE_MAX: usize = 16 * 1024;

/// The statuses of final responses (RFC 9110 section 15).
pub(crate) const STATUSES: RangeInclusive<u16> = 200..=599;

/// What a handler responds with.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// 0 without a response.
    status: u16,
    /// Header lines, each with its CRLF.
    lines: Vec<u8>,
    /// The value of an `ETag` in `lines`.
    etag: Option<Range<usize>>,
    text: Vec<u8>,
    body: Body,
}

/// The body of a response.
#[derive(Debug, Default)]
enum Body {
    /// The text of the response, whose memory is used again.
    #[default]
    Text,
    Lent(Box<dyn LentBytes>),
    File(Arc<File>, Range<u64>),
    Parts(Parts),
}

impl Reply {
    /// Adds a header field. Returns whether it is valid, and not the server's; and the response has not
    /// begun.
    pub(crate) fn add_field(&mut self, name: &[u8], value: &[u8]) -> bool {
        if matches!(self.body, Body::Parts(_)) {
            return false;
        }
        let value = value.trim_ascii();
        let is_of_server = ConnectionField::of(name).is_some()
            || [&b"content-length"[..], b"date"].iter().any(|it| name.eq_ignore_ascii_case(it));
        if is_of_server || !is_field_name(name) || !is_field_value(value) {
            return false;
        }
        for part in [name, b": ", value, b"\r\n"] {
            self.lines.extend_from_slice(part);
        }
        if name.eq_ignore_ascii_case(b"etag") {
            let end = self.lines.len() - 2;
            self.etag = Some(end - value.len()..end);
        }
        true
    }

    /// Sets the response, with a copy of its body. Returns whether it is the first, and has a status.
    pub(crate) fn set_copied(&mut self, status: impl TryInto<u16>, body: &[u8]) -> bool {
        let is_set = self.set_status(status);
        if is_set {
            self.text.extend_from_slice(body);
        }
        is_set
    }

    /// As [`Reply::set_copied`], without a copy.
    pub(crate) fn set_lent(&mut self, status: impl TryInto<u16>, body: Box<dyn LentBytes>) -> bool {
        let is_set = self.set_status(status);
        if is_set {
            self.body = Body::Lent(body);
        }
        is_set
    }

    /// As [`Reply::set_copied`], with `size` bytes of a file from `start` on, or all if it is `None`.
    /// Returns whether the file has them, too.
    pub(crate) fn set_file(
        &mut self,
        status: impl TryInto<u16>,
        file: File,
        (start, size): (u64, Option<u64>),
    ) -> bool {
        let Some(rest) = file.stamp().size.checked_sub(start) else { return false };
        let size = size.unwrap_or(rest);
        let is_set = size <= rest && self.set_status(status);
        if is_set {
            self.body = Body::File(Arc::new(file), start..start + size);
        }
        is_set
    }

    /// Begins a response in parts, of `size` bytes if that is known. Returns as [`Reply::set_copied`].
    pub(crate) fn begin(&mut self, status: impl TryInto<u16>, size: Option<u64>) -> bool {
        let is_set = self.set_status(status);
        if is_set {
            self.body = Body::Parts(Parts::new(size));
        }
        is_set
    }

    /// A response in parts that has begun.
    pub(crate) const fn parts(&mut self) -> Option<&mut Parts> {
        match &mut self.body {
            Body::Parts(parts) => Some(parts),
            _ => None,
        }
    }

    fn set_status(&mut self, status: impl TryInto<u16>) -> bool {
        let status = status.try_into().ok().filter(|status| STATUSES.contains(status));
        match status {
            Some(status) if self.status == 0 => self.status = status,
            _ => return false,
        }
        true
    }

    /// Responds as `other` does, with the fields of both. There is no response yet.
    pub(crate) fn take_over(&mut self, other: Self) {
        let before = self.lines.len();
        self.lines.extend_from_slice(&other.lines);
        if let Some(Range { start, end }) = other.etag {
            self.etag = Some(before + start..before + end);
        }
        (self.status, self.text, self.body) = (other.status, other.text, other.body);
    }

    /// 0 without a response.
    #[cfg(test)]
    pub(crate) const fn status(&self) -> u16 {
        self.status
    }

    /// Whether there is a response.
    pub(crate) const fn is_set(&self) -> bool {
        self.status != 0
    }

    /// Whether there is a response, and nothing of it is missing.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.is_set() && !matches!(&self.body, Body::Parts(parts) if !parts.has_ended())
    }

    /// The entity tag, if the response is one that a condition can replace.
    pub(crate) fn etag(&self) -> Option<&[u8]> {
        let is_sent = matches!(&self.body, Body::Parts(parts) if parts.is_sent());
        let place = self.etag.clone().filter(|_| self.status == 200 && !is_sent)?;
        self.lines.get(place)
    }

    /// Sends the response, or 304 in its place; of one in parts, what is not sent yet.
    #[inline]
    pub(crate) fn send(&mut self, is_not_modified: bool, output: &mut Response<'_>) -> Progress {
        let status = if is_not_modified { 304 } else { self.status };
        let Self { lines, text, body, .. } = self;
        match body {
            Body::Text => {
                output.send_parts(status, lines, text.len() as u64, |output| {
                    if text.len() > COPIED_SIZE_MAX {
                        output.append_owned(std::mem::take(text), 0);
                    } else {
                        output.append(text);
                    }
                });
            }
            Body::Lent(_) => {
                if let Body::Lent(body) = std::mem::take(body) {
                    let size = (*body).as_ref().len() as u64;
                    output.send_parts(status, lines, size, |output| output.append_lent(body));
                }
            }
            Body::File(file, range) => {
                let (file, range) = (Arc::clone(file), range.clone());
                let size = range.end - range.start;
                output.send_parts(status, lines, size, |output| output.append_file(file, range));
            }
            Body::Parts(parts) => {
                parts.send(status, lines, output);
                return parts.finish(output);
            }
        }
        Progress::Complete
    }

    /// The status, the header lines and the body.
    #[cfg(test)]
    pub(crate) fn shown(&self) -> (u16, &[u8], &[u8]) {
        let body = match &self.body {
            Body::Lent(lent) => (**lent).as_ref(),
            Body::Parts(parts) => parts.written(),
            Body::Text | Body::File(..) => &*self.text,
        };
        (self.status, &self.lines, body)
    }

    /// Sends what is written of a response in parts, and returns its size.
    pub(crate) fn send_written(
        &mut self,
        is_not_modified: bool,
        output: &mut Response<'_>,
    ) -> usize {
        let Self { status, lines, body, .. } = self;
        let Body::Parts(parts) = body else { return 0 };
        parts.send(if is_not_modified { 304 } else { *status }, lines, output)
    }

    /// Responds with this status, whatever the response was. One whose head is sent ends before it is
    /// complete.
    pub(crate) fn fail(&mut self, status: u16) {
        if let Some(parts) = self.parts().filter(|parts| parts.is_sent()) {
            return parts.truncate();
        }
        self.clear();
        let _first = self.add_field(b"Content-Type", b"text/plain");
        let _only = self.set_copied(status, format!("{}\n", reason(status)).as_bytes());
    }

    /// Drops the response, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.status = 0;
        self.lines.clear();
        self.etag = None;
        self.text.clear();
        self.body = Body::Text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_could_split_a_response_or_frame_it_are_refused() {
        let mut reply = Reply::default();
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a:", "x"),
            ("a\r\nb", "x"),
            ("a", "x\r\ny: z"),
            ("a", "x\0"),
            ("Content-Length", "1"),
            ("content-length", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close"),
            ("Date", "now"),
        ] {
            assert!(!reply.add_field(name.as_bytes(), value.as_bytes()), "{name:?}: {value:?}");
        }
        assert!(reply.add_field(b"Set-Cookie", b" a=b ") && reply.add_field(b"Set-Cookie", b""));
        assert_eq!(reply.lines, b"Set-Cookie: a=b\r\nSet-Cookie: \r\n");
    }

    #[test]
    fn the_first_response_with_a_status_counts() {
        let mut reply = Reply::default();
        for status in [-1, 0, 100, 199, 600, 65_736] {
            assert!(!reply.set_copied(status, b"x") && !reply.is_set(), "{status}");
        }
        assert!(reply.set_copied(201, b"a") && !reply.set_copied(200, b"b"));
        assert!(!reply.set_lent(200, Box::new(b"c")));
        assert_eq!((reply.status, &*reply.text), (201, &b"a"[..]));
        reply.fail(500);
        assert_eq!((reply.status, &*reply.text), (500, &b"Internal Server Error\n"[..]));
    }

    #[test]
    fn the_tag_of_a_200_can_be_compared() {
        let mut reply = Reply::default();
        assert!(reply.add_field(b"A", b"b") && reply.add_field(b"ETag", b"\"x\""));
        assert_eq!(reply.etag(), None);
        assert!(reply.set_copied(200, b""));
        assert_eq!(reply.etag(), Some(&b"\"x\""[..]));
        reply.clear();
        assert_eq!(reply.etag(), None);
    }

    #[test]
    fn a_response_of_a_thread_has_the_fields_of_the_handler_too() {
        let (mut reply, mut other) = (Reply::default(), Reply::default());
        assert!(reply.add_field(b"A", b"b") && other.add_field(b"ETag", b"\"x\""));
        assert!(other.set_copied(200, b"body"));
        reply.take_over(other);
        assert_eq!(reply.lines, b"A: b\r\nETag: \"x\"\r\n");
        assert_eq!((reply.etag(), &*reply.text), (Some(&b"\"x\""[..]), &b"body"[..]));
    }
}
