//! The parser of the requests of one connection.
//!
//! The caller buffers the bytes, this type keeps the state. It does not know of responses and does
//! not decide when to close: [`Head::keeps_alive`] is the request of the client, and a [`Reject`]
//! always ends the connection.

use std::ops::Range;

use crate::chunked::{Chunk, Decoder};
use crate::framing::Body;
use crate::head::{Head, HeadReader};
use crate::limits::Limits;
use crate::reject::Reject;

/// Maximum size of a head that is kept.
const LAST_HEAD_SIZE_MAX: usize = 1024;

/// A parsed element of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Incomplete; more bytes are needed.
    Partial,
    /// A head. If its body is [`Body::Empty`] the request is complete.
    Head(Head),
    /// A part of the body, as a range of the given bytes.
    Body(Range<usize>),
    /// The end of a request that had a body.
    End,
}

/// An event, and the number of consumed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of consumed bytes.
    pub used: usize,
    /// The event.
    pub event: Event,
}

/// The state of parsing the requests of one connection.
#[derive(Clone, Copy, Debug)]
pub struct RequestParser {
    reading: Reading,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    Head(HeadReader),
    Length { left: u64 },
    Chunks(Decoder),
}

impl Reading {
    #[inline]
    fn of_body(body: Body) -> Self {
        match body {
            Body::Empty => Self::Head(HeadReader::default()),
            Body::Length(left) => Self::Length { left },
            Body::Chunked => Self::Chunks(Decoder::new()),
        }
    }
}

impl Default for RequestParser {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestParser {
    /// Starts before the first request.
    pub fn new() -> Self {
        Self { reading: Reading::Head(HeadReader::default()) }
    }

    /// Starts behind a head that was not parsed by this type, with its body.
    pub fn behind_head(body: Body) -> Self {
        Self { reading: Reading::of_body(body) }
    }

    /// Whether the next byte is part of a head, and not of a body.
    pub const fn is_in_head(&self) -> bool {
        matches!(self.reading, Reading::Head(_))
    }

    /// Whether the head that is being parsed is that of a HEAD request, whose response has no body
    /// even if it is an error (RFC 9110 section 9.3.2). `bytes` are those of the last step.
    pub fn is_head_request(&self, bytes: &[u8]) -> bool {
        match &self.reading {
            Reading::Head(reader) => reader.is_head(bytes),
            Reading::Length { .. } | Reading::Chunks(_) => false,
        }
    }

    /// Limits the body of the request whose head was returned last, besides [`Limits`]. Must be called
    /// before any of it is parsed.
    ///
    /// # Errors
    /// [`Reject::BodyTooLong`], if its length is known and exceeds the limit. A chunked body is
    /// rejected by [`RequestParser::step`], before any of the excess is read.
    pub const fn limit_body(&mut self, size_max: u64) -> Result<(), Reject> {
        match &mut self.reading {
            Reading::Length { left } if *left > size_max => Err(Reject::BodyTooLong),
            Reading::Head(_) | Reading::Length { .. } => Ok(()),
            Reading::Chunks(decoder) => {
                decoder.limit(size_max);
                Ok(())
            }
        }
    }

    /// How many bytes of a body are still to come, as its length says; the largest number for a
    /// chunked body, and 0 if the next byte is part of a head.
    pub const fn body_left(&self) -> u64 {
        match &self.reading {
            Reading::Head(_) => 0,
            Reading::Length { left } => *left,
            Reading::Chunks(_) => u64::MAX,
        }
    }

    /// Parses the next element. `bytes` are all bytes that are not consumed yet, in order: an
    /// incomplete head consumes nothing and has to be passed again from its first byte, a body
    /// consumes everything. Must not be called after an error.
    ///
    /// # Errors
    /// The first error, at the byte where it is detected, however the bytes are split.
    #[inline]
    pub fn step(&mut self, bytes: &[u8], limits: &Limits) -> Result<Step, Reject> {
        match &mut self.reading {
            Reading::Head(reader) => {
                let Some(head) = reader.read(bytes, limits)? else {
                    return Ok(Step { used: 0, event: Event::Partial });
                };
                self.reading = Reading::of_body(head.body);
                Ok(Step { used: head.size as usize, event: Event::Head(head) })
            }
            Reading::Length { left: 0 } => Ok(self.end(0)),
            Reading::Length { .. } if bytes.is_empty() => {
                Ok(Step { used: 0, event: Event::Partial })
            }
            Reading::Length { left } => {
                let used = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= used as u64;
                Ok(Step { used, event: Event::Body(0..used) })
            }
            Reading::Chunks(decoder) => match decoder.next(bytes, limits)? {
                (used, Chunk::Partial) => Ok(Step { used, event: Event::Partial }),
                (used, Chunk::Data(place)) => Ok(Step { used, event: Event::Body(place) }),
                (used, Chunk::End) => Ok(self.end(used)),
            },
        }
    }

    /// As [`RequestParser::step`], with the same result. A head with the bytes of `last`, which belongs to
    /// the same limits, is not parsed again.
    ///
    /// # Errors
    /// As [`RequestParser::step`].
    #[inline]
    pub fn step_after(
        &mut self,
        last: &mut LastHead,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Step, Reject> {
        if self.is_in_head()
            && let Some(head) = last.at_start_of(bytes)
        {
            self.reading = Reading::of_body(head.body);
            return Ok(Step { used: head.size as usize, event: Event::Head(head) });
        }
        let step = self.step(bytes, limits)?;
        if let Event::Head(head) = &step.event {
            last.set(*head, bytes);
        }
        Ok(step)
    }

    fn end(&mut self, used: usize) -> Step {
        self.reading = Reading::Head(HeadReader::default());
        Step { used, event: Event::End }
    }
}

/// The head that was parsed last, on any of the connections that share it. Many clients repeat theirs,
/// which need not be parsed again then.
#[derive(Debug, Default)]
pub struct LastHead {
    bytes: Vec<u8>,
    /// The result of parsing `bytes`.
    head: Option<Head>,
}

impl LastHead {
    /// The head at the start of `bytes`, if it is this one. Parsing depends on nothing but the bytes
    /// of a head, up to its end, and the limits.
    #[inline]
    fn at_start_of(&self, bytes: &[u8]) -> Option<Head> {
        self.head.filter(|_| bytes.starts_with(&self.bytes))
    }

    /// Keeps a head at the start of `bytes`.
    #[inline]
    fn set(&mut self, head: Head, bytes: &[u8]) {
        let own = bytes.get(..head.size as usize).filter(|own| own.len() <= LAST_HEAD_SIZE_MAX);
        let Some(own) = own else { return };
        self.bytes.clear();
        self.bytes.extend_from_slice(own);
        self.head = Some(head);
    }
}

#[cfg(test)]
mod tests;
