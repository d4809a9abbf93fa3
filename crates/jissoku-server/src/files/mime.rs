//! Media types by file name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The media type by extension; `charset=utf-8` is added to text that starts with UTF-8.
pub(super) fn content_type(name: &[u8], beginning: &[u8]) -> String {
    let guess = mime_guess::from_path(Path::new(OsStr::from_bytes(name))).first_or_octet_stream();
    let is_utf8_text = guess.type_() == mime_guess::mime::TEXT && is_utf8(beginning);
    let charset = if is_utf8_text { "; charset=utf-8" } else { "" };
    format!("{}{charset}", guess.essence_str())
}

/// Whether this is UTF-8, except for a truncated character at the end.
fn is_utf8(beginning: &[u8]) -> bool {
    match str::from_utf8(beginning) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charset_is_added_to_utf8_text_only() {
        let check = |name: &str, body: &[u8], expected| {
            assert_eq!(content_type(name.as_bytes(), body), expected);
        };
        check("/a.html", b"<p>", "text/html; charset=utf-8");
        check("/a.HTML", b"<p>", "text/html; charset=utf-8");
        check("/a.txt", b"\xff\xfe", "text/plain");
        check("/a.txt", &"あ".as_bytes()[..2], "text/plain; charset=utf-8");
        check("/a.png", b"", "image/png");
        check("/1k.bin", b"", "application/octet-stream");
        check("/x.html/Makefile", b"", "application/octet-stream");
        assert_eq!(content_type(b"/\xff.css", b""), "text/css; charset=utf-8");
    }
}
