//! A response in parts: what is written of its body, until the server has it.

use jissoku_server::{PartFraming, Progress, Response};

/// A response whose body is written in parts.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Its Content-Length, if that is known.
    size: Option<u64>,
    /// What may still be written, if that is known.
    left: Option<u64>,
    written: Vec<u8>,
    /// How its end is marked, once its head is sent.
    framing: Option<PartFraming>,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Complete,
    /// Bytes are missing; the connection is closed, so that the client sees that.
    Truncated,
}

impl Parts {
    pub(crate) const fn new(size: Option<u64>) -> Self {
        Self { size, left: size, written: Vec::new(), framing: None, end: End::Open }
    }

    /// What is written, and not sent yet.
    #[cfg(test)]
    pub(crate) fn written(&self) -> &[u8] {
        &self.written
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end != End::Open
    }

    /// Whether its head is sent, so that nothing else can be sent in its place.
    pub(crate) const fn is_sent(&self) -> bool {
        self.framing.is_some()
    }

    /// Adds a part. Returns whether the body has not ended, and may be as long.
    pub(crate) fn write(&mut self, part: &[u8]) -> bool {
        if self.has_ended() {
            return false;
        }
        if let Some(left) = &mut self.left {
            let Some(rest) = left.checked_sub(part.len() as u64) else { return false };
            *left = rest;
        }
        self.written.extend_from_slice(part);
        true
    }

    /// Ends the body. Returns whether it had not ended, and is complete.
    pub(crate) fn end(&mut self) -> bool {
        if self.has_ended() {
            return false;
        }
        let is_complete = self.left.unwrap_or(0) == 0;
        self.end = if is_complete { End::Complete } else { End::Truncated };
        is_complete
    }

    /// Ends the body before it is complete.
    pub(crate) const fn truncate(&mut self) {
        self.end = End::Truncated;
    }

    /// Sends what is written, behind the head if that is not sent yet. Returns its size.
    pub(crate) fn send(&mut self, status: u16, lines: &[u8], output: &mut Response<'_>) -> usize {
        // What has ended before its head is sent has a size after all.
        let is_whole = self.end == End::Complete;
        let size = if is_whole { Some(self.written.len() as u64) } else { self.size };
        let begin = || output.begin_parts(status, lines, size);
        let framing = *self.framing.get_or_insert_with(begin);
        output.append_part(framing, &mut self.written)
    }

    /// Ends a response of which everything is sent.
    pub(crate) fn finish(&self, output: &mut Response<'_>) -> Progress {
        let Some(framing) = self.framing else { return Progress::Reset };
        match (self.end, framing) {
            (End::Truncated, PartFraming::UntilClose) => return Progress::Reset,
            (End::Truncated, PartFraming::Length | PartFraming::Chunked) => output.close_after(),
            _ => output.end_parts(framing),
        }
        Progress::Complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_as_many_bytes_as_it_says() {
        let mut parts = Parts::new(Some(5));
        assert!(parts.write(b"abc") && !parts.write(b"def") && parts.write(b"de"));
        assert!(!parts.write(b"f") && parts.write(b"") && parts.end() && !parts.end());
        assert_eq!((parts.end, &*parts.written), (End::Complete, &b"abcde"[..]));
        let mut parts = Parts::new(Some(1));
        assert!(!parts.end() && !parts.write(b"a"));
        assert_eq!(parts.end, End::Truncated);
    }

    #[test]
    fn a_body_of_unknown_size_ends_when_it_is_said() {
        let mut parts = Parts::new(None);
        assert!(parts.write(b"a") && parts.write(b"b") && parts.end());
        assert!(!parts.write(b"c") && !parts.end() && parts.has_ended() && !parts.is_sent());
        assert_eq!(parts.written, b"ab");
    }
}
