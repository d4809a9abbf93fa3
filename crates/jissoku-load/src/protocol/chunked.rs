//! Decoder for chunked bodies (RFC 9112 section 7.1), strict: CRLF only, at most 16 hex digits.

/// Limit of the bytes in extensions and trailers of one body.
const OVERHEAD_MAX: u32 = 64 * 1024;

/// The result of decoding some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkProgress {
    /// All bytes were used; the body is incomplete.
    Incomplete,
    /// The body ended after this many bytes.
    Complete(usize),
    /// The bytes are not a valid chunked body.
    Invalid,
}

/// State of a body that is being received.
#[derive(Debug)]
pub(crate) struct Decoder {
    state: State,
    size: u64,
    overhead: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size { digits: u8 },
    Extension,
    SizeEnd,
    Data,
    DataReturn,
    DataEnd,
    TrailerStart,
    Trailer,
    TrailerEnd,
    BodyEnd,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { state: State::Size { digits: 0 }, size: 0, overhead: 0 }
    }

    /// Decodes the next bytes and passes each stretch of content to `content`.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut content: impl FnMut(&[u8])) -> ChunkProgress {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.state == State::Data {
                let rest = &bytes[at..];
                let count = usize::try_from(self.size).unwrap_or(usize::MAX).min(rest.len());
                content(&rest[..count]);
                self.size -= count as u64;
                at += count;
                if self.size == 0 {
                    self.state = State::DataReturn;
                }
                continue;
            }
            at += 1;
            match self.step(byte) {
                Some(_) if self.overhead > OVERHEAD_MAX => return ChunkProgress::Invalid,
                Some(State::BodyEnd) if byte == b'\n' => return ChunkProgress::Complete(at),
                Some(next) => self.state = next,
                None => return ChunkProgress::Invalid,
            }
        }
        ChunkProgress::Incomplete
    }

    /// The state after one framing byte, or `None` if the byte is invalid there.
    fn step(&mut self, byte: u8) -> Option<State> {
        match (self.state, byte) {
            (State::Size { digits }, byte) if byte.is_ascii_hexdigit() && digits < 16 => {
                let digit = char::from(byte).to_digit(16)?;
                self.size = self.size << 4 | u64::from(digit);
                Some(State::Size { digits: digits + 1 })
            }
            (State::Size { digits: 1.. } | State::Extension, b'\r') => Some(State::SizeEnd),
            (State::Size { digits: 1.. }, b';' | b' ' | b'\t') => Some(State::Extension),
            (State::Extension, byte) if byte != b'\n' => {
                self.overhead += 1;
                Some(State::Extension)
            }
            (State::SizeEnd, b'\n') if self.size > 0 => Some(State::Data),
            (State::SizeEnd | State::TrailerEnd, b'\n') => Some(State::TrailerStart),
            (State::DataReturn, b'\r') => Some(State::DataEnd),
            (State::DataEnd, b'\n') => Some(State::Size { digits: 0 }),
            (State::TrailerStart, b'\r') | (State::BodyEnd, b'\n') => Some(State::BodyEnd),
            (State::Trailer, b'\r') => Some(State::TrailerEnd),
            (State::TrailerStart | State::Trailer, byte) if byte != b'\n' => {
                self.overhead += 1;
                Some(State::Trailer)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> (ChunkProgress, Vec<u8>) {
        let mut body = Vec::new();
        let chunks = Decoder::new().feed(bytes, |part| body.extend_from_slice(part));
        (chunks, body)
    }

    #[test]
    fn chunks_are_joined() {
        let wire = b"5;x=y\r\nHello\r\n8\r\n, World!\r\n0\r\nA: b\r\n\r\nHTTP";
        assert_eq!(
            decode(wire),
            (ChunkProgress::Complete(wire.len() - 4), b"Hello, World!".to_vec())
        );
    }

    #[test]
    fn an_unfinished_body_wants_more() {
        assert_eq!(decode(b"5\r\nHel"), (ChunkProgress::Incomplete, b"Hel".to_vec()));
        assert_eq!(decode(b"0\r\n"), (ChunkProgress::Incomplete, Vec::new()));
        assert_eq!(decode(b""), (ChunkProgress::Incomplete, Vec::new()));
    }

    #[test]
    fn invalid_chunks_are_rejected() {
        for wire in [
            &b"\r\n"[..],
            b"x\r\n",
            b"5\nHello",
            b"5\r\nHelloX",
            b"5\r\nHello\rX",
            b";a\r\n",
            b"11111111111111111\r\n",
            b"0\r\n\rX",
            b"0\r\nA: b\n",
            b"5;a\nHello",
        ] {
            assert_eq!(
                decode(wire).0,
                ChunkProgress::Invalid,
                "{:?}",
                String::from_utf8_lossy(wire)
            );
        }
    }

    #[test]
    fn endless_extensions_are_refused() {
        let wire = [b"5;".to_vec(), vec![b'a'; OVERHEAD_MAX as usize + 2]].concat();
        assert_eq!(decode(&wire).0, ChunkProgress::Invalid);
    }
}
