//! The bytes of a response: its head, and its body in the framing that the head announces.

use std::ops::Range;
use std::sync::Arc;

use jissoku_http::date;
use jissoku_os::driver::SendBuffer;
use jissoku_os::file::File;

use crate::response_head::{BodySize, Expectation, Framing, ResponseHead};

/// The state of a response after a part of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// The response is complete.
    Done { persists: bool },
    /// More follows, and the part is sent before it is asked for.
    More,
    /// The response is incomplete: the output is sent, and then the connection is closed, so that
    /// the client detects it.
    Truncated,
}

/// The state of a response whose bytes are written.
#[derive(Clone, Debug)]
pub(crate) struct BodyWriter {
    pub(crate) request: Expectation,
    /// The framing, once the head is written.
    pub(crate) framing: Option<Framing>,
    persists: bool,
    /// 0 until the head is written.
    pub(crate) status: u16,
    /// Bytes of the body that were written.
    pub(crate) body_size: u64,
    /// Bytes beyond Content-Length, which were not written.
    excess_size: u64,
    /// Bytes up to Content-Length that are missing at the end.
    missing_size: u64,
}

impl BodyWriter {
    pub(crate) const fn new(request: Expectation) -> Self {
        Self {
            request,
            framing: None,
            persists: false,
            status: 0,
            body_size: 0,
            excess_size: 0,
            missing_size: 0,
        }
    }

    pub(crate) fn write_head(
        &mut self,
        head: &ResponseHead,
        size: BodySize,
        date: &[u8; date::SIZE],
        output: &mut SendBuffer,
    ) {
        let plan = head.plan(&self.request, size);
        head.write(plan, (date, &self.request), |part| output.append(part));
        self.framing = Some(plan.framing);
        (self.persists, self.status) = (plan.persists, head.status());
    }

    /// Writes a part of the body.
    pub(crate) fn write(&mut self, bytes: &[u8], output: &mut SendBuffer) {
        if bytes.is_empty() {
            return;
        }
        let mut size = bytes.len();
        match &mut self.framing {
            None | Some(Framing::None) => return,
            Some(Framing::UntilClose) => output.append(bytes),
            Some(Framing::Chunked) => {
                output.append(format!("{size:x}\r\n").as_bytes());
                output.append(bytes);
                output.append(b"\r\n");
            }
            Some(Framing::Length(left)) => {
                // Bytes beyond Content-Length would be parsed as another response.
                size = usize::try_from(*left).map_or(size, |left| left.min(size));
                *left -= size as u64;
                self.excess_size += (bytes.len() - size) as u64;
                output.append(&bytes[..size]);
            }
        }
        self.body_size += size as u64;
    }

    /// Appends a range of a file, whose size is that of the body in the head.
    pub(crate) fn write_file(
        &mut self,
        file: Arc<File>,
        range: Range<u64>,
        output: &mut SendBuffer,
    ) {
        let Some(Framing::Length(left)) = &mut self.framing else { return };
        let size = (*left).min(range.end - range.start);
        *left -= size;
        self.body_size += size;
        if size > 0 {
            output.append_file(file, range.start..range.start + size);
        }
    }

    /// How the body differs from Content-Length, after it has ended; said once.
    pub(crate) fn take_length_fault(&mut self) -> Option<String> {
        let (size, sent) = (self.body_size + self.missing_size, self.body_size + self.excess_size);
        self.excess_size = 0;
        self.missing_size = 0;
        (size != sent).then(|| length_fault(sent, size))
    }

    /// Ends the body.
    pub(crate) fn finish(&mut self, output: &mut SendBuffer) -> WriteOutcome {
        match self.framing {
            // The client waits for the rest until the connection closes.
            Some(Framing::Length(left @ 1..)) => {
                self.missing_size = left;
                return WriteOutcome::Truncated;
            }
            Some(Framing::Chunked) => output.append(b"0\r\n\r\n"),
            _ => {}
        }
        WriteOutcome::Done { persists: self.persists }
    }
}

/// That an application has sent `sent` bytes of a body, with a Content-Length of `size`.
pub(crate) fn length_fault(sent: u64, size: u64) -> String {
    if sent < size {
        return format!("the application has sent {sent} of {size} bytes of its body");
    }
    let rest = "those beyond Content-Length are left out";
    format!("the application has sent {sent} bytes of a body of {size}: {rest}")
}
