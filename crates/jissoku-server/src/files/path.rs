//! Maps the path of a request to a file name: percent-decoded once, dot segments removed, never
//! above the root.

use std::borrow::Cow;

use jissoku_http::percent;

/// The name for `path`: begins with `/` and has no `.`, `..` or empty segment except possibly an
/// empty last one. `None` for a path that cannot be served.
pub(super) fn resolve(path: &[u8]) -> Option<Cow<'_, [u8]>> {
    if is_plain(path) {
        return Some(Cow::Borrowed(path));
    }
    let decoded = decode(path)?;
    let mut name: Vec<u8> = Vec::with_capacity(decoded.len());
    let mut segments = decoded.strip_prefix(b"/")?.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"" | b"." => {}
            b".." => {
                let parent = name.iter().rposition(|&byte| byte == b'/')?;
                name.truncate(parent);
            }
            _ => {
                name.push(b'/');
                name.extend_from_slice(segment);
            }
        }
        if is_last && matches!(segment, b"" | b"." | b"..") {
            name.push(b'/');
        }
    }
    Some(Cow::Owned(name))
}

/// Whether `path` is a normalised name already: nothing to decode, no empty segment and none that
/// begins with a dot.
fn is_plain(path: &[u8]) -> bool {
    let has_odd_pair =
        path.windows(2).any(|pair| pair[0] == b'/' && matches!(pair[1], b'/' | b'.'));
    path.starts_with(b"/") && !has_odd_pair && !path.iter().any(|&byte| matches!(byte, b'%' | 0))
}

/// Decodes `%xx` once. Encoded slashes and NUL are rejected, because the system interprets them. A
/// backslash is a byte like others in names of files.
fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(&byte) = rest.first() {
        let (value, size) = if byte == b'%' { (percent::escape(rest)?, 3) } else { (byte, 1) };
        if value == 0 || (size == 3 && value == b'/') {
            return None;
        }
        decoded.push(value);
        rest = &rest[size..];
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(path: &str, expected: Option<&str>) {
        let name = resolve(path.as_bytes());
        let name = name.as_deref().map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(name.as_deref(), expected, "{path:?}");
    }

    #[test]
    fn paths_resolve_to_names_below_the_root() {
        check("/", Some("/"));
        check("/a/b.txt", Some("/a/b.txt"));
        check("/a/", Some("/a/"));
        check("/a%20b", Some("/a b"));
        check("/%e3%81%82", Some("/あ"));
        check("/a/./b//c", Some("/a/b/c"));
        check("/a/../b", Some("/b"));
        check("/a/b/..", Some("/a/"));
        check("/a/.", Some("/a/"));
        check("/%2e%2e/etc/passwd", None);
        check("/..", None);
        check("/a/../../b", None);
        check("/%252e%252e/x", Some("/%2e%2e/x"));
        check("/a%2fb", None);
        check("/a%00", None);
        check("/a%5c..", Some("/a\\.."));
        check("/a\\b", Some("/a\\b"));
        check("/..%5c..%5cb", Some("/..\\..\\b"));
        check("/a%0ab%3f%23%25", Some("/a\nb?#%"));
        check("/%4", None);
        check("/%zz", None);
        check("a", None);
        check("*", None);
        check("", None);
    }

    proptest! {
        #[test]
        fn no_path_resolves_outside_the_root(path in "(/|\\.|%2e|%2E|%2f|%5c|\\\\|%00|a|%25|\\?|;){0,24}") {
            if let Some(name) = resolve(path.as_bytes()) {
                prop_assert!(name.starts_with(b"/"));
                let mut segments: Vec<&[u8]> = name[1..].split(|&byte| byte == b'/').collect();
                segments.pop();
                prop_assert!(segments.iter().all(|segment| !matches!(*segment, b"" | b"." | b"..")));
                prop_assert!(!name.ends_with(b"/..") && !name.ends_with(b"/."));
            }
        }
    }
}
