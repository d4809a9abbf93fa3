//! Incremental decoder of the chunked transfer coding: RFC 9112 section 7.1.
//!
//! Nothing is buffered. Extensions and trailers are validated, limited, and dropped.

use std::ops::Range;

use crate::limits::Limits;
use crate::reject::Reject;
use crate::scan;

/// Digits of a chunk size; more would overflow 64 bits.
const SIZE_DIGITS_MAX: u8 = 16;

/// A decoded part of a chunked body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// All bytes were consumed; the body continues.
    Partial,
    /// Data, as a range of the given bytes.
    Data(Range<usize>),
    /// The body and its trailers have ended.
    End,
}

/// The state of decoding one body.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    state: State,
    /// Remaining size of the current chunk, or its size while that is being parsed.
    left: u64,
    body_size: u64,
    /// A limit of this body, besides that of all.
    body_size_max: u64,
    extensions_size: u32,
    trailers_size: u32,
    trailer_size: u32,
    trailers_count: u32,
}

/// What the next byte is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size {
        digits: u8,
    },
    /// Whitespace after a size or an extension; only another extension may follow.
    BeforeExtension,
    /// After a semicolon.
    BeforeName,
    Name,
    /// Whitespace after a name; a semicolon or an equals sign may follow.
    AfterName,
    BeforeValue,
    Value,
    Quoted,
    Escaped,
    /// After a closing quote.
    AfterQuoted,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Starts before the first chunk.
    pub const fn new() -> Self {
        Self {
            state: State::Size { digits: 0 },
            left: 0,
            body_size: 0,
            body_size_max: u64::MAX,
            extensions_size: 0,
            trailers_size: 0,
            trailer_size: 0,
            trailers_count: 0,
        }
    }

    /// Limits this body, before any of it was decoded.
    pub(crate) const fn limit(&mut self, body_size_max: u64) {
        self.body_size_max = body_size_max;
    }

    /// How many bytes of trailers were consumed: their lines, and then the CR of the empty line.
    pub(crate) const fn trailers_size(&self) -> usize {
        self.trailers_size as usize
    }

    /// Decodes up to the next data or the end, and returns the number of consumed bytes. Data is at
    /// the end of the consumed bytes.
    ///
    /// # Errors
    /// The first error, at the byte where it is detected.
    pub fn next(&mut self, bytes: &[u8], limits: &Limits) -> Result<(usize, Chunk), Reject> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.state == State::Data {
                let there = bytes.len() - at;
                let size = usize::try_from(self.left).map_or(there, |left| left.min(there));
                self.left -= size as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                return Ok((at + size, Chunk::Data(at..at + size)));
            }
            at += 1;
            if self.state == State::EndLf {
                return if byte == b'\n' { Ok((at, Chunk::End)) } else { Err(Reject::BareCr) };
            }
            self.state = self.advance(byte, limits)?;
        }
        Ok((at, Chunk::Partial))
    }

    /// The state after a byte that is not data.
    fn advance(&mut self, byte: u8, limits: &Limits) -> Result<State, Reject> {
        match self.state {
            State::Size { digits } => self.read_size(byte, digits, limits),
            State::SizeLf => match byte {
                b'\n' if self.left == 0 => Ok(State::TrailerStart),
                b'\n' => Ok(State::Data),
                _ => Err(Reject::BareCr),
            },
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => Ok(State::Size { digits: 0 }),
            State::DataCr | State::DataLf => Err(Reject::ChunkUnterminated),
            State::TrailerStart | State::TrailerName | State::TrailerValue | State::TrailerLf => {
                self.read_trailer(byte, limits)
            }
            // Handled by `next`.
            State::Data | State::EndLf => Ok(self.state),
            State::BeforeExtension
            | State::BeforeName
            | State::Name
            | State::AfterName
            | State::BeforeValue
            | State::Value
            | State::Quoted
            | State::Escaped
            | State::AfterQuoted => self.read_extension(byte, limits),
        }
    }

    fn read_size(&mut self, byte: u8, digits: u8, limits: &Limits) -> Result<State, Reject> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if digits == SIZE_DIGITS_MAX {
                return Err(Reject::ChunkSizeInvalid);
            }
            // `left` is 0 before the first digit.
            self.left = self.left << 4 | u64::from(digit);
            return Ok(State::Size { digits: digits + 1 });
        }
        if digits == 0 || !matches!(byte, b'\r' | b';' | b' ' | b'\t') {
            return Err(if byte == b'\n' { Reject::BareLf } else { Reject::ChunkSizeInvalid });
        }
        // Rejected before any of the excess is read.
        self.body_size = self.body_size.saturating_add(self.left);
        if self.body_size > limits.body_size_max.min(self.body_size_max) {
            return Err(Reject::BodyTooLong);
        }
        if byte == b'\r' {
            return Ok(State::SizeLf);
        }
        self.state = State::BeforeExtension;
        self.read_extension(byte, limits)
    }

    /// `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`: whitespace is only
    /// allowed before an extension (RFC 9112 section 7.1.1).
    fn read_extension(&mut self, byte: u8, limits: &Limits) -> Result<State, Reject> {
        self.extensions_size += 1;
        if self.extensions_size > limits.extensions_size_max {
            return Err(Reject::ChunkExtensionsTooLong);
        }
        let is_space = matches!(byte, b' ' | b'\t');
        match (self.state, byte) {
            (State::Escaped | State::Quoted, b'\r' | b'\n') => {}
            (State::Quoted, b'"') => return Ok(State::AfterQuoted),
            (State::Quoted, b'\\') => return Ok(State::Escaped),
            (State::Quoted | State::Escaped, _) if is_value(byte) => return Ok(State::Quoted),
            (State::Name | State::Value | State::AfterQuoted, b'\r') => return Ok(State::SizeLf),
            (
                State::BeforeExtension
                | State::Name
                | State::AfterName
                | State::Value
                | State::AfterQuoted,
                b';',
            ) => return Ok(State::BeforeName),
            (State::Name | State::AfterName, b'=') => return Ok(State::BeforeValue),
            (State::Name | State::AfterName, _) if is_space => return Ok(State::AfterName),
            (State::BeforeValue, b'"') => return Ok(State::Quoted),
            (State::Value | State::AfterQuoted | State::BeforeExtension, _) if is_space => {
                return Ok(State::BeforeExtension);
            }
            (State::BeforeName | State::BeforeValue, _) if is_space => return Ok(self.state),
            (State::BeforeName | State::Name, _) if scan::is_token(byte) => return Ok(State::Name),
            (State::BeforeValue | State::Value, _) if scan::is_token(byte) => {
                return Ok(State::Value);
            }
            _ => {}
        }
        Err(if byte == b'\n' { Reject::BareLf } else { Reject::ChunkExtensionInvalid })
    }

    /// Trailers are validated like header fields, with the same limits, and dropped.
    fn read_trailer(&mut self, byte: u8, limits: &Limits) -> Result<State, Reject> {
        self.trailers_size += 1;
        self.trailer_size += 1;
        if self.trailer_size > limits.field_size_max {
            return Err(Reject::FieldTooLong);
        }
        if self.trailers_size > limits.fields_size_max {
            return Err(Reject::FieldsTooLong);
        }
        match (self.state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::EndLf),
            (State::TrailerStart, b' ' | b'\t') => Err(Reject::ObsoleteFold),
            (State::TrailerStart, _) if self.trailers_count == limits.fields_count_max => {
                Err(Reject::FieldsTooMany)
            }
            (State::TrailerStart | State::TrailerName, _) if scan::is_token(byte) => {
                Ok(State::TrailerName)
            }
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerName, b' ' | b'\t') => Err(Reject::SpaceBeforeColon),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, _) if is_value(byte) => Ok(State::TrailerValue),
            (State::TrailerLf, b'\n') => {
                self.trailers_count += 1;
                self.trailer_size = 0;
                Ok(State::TrailerStart)
            }
            (State::TrailerLf, _) => Err(Reject::BareCr),
            (_, b'\n') => Err(Reject::BareLf),
            (State::TrailerValue, _) => Err(Reject::ControlByte),
            _ => Err(Reject::FieldNameInvalid),
        }
    }
}

fn is_value(byte: u8) -> bool {
    scan::value_end(&[byte]) == 1
}

#[cfg(test)]
mod tests;
