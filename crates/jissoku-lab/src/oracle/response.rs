//! Serialises responses, correct and faulty.

use crate::oracle::request::Request;
use crate::oracle::scenario::{Framing, InjectedFault};

/// Bodies repeat this; it contains every printable character, so that a shifted body differs.
const PATTERN: std::ops::RangeInclusive<u8> = b' '..=b'~';

/// What all responses have in common.
#[derive(Debug)]
pub(crate) struct ResponseWriter {
    framing: Framing,
    body: Vec<u8>,
}

impl ResponseWriter {
    pub(crate) fn new(framing: Framing, body_size: usize) -> Self {
        Self { framing, body: PATTERN.cycle().take(body_size).collect() }
    }

    /// Whether the connection ends after the response to this request.
    pub(crate) fn ends_connection(&self, request: Request, fault: InjectedFault) -> bool {
        !request.keeps_alive || fault.ends_connection() || self.framing == Framing::Close
    }

    /// Appends a response to `out` and returns the size of its head.
    pub(crate) fn write(&self, out: &mut Vec<u8>, request: Request, fault: InjectedFault) -> usize {
        if fault == InjectedFault::Dropped {
            return 0;
        }
        let start = out.len();
        out.extend_from_slice(match fault {
            InjectedFault::Status => b"HTTP/1.1 500 Internal Server Error\r\n",
            _ => b"HTTP/1.1 200 OK\r\n",
        });
        out.extend_from_slice(b"Server: oracle\r\nContent-Type: text/plain\r\n");
        if !request.keeps_alive || self.framing == Framing::Close {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if request.is_http10 {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        match self.framing {
            Framing::Length => {
                out.extend_from_slice(
                    format!("Content-Length: {}\r\n", self.body.len()).as_bytes(),
                );
            }
            Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::Close => {}
        }
        out.extend_from_slice(b"\r\n");
        let head_size = out.len() - start;
        if !request.is_head {
            self.write_body(out, fault);
        }
        head_size
    }

    fn write_body(&self, out: &mut Vec<u8>, fault: InjectedFault) {
        let half = self.body.len() / 2;
        if self.framing == Framing::Chunked {
            // Two chunks, so that there is a boundary between them.
            chunk(out, &self.body[..half]);
            if fault.ends_connection() {
                return;
            }
            chunk(out, &self.body[half..]);
            out.extend_from_slice(b"0\r\n\r\n");
        } else if fault.ends_connection() {
            out.extend_from_slice(&self.body[..half]);
        } else {
            out.extend_from_slice(&self.body);
        }
        if fault == InjectedFault::Flipped && half > 0 {
            let trailer = if self.framing == Framing::Chunked { b"\r\n0\r\n\r\n".len() } else { 0 };
            let last = out.len() - 1 - trailer;
            out[last] ^= 1;
        }
    }
}

fn chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    // An empty chunk would be the last one.
    if !bytes.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request =
        Request { size: 0, keeps_alive: true, is_http10: false, is_head: false };

    fn text(framing: Framing, request: Request, fault: InjectedFault) -> String {
        let mut out = Vec::new();
        ResponseWriter::new(framing, 5).write(&mut out, request, fault);
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn responses_are_as_configured() {
        let right = text(Framing::Length, REQUEST, InjectedFault::None);
        assert!(right.ends_with("Content-Length: 5\r\n\r\n !\"#$"), "{right}");
        let flipped = text(Framing::Length, REQUEST, InjectedFault::Flipped);
        assert!(flipped.ends_with("\r\n\r\n !\"#%"), "{flipped}");
        let torn = text(Framing::Length, REQUEST, InjectedFault::Reset);
        assert!(torn.ends_with("Content-Length: 5\r\n\r\n !"), "{torn}");
        let chunked = text(Framing::Chunked, REQUEST, InjectedFault::None);
        assert!(chunked.ends_with("\r\n\r\n2\r\n !\r\n3\r\n\"#$\r\n0\r\n\r\n"), "{chunked}");
        let flipped = text(Framing::Chunked, REQUEST, InjectedFault::Flipped);
        assert!(flipped.ends_with("3\r\n\"#%\r\n0\r\n\r\n"), "{flipped}");
        let head = text(Framing::Length, Request { is_head: true, ..REQUEST }, InjectedFault::None);
        assert!(head.ends_with("Content-Length: 5\r\n\r\n"), "{head}");
        assert!(text(Framing::Length, REQUEST, InjectedFault::Status).starts_with("HTTP/1.1 500 "));
        assert_eq!(text(Framing::Length, REQUEST, InjectedFault::Dropped), "");
    }
}
