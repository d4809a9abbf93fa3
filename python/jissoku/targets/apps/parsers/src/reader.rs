//! A connection's bytes, from what was received to the answers: the same for every parser.

use crate::answer::{answer, refuse};
use crate::parser::{Flow, Parser, Refusal, Request};

/// Bytes of a request that may be kept for its end to come.
const KEPT_MAX: usize = 128 * 1024;

/// A parser, and the bytes that it needs once more.
pub struct Reader<P> {
    parser: P,
    /// The beginning of a request that is not complete.
    kept: Vec<u8>,
    /// Whether the connection ends after what was answered.
    pub is_last: bool,
}

impl<P: Parser> Reader<P> {
    pub fn new() -> Self {
        Self { parser: P::new(), kept: Vec::new(), is_last: false }
    }

    /// Appends the answers to all requests that are complete with `received`.
    #[inline]
    pub fn feed(&mut self, received: &[u8], out: &mut Vec<u8>) {
        if let Err(refusal) = self.read(received, out) {
            refuse(refusal, out);
            self.is_last = true;
        }
    }

    #[inline]
    fn read(&mut self, received: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let is_last = &mut self.is_last;
        let each = |request: &Request<'_>| {
            answer(request, out);
            *is_last = !request.keeps_alive;
            if *is_last { Flow::Stop } else { Flow::On }
        };
        if self.kept.is_empty() {
            let used = self.parser.feed(received, 0, each)?;
            self.kept.extend_from_slice(&received[used..]);
        } else {
            let kept = self.kept.len();
            self.kept.extend_from_slice(received);
            let used = self.parser.feed(&self.kept, kept, each)?;
            self.kept.drain(..used);
        }
        if self.kept.len() > KEPT_MAX { Err(Refusal::TOO_LONG) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
