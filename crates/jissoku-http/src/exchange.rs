//! Where in a request are we? The state of one connection's requests between two arrivals of bytes.
//!
//! The caller keeps the bytes, this keeps the meaning. It is not told of answers, and does not decide when
//! to close: [`Head::keeps_alive`] says what the client wants, and a [`Reject`] is always the end.

use std::ops::Range;

use crate::chunked::{Decoder, Piece};
use crate::framing::Body;
use crate::head::{Head, HeadReader};
use crate::limits::Limits;
use crate::reject::Reject;

/// What the next bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing whole yet; more bytes are needed.
    Partial,
    /// A head. If its body is [`Body::Empty`] the request is complete, and what follows is the next one.
    Head(Head),
    /// A piece of the body, as a place in the bytes that were given.
    Body(Range<usize>),
    /// The end of a request that had a body.
    End,
}

/// An event, and how many of the given bytes it used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes at the front that need not be given again.
    pub used: usize,
    /// What they meant.
    pub event: Event,
}

/// The requests of one connection, as far as they were read.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    reading: Reading,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    Head(HeadReader),
    Length { left: u64 },
    Chunks(Decoder),
}

impl Default for Exchange {
    fn default() -> Self {
        Self::new()
    }
}

impl Exchange {
    /// Stands before the first request.
    #[must_use]
    pub fn new() -> Self {
        Self { reading: Reading::Head(HeadReader::default()) }
    }

    /// Whether the next byte begins a head or goes on with one, rather than a body.
    #[must_use]
    pub const fn is_in_head(&self) -> bool {
        matches!(self.reading, Reading::Head(_))
    }

    /// Reads on. `bytes` are those that no step has used up, in order, with what has come since: a head
    /// that is not whole uses nothing and has to be given again from its first byte, a body uses
    /// everything. Once it has refused, it must not be asked again.
    ///
    /// # Errors
    /// The first reason to refuse, at the byte where it shows, however the bytes were cut.
    #[inline]
    pub fn step(&mut self, bytes: &[u8], limits: &Limits) -> Result<Step, Reject> {
        match &mut self.reading {
            Reading::Head(reader) => {
                let Some(head) = reader.read(bytes, limits)? else {
                    return Ok(Step { used: 0, event: Event::Partial });
                };
                self.reading = match head.body {
                    Body::Empty => Reading::Head(HeadReader::default()),
                    Body::Length(left) => Reading::Length { left },
                    Body::Chunked => Reading::Chunks(Decoder::new()),
                };
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
                (used, Piece::Partial) => Ok(Step { used, event: Event::Partial }),
                (used, Piece::Data(place)) => Ok(Step { used, event: Event::Body(place) }),
                (used, Piece::End) => Ok(self.end(used)),
            },
        }
    }

    fn end(&mut self, used: usize) -> Step {
        self.reading = Reading::Head(HeadReader::default());
        Step { used, event: Event::End }
    }
}

#[cfg(test)]
mod tests;
