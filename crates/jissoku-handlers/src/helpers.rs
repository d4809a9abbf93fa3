//! Texts that a handler puts into a page, a JSON document or a URL, and some that it cannot make safely
//! by itself.

use jissoku_http::date;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// The last second of the year 9999, where the format of dates ends.
const LAST_S: u64 = 253_402_300_799;

/// Appends a text with character references in place of signs that begin or end something in HTML.
pub(crate) fn html(text: &[u8], escaped: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'&' => escaped.extend_from_slice(b"&amp;"),
            b'<' => escaped.extend_from_slice(b"&lt;"),
            b'>' => escaped.extend_from_slice(b"&gt;"),
            b'"' => escaped.extend_from_slice(b"&quot;"),
            b'\'' => escaped.extend_from_slice(b"&#39;"),
            byte => escaped.push(*byte),
        }
    }
}

/// Appends a string of JSON (RFC 8259 section 7).
pub(crate) fn json(text: &[u8], escaped: &mut Vec<u8>) {
    // A string that is written to memory has no error.
    let _written = serde_json::to_writer(escaped, &String::from_utf8_lossy(text));
}

/// Appends a text with percent-encoding of all that is not unreserved (RFC 3986 section 2.3).
pub(crate) fn url(text: &[u8], escaped: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(byte);
        } else {
            let digit = |half: u8| DIGITS[usize::from(half & 15)];
            escaped.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte)]);
        }
    }
}

/// A date of HTTP.
pub(crate) fn http_date(unix_s: u64) -> Vec<u8> {
    date::imf_fixdate(unix_s.min(LAST_S)).to_vec()
}

/// A digest.
pub(crate) fn sha256(text: &[u8]) -> Vec<u8> {
    digest(&SHA256, text).as_ref().to_vec()
}

/// Random bytes, if the system has some.
pub(crate) fn random(size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(make: fn(&[u8], &mut Vec<u8>), text: &[u8]) -> String {
        let mut escaped = b"before ".to_vec();
        make(text, &mut escaped);
        let text = String::from_utf8(escaped).expect("it is text");
        text.strip_prefix("before ").expect("it is appended").to_owned()
    }

    fn check(make: fn(&[u8], &mut Vec<u8>), text: &str, expected: &str) {
        assert_eq!(made(make, text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn no_sign_of_a_text_ends_what_it_is_in() {
        check(html, "<a href=\"x\">'&'\u{e9}", "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;\u{e9}");
        check(json, "a\"b\\c\n\u{1}\u{e9}", r#""a\"b\\c\n\u0001é""#);
        check(url, "a/b?c=d&e \u{e9}~", "a%2Fb%3Fc%3Dd%26e%20%C3%A9~");
        assert_eq!(made(json, b"\xff"), "\"\u{fffd}\"");
    }

    #[test]
    fn dates_digests_and_random_bytes_have_their_sizes() {
        assert_eq!(http_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(sha256(b"").first_chunk(), Some(&[0xe3, 0xb0, 0xc4, 0x42]));
        let (one, other) = (random(32), random(32));
        assert!(one.as_ref().is_some_and(|bytes| bytes.len() == 32) && one != other);
    }
}
