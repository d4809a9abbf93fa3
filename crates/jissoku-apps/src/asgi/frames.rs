//! Frames of the WebSocket protocol (RFC 6455 section 5) with compressed messages (RFC 7692), from
//! and to bytes in memory. The fuzz target `frames` includes this file, `deflate` and `failure` by
//! their paths, because it does without Python.

use super::deflate::Deflate;
use super::failure::{Failure, code};

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

const FIN: u8 = 0x80;
/// Set in the first frame of a compressed message.
const RSV1: u8 = 0x40;

/// Messages below this size are not compressed.
const COMPRESSED_SIZE_MIN: usize = 64;

/// A complete message or control frame of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    /// The code, [`code::NONE`] without one, and the reason.
    Close(u16, String),
}

const fn violation(reason: &'static str) -> Failure {
    Failure(code::PROTOCOL_ERROR, reason)
}

/// Parses the frames of a client.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Bytes of an incomplete frame.
    input: Vec<u8>,
    message: Option<Partial>,
    /// Whether compression was agreed on.
    compresses: bool,
    /// The largest message, also after decompression.
    size_max: usize,
}

/// A message whose last frame has not been received.
#[derive(Debug)]
struct Partial {
    is_text: bool,
    is_compressed: bool,
    bytes: Vec<u8>,
    /// Leading bytes that are known to be valid UTF-8.
    checked: usize,
}

/// A frame header.
struct Header {
    first: u8,
    mask: [u8; 4],
    /// Sizes of the header and of the payload.
    size: usize,
    payload: usize,
}

impl Decoder {
    pub(super) const fn new(compresses: bool, size_max: usize) -> Self {
        Self { input: Vec::new(), message: None, compresses, size_max }
    }

    /// Parses further bytes and passes complete events to `take`.
    ///
    /// # Errors
    /// The connection has to be failed; nothing may be parsed afterwards.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        deflate: &mut Deflate,
        mut take: impl FnMut(Event),
    ) -> Result<(), Failure> {
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let mut used = 0;
        while let Some(header) = self.read_header(&input[used..])? {
            let end = used + header.size + header.payload;
            let Some(payload) = input.get_mut(used + header.size..end) else { break };
            unmask(payload, header.mask);
            if let Some(event) = self.read_frame(header.first, payload, deflate)? {
                let is_close = matches!(event, Event::Close(..));
                take(event);
                if is_close {
                    return Ok(());
                }
            }
            used = end;
        }
        input.drain(..used);
        // An idle connection keeps no buffer.
        self.input = if input.is_empty() { Vec::new() } else { input };
        Ok(())
    }

    /// Parses and checks a header, unless it is incomplete.
    fn read_header(&self, bytes: &[u8]) -> Result<Option<Header>, Failure> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let (first, second) = (*first, *second);
        let opcode = first & 0x0f;
        if !matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG) {
            return Err(violation("unknown opcode"));
        }
        let may_be_compressed = self.compresses && matches!(opcode, TEXT | BINARY);
        if first & 0x30 != 0 || (first & RSV1 != 0 && !may_be_compressed) {
            return Err(violation("reserved bits are set"));
        }
        if second & 0x80 == 0 {
            return Err(violation("a frame of a client is not masked"));
        }
        let short = second & 0x7f;
        if opcode >= CLOSE && (short > 125 || first & FIN == 0) {
            return Err(violation("a control frame is too long or fragmented"));
        }
        let (extra, payload) = match short {
            126 => match rest.first_chunk() {
                Some(&size) => (2, u64::from(u16::from_be_bytes(size))),
                None => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(&size) => (8, u64::from_be_bytes(size)),
                None => return Ok(None),
            },
            short => (0, u64::from(short)),
        };
        let before = self.message.as_ref().map_or(0, |message| message.bytes.len());
        let too_big = Failure(code::TOO_BIG, "the message is too big");
        let payload = usize::try_from(payload).map_err(|_| too_big)?;
        if payload > self.size_max.saturating_sub(before) && opcode < CLOSE {
            return Err(too_big);
        }
        let Some(&mask) = rest.get(extra..).and_then(<[u8]>::first_chunk) else { return Ok(None) };
        Ok(Some(Header { first, mask, size: 2 + extra + 4, payload }))
    }

    /// Processes a complete frame.
    fn read_frame(
        &mut self,
        first: u8,
        payload: &[u8],
        deflate: &mut Deflate,
    ) -> Result<Option<Event>, Failure> {
        match first & 0x0f {
            PING => return Ok(Some(Event::Ping(payload.to_vec()))),
            PONG => return Ok(Some(Event::Pong)),
            CLOSE => return read_close(payload).map(Some),
            CONTINUATION if self.message.is_none() => {
                return Err(violation("nothing is to be continued"));
            }
            CONTINUATION => {}
            _ if self.message.is_some() => return Err(violation("a message is not complete")),
            opcode => {
                let is_compressed = first & RSV1 != 0;
                let (is_text, bytes) = (opcode == TEXT, Vec::new());
                self.message = Some(Partial { is_text, is_compressed, bytes, checked: 0 });
            }
        }
        let Some(message) = &mut self.message else { return Ok(None) };
        message.bytes.extend_from_slice(payload);
        let is_last = first & FIN != 0;
        if !is_last {
            if message.is_text && !message.is_compressed {
                message.check_text()?;
            }
            return Ok(None);
        }
        let Some(mut message) = self.message.take() else { return Ok(None) };
        if message.is_compressed {
            message.bytes = deflate.decompress(&message.bytes, self.size_max)?;
        }
        if !message.is_text {
            return Ok(Some(Event::Binary(message.bytes)));
        }
        let text = String::from_utf8(message.bytes);
        text.map(|text| Some(Event::Text(text))).map_err(|_| INVALID_TEXT)
    }
}

