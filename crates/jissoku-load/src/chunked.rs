//! Where does a chunked body end? RFC 9112 section 7.1, strictly: CRLF only, at most 16 hex digits.

/// Extensions and trailers of one body may have so many bytes; more is refused.
const OVERHEAD_MAX: u32 = 64 * 1024;

/// What some bytes brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// All were used, and more must come.
    More,
    /// The body ended; so many bytes were used.
    Done(usize),
    /// This is no chunked body.
    Broken,
}

/// A chunked body while it arrives.
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

    /// Takes the next bytes and hands each stretch of content to `content`.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut content: impl FnMut(&[u8])) -> Chunks {
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
                Some(_) if self.overhead > OVERHEAD_MAX => return Chunks::Broken,
                Some(State::BodyEnd) if byte == b'\n' => return Chunks::Done(at),
                Some(next) => self.state = next,
                None => return Chunks::Broken,
            }
        }
        Chunks::More
    }

    /// The state after one byte that is no content, or `None` when it may not stand there.
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

    fn decode(bytes: &[u8]) -> (Chunks, Vec<u8>) {
        let mut body = Vec::new();
        let chunks = Decoder::new().feed(bytes, |part| body.extend_from_slice(part));
        (chunks, body)
    }

    #[test]
    fn chunks_are_joined() {
        let wire = b"5;x=y\r\nHello\r\n8\r\n, World!\r\n0\r\nA: b\r\n\r\nHTTP";
        assert_eq!(decode(wire), (Chunks::Done(wire.len() - 4), b"Hello, World!".to_vec()));
    }

    #[test]
    fn an_unfinished_body_wants_more() {
        assert_eq!(decode(b"5\r\nHel"), (Chunks::More, b"Hel".to_vec()));
        assert_eq!(decode(b"0\r\n"), (Chunks::More, Vec::new()));
        assert_eq!(decode(b""), (Chunks::More, Vec::new()));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
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
            assert_eq!(decode(wire).0, Chunks::Broken, "{:?}", String::from_utf8_lossy(wire));
        }
    }

    #[test]
    fn endless_extensions_are_refused() {
        let wire = [b"5;".to_vec(), vec![b'a'; OVERHEAD_MAX as usize + 2]].concat();
        assert_eq!(decode(&wire).0, Chunks::Broken);
    }
}
