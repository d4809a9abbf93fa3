//! The bytes of answers, right and wrong.

use crate::request::Request;
use crate::scenario::{Fault, Framing};

/// Bodies repeat this; it holds every printable sign, so that a shifted body is a wrong one.
const PATTERN: std::ops::RangeInclusive<u8> = b' '..=b'~';

/// What all answers have in common.
#[derive(Debug)]
pub(crate) struct Answers {
    framing: Framing,
    body: Vec<u8>,
}

impl Answers {
    pub(crate) fn new(framing: Framing, body_size: usize) -> Self {
        Self { framing, body: PATTERN.cycle().take(body_size).collect() }
    }

    /// Whether the connection ends after an answer to this request.
    pub(crate) fn ends_connection(&self, request: Request, fault: Fault) -> bool {
        !request.keeps_alive || fault.ends_connection() || self.framing == Framing::Close
    }

    /// Writes an answer behind `out`, and returns how many bytes of that are its head.
    pub(crate) fn write(&self, out: &mut Vec<u8>, request: Request, fault: Fault) -> usize {
        if fault == Fault::Dropped {
            return 0;
        }
        let start = out.len();
        out.extend_from_slice(match fault {
            Fault::Status => b"HTTP/1.1 500 Internal Server Error\r\n",
            _ => b"HTTP/1.1 200 OK\r\n",
        });
        out.extend_from_slice(b"Server: oracle\r\nContent-Type: text/plain\r\n");
        if !request.keeps_alive || self.framing == Framing::Close {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if request.is_old {
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

    fn write_body(&self, out: &mut Vec<u8>, fault: Fault) {
        let half = self.body.len() / 2;
        if self.framing == Framing::Chunked {
            // In two chunks, so that there is something between them to read wrongly.
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
        if fault == Fault::Flipped && half > 0 {
            let trailer = if self.framing == Framing::Chunked { b"\r\n0\r\n\r\n".len() } else { 0 };
            let last = out.len() - 1 - trailer;
            out[last] ^= 1;
        }
    }
}

fn chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    // A chunk of nothing would be the last one.
    if !bytes.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Request = Request { size: 0, keeps_alive: true, is_old: false, is_head: false };

    fn text(framing: Framing, request: Request, fault: Fault) -> String {
        let mut out = Vec::new();
        Answers::new(framing, 5).write(&mut out, request, fault);
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn answers_are_what_they_are_meant_to_be() {
        let right = text(Framing::Length, ASKED, Fault::None);
        assert!(right.ends_with("Content-Length: 5\r\n\r\n !\"#$"), "{right}");
        let flipped = text(Framing::Length, ASKED, Fault::Flipped);
        assert!(flipped.ends_with("\r\n\r\n !\"#%"), "{flipped}");
        let torn = text(Framing::Length, ASKED, Fault::Reset);
        assert!(torn.ends_with("Content-Length: 5\r\n\r\n !"), "{torn}");
        let chunked = text(Framing::Chunked, ASKED, Fault::None);
        assert!(chunked.ends_with("\r\n\r\n2\r\n !\r\n3\r\n\"#$\r\n0\r\n\r\n"), "{chunked}");
        let flipped = text(Framing::Chunked, ASKED, Fault::Flipped);
        assert!(flipped.ends_with("3\r\n\"#%\r\n0\r\n\r\n"), "{flipped}");
        let head = text(Framing::Length, Request { is_head: true, ..ASKED }, Fault::None);
        assert!(head.ends_with("Content-Length: 5\r\n\r\n"), "{head}");
        assert!(text(Framing::Length, ASKED, Fault::Status).starts_with("HTTP/1.1 500 "));
        assert_eq!(text(Framing::Length, ASKED, Fault::Dropped), "");
    }
}
