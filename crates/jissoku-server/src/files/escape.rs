//! Escaping of names in links and in HTML.

/// Percent-encodes a path segment (RFC 3986 section 2).
pub(super) fn segment(segment: &[u8]) -> String {
    // The dot and slash in front keep a colon from looking like a scheme, and two slashes like a
    // host.
    let mut text = String::from("./");
    for &byte in segment {
        push(&mut text, byte);
    }
    text
}

/// The relative reference from a directory name without its slash to the one with it. Relative, so
/// that it is correct behind a proxy prefix and never refers to another host.
pub(super) fn folder(name: &[u8]) -> String {
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    segment(last) + "/"
}

/// The path that a request for the file `name`, relative to the root, would have.
pub(super) fn path(name: &str) -> Vec<u8> {
    let mut text = String::from("/");
    for byte in name.trim_start_matches('/').bytes() {
        if byte == b'/' { text.push('/') } else { push(&mut text, byte) }
    }
    text.into_bytes()
}

/// Escapes text for HTML, including attributes.
pub(super) fn html(text: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in String::from_utf8_lossy(text).chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            sign if sign.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            sign => escaped.push(sign),
        }
    }
    escaped
}

fn push(text: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        text.push(char::from(byte));
    } else {
        let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value)]);
        text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_segment_decodes_to_itself() {
        assert_eq!(segment(b"a-b.c"), "./a-b.c");
        assert_eq!(segment("a b:あ%".as_bytes()), "./a%20b%3A%E3%81%82%25");
        assert_eq!(folder(b"/a/b c"), "./b%20c/");
        assert_eq!(folder(b"/\r\nx: y"), "./%0D%0Ax%3A%20y/");
        assert_eq!(path("errors/not found.html"), b"/errors/not%20found.html");
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(html(b"<a href=\"'&\x07\xff"), "&lt;a href=&quot;&#39;&amp;\u{fffd}\u{fffd}");
    }
}
