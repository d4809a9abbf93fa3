//! What is passed to the interface: decisions that are taken from the bytes of a case.

use std::ffi::{CString, c_int};
use std::slice;

/// Names of fields, parameters and variables.
pub(super) const NAMES: [&[u8]; 18] = [
    b"q",
    b"r",
    b"f",
    b"a",
    b"v",
    b"X-Field",
    b"ETag",
    b"Set-Cookie",
    b"Content-Type",
    b"Content-Length",
    b"transfer-encoding",
    b"Connection",
    b"DATE",
    b"Keep-Alive",
    b"",
    b"A b",
    b"A:",
    b"A\r\nB",
];

/// Values of fields, and texts.
pub(super) const VALUES: [&[u8]; 12] = [
    b"text/plain",
    b"\"v1\"",
    b"",
    b" a ",
    b"a\r\nB: c",
    b"a\nB: c",
    b"a\rb",
    b"\r\n\r\nbody",
    b"a\tb",
    b"\x7f",
    b"\xff<&>\"'",
    b"a\0b",
];

/// Takes decisions from the bytes of a case; when they are used up, always the first.
pub(super) struct Choices<'a>(pub(super) slice::Iter<'a, u8>);

impl Choices<'_> {
    pub(super) fn below(&mut self, count: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default()) % count
    }

    pub(super) fn rarely(&mut self) -> bool {
        self.below(16) == 15
    }

    pub(super) fn number(&mut self) -> u64 {
        let count = self.below(9);
        (0..count).fold(0, |number, _| number << 8 | self.below(256) as u64)
    }

    pub(super) fn text(&mut self, known: &[&[u8]]) -> Vec<u8> {
        match self.below(known.len() + 2) {
            index if index < known.len() => known[index].to_vec(),
            index if index == known.len() => {
                let size = self.below(24);
                self.0.by_ref().take(size).copied().collect()
            }
            _ => vec![b'n'; self.below(256) * 40],
        }
    }

    /// A text that ends with a zero; sometimes there is none.
    pub(super) fn c_text(&mut self, known: &[&[u8]]) -> Option<CString> {
        let mut text = self.text(known);
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        text.truncate(end);
        (!self.rarely()).then(|| CString::new(text).expect("there is no zero in it"))
    }

    pub(super) fn status(&mut self) -> c_int {
        [200, 204, 304, 404, 599, 199, 600, 0, -1, 65_736, c_int::MAX][self.below(11)]
    }
}
