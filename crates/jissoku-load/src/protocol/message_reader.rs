//! Reads WebSocket messages (RFC 6455 section 5, strict) and verifies them.
//!
//! The result does not depend on how the bytes were split. Fragments are joined; a control frame,
//! also between two fragments, is a result of its own.

use crate::engine::error::RequestError;
use crate::plan::expect::{Body, Expected};
use crate::protocol::message::{
    BINARY, CLOSE, CONTINUATION, CONTROL_SIZE_MAX, FIN, MASKED, MessageType, PING, PONG, TEXT,
};
use crate::protocol::reader::{ControlFrame, Progress, ResponseInfo};

/// The largest header of an unmasked frame.
const HEADER_SIZE_MAX: usize = 10;

/// The reserved bits, for extensions: none is ever agreed on.
const RESERVED: u8 = 0x70;

/// Reads the messages of a connection.
#[derive(Debug, Default)]
pub(crate) struct MessageReader {
    /// The bytes of an incomplete header.
    header: Vec<u8>,
    frame: Option<Frame>,
    message: Option<PartialMessage>,
    /// The payload of the last control frame.
    control_payload: Vec<u8>,
}

/// A frame whose header has been read.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    is_last: bool,
    /// Bytes of the payload that are missing.
    left: u64,
}

/// A message whose last frame has not been read.
#[derive(Debug)]
struct PartialMessage {
    opcode: u8,
    body: Body,
}

/// The result of parsing a header.
enum Parsed {
    Partial,
    /// The header of a frame, and its size.
    Complete(Frame, usize),
    Invalid,
}

impl MessageReader {
    /// Reads the next bytes, up to the end of a message or of a control frame.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        message_type: MessageType,
        expected: &Expected,
    ) -> Progress {
        let mut used = 0;
        loop {
            let mut frame = match self.frame {
                Some(frame) => frame,
                None => match self.read_header(&bytes[used..]) {
                    Parsed::Partial => return Progress::Incomplete,
                    Parsed::Invalid => return Progress::Invalid,
                    Parsed::Complete(frame, size) => {
                        used += size;
                        if !self.begin_frame(frame, expected) {
                            return Progress::Invalid;
                        }
                        frame
                    }
                },
            };
            let rest = &bytes[used..];
            let count = usize::try_from(frame.left).unwrap_or(usize::MAX).min(rest.len());
            self.read_payload(frame, &rest[..count], expected);
            used += count;
            frame.left -= count as u64;
            if frame.left > 0 {
                self.frame = Some(frame);
                return Progress::Incomplete;
            }
            self.frame = None;
            if let Some(progress) = self.end_frame(frame, used, message_type, expected) {
                return progress;
            }
        }
    }

    /// The connection has ended: returns the error.
    pub(crate) fn end(&mut self) -> RequestError {
        let is_partial = self.message.take().is_some();
        if is_partial { RequestError::Length } else { RequestError::Closed }
    }

    /// Whether no bytes of the next message have been read.
    pub(crate) fn is_fresh(&self) -> bool {
        self.header.is_empty() && self.frame.is_none() && self.message.is_none()
    }

    /// Whether the next byte belongs to a control frame.
    pub(crate) fn is_in_control_frame(&self, next: u8) -> bool {
        let first = self.header.first().copied().unwrap_or(next);
        is_control(self.frame.map_or(first & 0x0f, |frame| frame.opcode))
    }

    /// The payload of the last control frame.
    pub(crate) fn control_payload(&self) -> &[u8] {
        &self.control_payload
    }

    fn read_header(&mut self, bytes: &[u8]) -> Parsed {
        let before = self.header.len();
        if before == 0 {
            let parsed = parse_header(bytes);
            if matches!(parsed, Parsed::Partial) {
                self.header.extend_from_slice(bytes);
            }
            return parsed;
        }
        let count = (HEADER_SIZE_MAX - before).min(bytes.len());
        self.header.extend_from_slice(&bytes[..count]);
        match parse_header(&self.header) {
            Parsed::Complete(frame, size) => {
                self.header.clear();
                Parsed::Complete(frame, size - before)
            }
            other @ (Parsed::Partial | Parsed::Invalid) => other,
        }
    }

    /// Returns false if the frame may not follow the last one.
    fn begin_frame(&mut self, frame: Frame, expected: &Expected) -> bool {
        if is_control(frame.opcode) {
            self.control_payload.clear();
            return true;
        }
        let continues = frame.opcode == CONTINUATION;
        if continues != self.message.is_some() {
            return false;
        }
        if !continues {
            let body = Body::begin(expected);
            self.message = Some(PartialMessage { opcode: frame.opcode, body });
        }
        true
    }

    fn read_payload(&mut self, frame: Frame, part: &[u8], expected: &Expected) {
        if is_control(frame.opcode) {
            self.control_payload.extend_from_slice(part);
        } else if let Some(message) = &mut self.message {
            message.body.update(part, expected);
        }
    }

    /// Handles the end of a frame; `None` if its message continues.
    fn end_frame(
        &mut self,
        frame: Frame,
        used: usize,
        message_type: MessageType,
        expected: &Expected,
    ) -> Option<Progress> {
        Some(match frame.opcode {
            PING => Progress::Control(ControlFrame::Ping, used),
            PONG => Progress::Control(ControlFrame::Pong, used),
            // A close code has two bytes.
            CLOSE if self.control_payload.len() == 1 => Progress::Invalid,
            CLOSE => Progress::Control(ControlFrame::Close, used),
            _ if !frame.is_last => return None,
            _ => {
                let PartialMessage { opcode, body } = self.message.take()?;
                let is_other_type = opcode != message_type.opcode();
                let error = body.verify_bytes(expected);
                let error = error.or(is_other_type.then_some(RequestError::Body));
                Progress::Complete(ResponseInfo { status: 0, error, keeps_alive: true }, used)
            }
        })
    }
}

/// Parses and checks a header. What is wrong with the first two bytes is found as soon as both are
/// there.
fn parse_header(bytes: &[u8]) -> Parsed {
    let &[first, second, ref rest @ ..] = bytes else { return Parsed::Partial };
    let (opcode, is_last) = (first & 0x0f, first & FIN != 0);
    let is_known = matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG);
    // A server must not mask (section 5.1).
    if !is_known || first & RESERVED != 0 || second & MASKED != 0 {
        return Parsed::Invalid;
    }
    if is_control(opcode) && (usize::from(second) > CONTROL_SIZE_MAX || !is_last) {
        return Parsed::Invalid;
    }
    let (left, size) = match second {
        126 => match rest.first_chunk() {
            Some(&size) => (u64::from(u16::from_be_bytes(size)), 4),
            None => return Parsed::Partial,
        },
        127 => match rest.first_chunk() {
            Some(&size) => (u64::from_be_bytes(size), HEADER_SIZE_MAX),
            None => return Parsed::Partial,
        },
        short => (u64::from(short), 2),
    };
    // As few bytes as possible, and the highest bit is zero (section 5.2).
    let least = [0, 126, 1 << 16][usize::from(second.saturating_sub(125).min(2))];
    if left < least || left > u64::MAX >> 1 {
        return Parsed::Invalid;
    }
    Parsed::Complete(Frame { opcode, is_last, left }, size)
}

const fn is_control(opcode: u8) -> bool {
    opcode & CLOSE != 0
}

#[cfg(test)]
mod tests;
