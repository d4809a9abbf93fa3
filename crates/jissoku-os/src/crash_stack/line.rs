//! A line about a crash: it is made without memory of the heap, which may be what is damaged.

/// The most bytes of what a thread does. What is longer is cut.
const DESCRIPTION_SIZE_MAX: usize = 200;

/// Room for a description, and for sentences of ours around it.
const SIZE_MAX: usize = DESCRIPTION_SIZE_MAX + 120;

/// What is written in place of the end of a description.
const CUT: &[u8] = b"...";

/// A line that is being made.
pub(super) struct Line {
    bytes: [u8; SIZE_MAX],
    size: usize,
}

impl Line {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; SIZE_MAX], size: 0 }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }

    /// Adds a text, as far as there is room.
    pub(super) fn add(&mut self, text: &[u8]) {
        let text = &text[..text.len().min(SIZE_MAX - self.size)];
        let end = self.size + text.len();
        self.bytes[self.size..end].copy_from_slice(text);
        self.size = end;
    }

    /// Adds what a thread does, as plain text: control characters, bytes that are not ASCII, and
    /// backslashes are `\xNN`. Of the second text, which may be the target of a request, what is before
    /// its query: that may be secret.
    pub(super) fn add_description(&mut self, [first, second]: [&[u8]; 2]) {
        let end = self.size + DESCRIPTION_SIZE_MAX - CUT.len();
        let between: &[u8] = if second.is_empty() { b"" } else { b" " };
        let second = second.iter().take_while(|&&byte| byte != b'?');
        for &byte in first.iter().chain(between).chain(second) {
            let escaped = [b'\\', b'x', digit(byte >> 4), digit(byte & 15)];
            let is_plain = matches!(byte, b' '..=b'~') && byte != b'\\';
            let text: &[u8] = if is_plain { &[byte] } else { &escaped };
            if self.size + text.len() > end {
                return self.add(CUT);
            }
            self.add(text);
        }
    }
}

const fn digit(value: u8) -> u8 {
    match value {
        0..=9 => b'0' + value,
        _ => b'a' - 10 + value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(first: &[u8], second: &[u8]) -> String {
        let mut line = Line::new();
        line.add(b"in ");
        line.add_description([first, second]);
        let text = String::from_utf8(line.as_bytes().to_vec()).expect("it is ASCII");
        text.strip_prefix("in ").expect("it begins with that").to_owned()
    }

    #[test]
    fn it_is_plain_text_without_a_query() {
        assert_eq!(described(b"GET", b"/a b~%0a"), "GET /a b~%0a");
        assert_eq!(
            described(b"G\n", b"/\x1b[2J\xc3\xa9\x7f\\\0"),
            r"G\x0a /\x1b[2J\xc3\xa9\x7f\x5c\x00"
        );
        assert_eq!(described(b"GET", b"/a?secret\n"), "GET /a");
        assert_eq!(described(b"jsk_stop of a?.c", b""), "jsk_stop of a?.c");
    }

    #[test]
    fn a_description_is_cut_between_signs() {
        let path = [b'/'; DESCRIPTION_SIZE_MAX];
        let whole = format!("GET {}", "/".repeat(193));
        assert_eq!(described(b"GET", &path[..193]), whole);
        assert_eq!(described(b"GET", &path), format!("{whole}..."));
        for plain in 1..5 {
            let said = described(&path[..plain], &[b'\n'; DESCRIPTION_SIZE_MAX]);
            assert!(said.len() <= DESCRIPTION_SIZE_MAX && said.ends_with(r"\x0a..."), "{said}");
        }
        let method = [b'M'; 2 * DESCRIPTION_SIZE_MAX];
        assert_eq!(described(&method, b"/"), format!("{}...", "M".repeat(197)));
    }

    #[test]
    fn a_line_has_an_end() {
        let mut line = Line::new();
        for _ in 0..3 {
            line.add(&[b'x'; SIZE_MAX - 1]);
        }
        assert_eq!(line.as_bytes(), [b'x'; SIZE_MAX]);
        line.add_description([b"GET", b"/"]);
        assert_eq!(line.as_bytes(), [b'x'; SIZE_MAX]);
    }
}
