//! The reader of the responses of an upstream server, for a proxy.
//!
//! As strict as the reader of requests: what the next hop could read differently is an error. The
//! caller buffers the bytes, this type keeps the state. The result never depends on how the bytes
//! are split.

mod head;
mod status_line;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::chunked::{Chunk, Decoder};
use crate::limits::Limits;
pub use crate::reject::BadResponse;
use head::ResponseHeadReader;
pub use head::{ResponseBody, ResponseHead};

/// Maximum number of interim responses before a final one.
const INTERIM_COUNT_MAX: u32 = 16;

/// Maximum size of all interim responses before a final one.
const INTERIM_SIZE_MAX: u32 = 32 * 1024;

/// Limits of a response of an upstream server, unless another number of fields is given. Its body is
/// not limited.
pub const RESPONSE_LIMITS: Limits = Limits {
    field_size_max: 32 * 1024,
    body_size_max: u64::MAX,
    extensions_size_max: 64 * 1024,
    ..Limits::DEFAULT
};

/// A parsed element of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseEvent {
    /// Incomplete; more bytes are needed.
    Partial,
    /// The head of an interim response (1xx without 101); others follow.
    Interim(ResponseHead),
    /// The head of the final response, or of 101. [`ResponseEvent::End`] follows in any case.
    Head(ResponseHead),
    /// A part of the body, as a range of the given bytes.
    Body(Range<usize>),
    /// A part of the trailers, as a range of the given bytes. All parts together are header lines,
    /// and at last a CR.
    Trailers(Range<usize>),
    /// The end of the response.
    End,
}

/// An event, and the number of consumed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseStep {
    /// Number of consumed bytes.
    pub used: usize,
    /// The event.
    pub event: ResponseEvent,
}

/// The state of parsing the response to one request.
#[derive(Clone, Copy, Debug)]
pub struct ResponseReader {
    reading: Reading,
    is_head_request: bool,
    fields_max: u32,
    interim_count: u32,
    interim_size: u32,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    Head(ResponseHeadReader),
    Length { left: u64 },
    Chunks(Decoder),
    UntilClose,
    End,
}

impl ResponseReader {
    /// Starts before the response; `is_head_request` if the request was a HEAD, whose response has
    /// no body (RFC 9112 section 6.3).
    pub fn new(is_head_request: bool) -> Self {
        let reading = Reading::Head(ResponseHeadReader::default());
        let fields_max = RESPONSE_LIMITS.fields_count_max;
        Self { reading, is_head_request, fields_max, interim_count: 0, interim_size: 0 }
    }

    /// The same with another limit of the number of fields, of each head and of the trailers.
    #[must_use]
    pub const fn with_fields_max(self, fields_max: u32) -> Self {
        Self { fields_max, ..self }
    }

    /// Whether [`ResponseEvent::End`] was returned, or would be without further bytes.
    pub const fn is_complete(&self) -> bool {
        matches!(self.reading, Reading::End | Reading::Length { left: 0 })
    }

    /// Whether the head is incomplete.
    pub const fn is_in_head(&self) -> bool {
        matches!(self.reading, Reading::Head(_))
    }

    /// Parses the next element. `bytes` are all bytes that are not consumed yet, in order: an
    /// incomplete head consumes nothing and has to be passed again from its first byte, a body
    /// consumes everything. Must not be called after an error, nor after the end.
    ///
    /// # Errors
    /// The first error, at the byte where it is detected, however the bytes are split.
    pub fn step(&mut self, bytes: &[u8]) -> Result<ResponseStep, BadResponse> {
        let limits = Limits { fields_count_max: self.fields_max, ..RESPONSE_LIMITS };
        match &mut self.reading {
            Reading::Head(reader) => match reader.read(bytes, &limits)? {
                Some(head) => self.on_head(head),
                None => Ok(ResponseStep { used: 0, event: ResponseEvent::Partial }),
            },
            Reading::Length { left: 0 } | Reading::End => Ok(self.end(0)),
            Reading::Length { .. } | Reading::UntilClose if bytes.is_empty() => {
                Ok(ResponseStep { used: 0, event: ResponseEvent::Partial })
            }
            Reading::Length { left } => {
                let used = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= used as u64;
                Ok(ResponseStep { used, event: ResponseEvent::Body(0..used) })
            }
            Reading::UntilClose => {
                let used = bytes.len();
                Ok(ResponseStep { used, event: ResponseEvent::Body(0..used) })
            }
            Reading::Chunks(decoder) => {
                let before = decoder.trailers_size();
                match decoder.next(bytes, &limits).map_err(BadResponse::Chunk)? {
                    (used, Chunk::Data(place)) => {
                        Ok(ResponseStep { used, event: ResponseEvent::Body(place) })
                    }
                    (used, chunk) => {
                        let is_end = chunk == Chunk::End;
                        let size = decoder.trailers_size() - before;
                        // The last byte is the LF of the empty line.
                        let end = used - usize::from(is_end);
                        let event = match (is_end, size) {
                            (true, 0) => return Ok(self.end(used)),
                            (_, 0) => ResponseEvent::Partial,
                            _ => ResponseEvent::Trailers(end - size..end),
                        };
                        if is_end {
                            self.reading = Reading::End;
                        }
                        Ok(ResponseStep { used, event })
                    }
                }
            }
        }
    }

    /// The server has closed the connection after all bytes that were passed.
    ///
    /// # Errors
    /// [`BadResponse::Incomplete`], unless that is how the response ends.
    pub fn finish(&mut self) -> Result<(), BadResponse> {
        match self.reading {
            Reading::UntilClose | Reading::End | Reading::Length { left: 0 } => {
                self.reading = Reading::End;
                Ok(())
            }
            Reading::Head(_) | Reading::Length { .. } | Reading::Chunks(_) => {
                Err(BadResponse::Incomplete)
            }
        }
    }

    fn on_head(&mut self, head: ResponseHead) -> Result<ResponseStep, BadResponse> {
        let used = head.size as usize;
        if head.is_interim() {
            self.interim_count += 1;
            self.interim_size = self.interim_size.saturating_add(head.size);
            if self.interim_count > INTERIM_COUNT_MAX || self.interim_size > INTERIM_SIZE_MAX {
                return Err(BadResponse::InterimTooMany);
            }
            self.reading = Reading::Head(ResponseHeadReader::default());
            return Ok(ResponseStep { used, event: ResponseEvent::Interim(head) });
        }
        let head = if self.is_head_request { head.without_body() } else { head };
        self.reading = match head.body {
            ResponseBody::Empty => Reading::End,
            ResponseBody::Length(left) => Reading::Length { left },
            ResponseBody::Chunked => Reading::Chunks(Decoder::new()),
            ResponseBody::UntilClose => Reading::UntilClose,
        };
        Ok(ResponseStep { used, event: ResponseEvent::Head(head) })
    }

    fn end(&mut self, used: usize) -> ResponseStep {
        self.reading = Reading::End;
        ResponseStep { used, event: ResponseEvent::End }
    }
}