const INVALID_TEXT: Failure = Failure(code::INVALID_TEXT, "a text is not UTF-8");

impl Partial {
    /// Fails at the first byte that no continuation makes valid UTF-8.
    fn check_text(&mut self) -> Result<(), Failure> {
        match str::from_utf8(&self.bytes[self.checked..]) {
            Ok(_) => self.checked = self.bytes.len(),
            Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
            Err(_) => return Err(INVALID_TEXT),
        }
        Ok(())
    }
}

fn read_close(payload: &[u8]) -> Result<Event, Failure> {
    let (code, reason) = match payload {
        [] => return Ok(Event::Close(code::NONE, String::new())),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
        [_] => return Err(violation("a close code is incomplete")),
    };
    if !is_sendable(code) {
        return Err(violation("invalid close code"));
    }
    let reason = str::from_utf8(reason).map_err(|_| INVALID_TEXT)?;
    Ok(Event::Close(code, reason.to_owned()))
}

/// Whether a close frame may have this code (RFC 6455 section 7.4).
pub(super) const fn is_sendable(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let mut words = payload.chunks_exact_mut(4);
    for word in &mut words {
        for (byte, key) in word.iter_mut().zip(mask) {
            *byte ^= key;
        }
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= key;
    }
}

/// Writes a message, compressed if `deflate` is given and that makes it smaller.
pub(super) fn write_message(
    is_text: bool,
    payload: &[u8],
    deflate: Option<&mut Deflate>,
    mut append: impl FnMut(&[u8]),
) {
    let opcode = if is_text { TEXT } else { BINARY };
    let compressed = deflate
        .filter(|_| payload.len() >= COMPRESSED_SIZE_MIN)
        .and_then(|deflate| deflate.compress(payload));
    match compressed {
        Some(bytes) => write_frame(FIN | RSV1 | opcode, &bytes, &mut append),
        None => write_frame(FIN | opcode, payload, &mut append),
    }
}

/// Writes a close frame; [`code::NONE`] is sent as no code.
pub(super) fn write_close(code: u16, reason: &str, mut append: impl FnMut(&[u8])) {
    let mut payload = Vec::new();
    if code != code::NONE {
        payload.extend_from_slice(&code.to_be_bytes());
        // A control frame has at most 125 bytes.
        let end = (0..=reason.len().min(123)).rev().find(|&end| reason.is_char_boundary(end));
        payload.extend_from_slice(&reason.as_bytes()[..end.unwrap_or(0)]);
    }
    write_frame(FIN | CLOSE, &payload, &mut append);
}

pub(super) fn write_ping(mut append: impl FnMut(&[u8])) {
    write_frame(FIN | PING, &[], &mut append);
}

pub(super) fn write_pong(payload: &[u8], mut append: impl FnMut(&[u8])) {
    write_frame(FIN | PONG, payload, &mut append);
}

fn write_frame(first: u8, payload: &[u8], append: &mut impl FnMut(&[u8])) {
    append(&[first]);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(size @ ..=125), _) => append(&[size]),
        (_, Ok(size)) => {
            append(&[126]);
            append(&size.to_be_bytes());
        }
        _ => {
            append(&[127]);
            append(&(payload.len() as u64).to_be_bytes());
        }
    }
    append(payload);
}

#[cfg(test)]
mod tests;
