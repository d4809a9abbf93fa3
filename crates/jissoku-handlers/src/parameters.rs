//! Parameters of queries and forms, and paths, as a handler gets them: decoded.

use std::borrow::Cow;
use std::ops::Range;

use jissoku_http::percent;

/// The names and values of `application/x-www-form-urlencoded` (WHATWG URL, section 5.1), as they are
/// written.
pub(crate) fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let parts = text.split(|&byte| byte == b'&').filter(|part| !part.is_empty());
    parts.map(|part| {
        let end = part.iter().position(|&byte| byte == b'=').unwrap_or(part.len());
        (&part[..end], part.get(end + 1..).unwrap_or_default())
    })
}

/// A name or a value, decoded: a plus sign is a space. An invalid escape stays as it is.
pub(crate) fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| b"%+".contains(byte)) {
        return Cow::Borrowed(text);
    }
    let spaces: Vec<u8> = text.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    Cow::Owned(percent::decoded(&spaces).collect())
}

/// Where the value of the first parameter of this name is.
pub(crate) fn find(text: &[u8], name: &[u8]) -> Option<Range<usize>> {
    let mut start = 0;
    for part in text.split(|&byte| byte == b'&') {
        let end = start + part.len();
        let name_size = part.iter().position(|&byte| byte == b'=').unwrap_or(part.len());
        if !part.is_empty() && *decoded(&part[..name_size]) == *name {
            return Some((start + name_size + 1).min(end)..end);
        }
        start = end + 1;
    }
    None
}

/// A path that is decoded once, and has no dot segments then (RFC 3986 section 5.2.4): none leads out
/// of a folder.
pub(crate) fn path(written: &[u8]) -> Cow<'_, [u8]> {
    // Few paths have a dot: one byte is searched for faster than two.
    let has_dots = |path: &[u8]| path.contains(&b'.') && path.windows(2).any(|pair| pair == b"/.");
    if !written.starts_with(b"/") || (!written.contains(&b'%') && !has_dots(written)) {
        return Cow::Borrowed(written);
    }
    let decoded: Vec<u8> = percent::decoded(written).collect();
    let mut path = Vec::with_capacity(decoded.len());
    let mut segments = decoded[1..].split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." => {}
            b".." => path.truncate(path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
            _ => {
                path.push(b'/');
                path.extend_from_slice(segment);
                continue;
            }
        }
        if segments.peek().is_none() {
            path.push(b'/');
        }
    }
    Cow::Owned(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: &str, expected: &str) {
        let found = path(written.as_bytes());
        assert_eq!(String::from_utf8_lossy(&found), expected, "{written}");
    }

    #[test]
    fn a_path_is_decoded_once_and_stays_below_the_root() {
        for plain in ["/", "/a/b/", "/a//b", "*", "/a.b/c"] {
            check(plain, plain);
        }
        check("/a%20b%2fc", "/a b/c");
        check("/%2541", "/%41");
        check("/a/./b/../c", "/a/c");
        check("/a/..", "/");
        check("/..", "/");
        check("/../../etc/passwd", "/etc/passwd");
        check("/%2e%2e/x", "/x");
        check("/a/%2E%2E%2f..%2fb", "/b");
        check("/a/b/.", "/a/b/");
        check("/.well-known/x", "/.well-known/x");
        check("/%zz", "/%zz");
    }

    #[test]
    fn parameters_are_found_by_their_decoded_name() {
        let query = b"a=1&b+c=x%2By+z&&d&a=2&e%3d=%e4";
        let value = |name: &str| {
            let found = find(query, name.as_bytes());
            found.map(|value| String::from_utf8_lossy(&decoded(&query[value])).into_owned())
        };
        assert_eq!(value("a").as_deref(), Some("1"));
        assert_eq!(value("b c").as_deref(), Some("x+y z"));
        assert_eq!(value("d").as_deref(), Some(""));
        assert_eq!(value("e=").as_deref(), Some("\u{fffd}"));
        assert_eq!((value("f"), value("")), (None, None));
        assert_eq!(pairs(query).count(), 5);
    }
}
