//! What other servers may take a path for.
//!
//! A server behind us may decode a path before it compares it, once or twice, and then see a slash, a
//! backslash or a segment `..` that was not there before; it may resolve dot segments, merge slashes,
//! take a backslash for a slash, or cut off what follows a `;`. It does so in its own order. None of
//! that matters as long as every result belongs to the same route.

use jissoku_http::percent::{self, escape};

/// A path with more readings is refused.
const READINGS_MAX: usize = 32;

/// What a server may do to a path.
type Reader = fn(&[u8]) -> Vec<u8>;

/// The steps of servers, in the orders that occur: each may or may not be taken.
const STEPS: [Reader; 11] = [
    merge_slashes,
    cut_parameters,
    decoded,
    decoded,
    cut_parameters,
    with_slashes,
    cut_parameters,
    merge_slashes,
    without_dots,
    resolved,
    merge_slashes,
];

/// All readings of a path, itself first. `None` if there are too many.
pub(super) fn of_path(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut readings = vec![path.to_vec()];
    for step in STEPS {
        for index in 0..readings.len() {
            let reading = step(readings.get(index)?);
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
        if readings.len() > READINGS_MAX {
            return None;
        }
    }
    Some(readings)
}

/// The path with `%2f`, `%5c` and `%2e` decoded, backslashes as slashes, and without dot segments;
/// other bytes stay encoded.
pub(super) fn plain(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, tail)) = rest.split_first() {
        match escape(rest) {
            Some(b'/' | b'\\') => plain.push(b'/'),
            Some(b'.') => plain.push(b'.'),
            _ => {
                plain.push(if first == b'\\' { b'/' } else { first });
                rest = tail;
                continue;
            }
        }
        rest = rest.get(3..).unwrap_or_default();
    }
    resolved(&plain)
}

/// Runs of `/` as one.
fn merge_slashes(path: &[u8]) -> Vec<u8> {
    let mut merged = path.to_vec();
    merged.dedup_by(|next, last| *next == b'/' && *last == b'/');
    merged
}

/// Each segment up to its first `;`.
fn cut_parameters(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|&byte| byte == b'/');
    let cut =
        segments.map(|segment| segment.split(|&byte| byte == b';').next().unwrap_or_default());
    cut.collect::<Vec<_>>().join(&b'/')
}

fn decoded(path: &[u8]) -> Vec<u8> {
    percent::decoded(path).collect()
}

/// With each backslash as a slash.
fn with_slashes(path: &[u8]) -> Vec<u8> {
    path.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect()
}

/// Without segments `.`; one at the end is an empty segment.
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    if let Some(last) = segments.last_mut().filter(|last| **last == b".") {
        *last = b"";
    }
    segments.retain(|segment| *segment != b".");
    segments.join(&b'/')
}

/// Without segments `.` and `..` (RFC 3986 section 5.2.4).
fn resolved(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut ends_in_folder = false;
    for segment in path.split(|&byte| byte == b'/').skip(1) {
        ends_in_folder = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    if ends_in_folder {
        kept.push(b"");
    }
    kept.into_iter().flat_map(|segment| [b"/".as_slice(), segment].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(path: &str) -> Vec<String> {
        let all = of_path(path.as_bytes()).expect("there are few");
        all.into_iter().map(|reading| String::from_utf8(reading).expect("it is text")).collect()
    }

    #[test]
    fn every_step_may_be_taken_or_not() {
        assert_eq!(readings("/a/b"), ["/a/b"]);
        assert_eq!(readings("/a%2Fb"), ["/a%2Fb", "/a/b"]);
        assert_eq!(readings("/a%252Fb"), ["/a%252Fb", "/a%2Fb", "/a/b"]);
        assert_eq!(readings("/a;x/b"), ["/a;x/b", "/a/b"]);
        assert_eq!(readings("/a//../b"), ["/a//../b", "/a/../b", "/a/b", "/b"]);
        for (path, reading) in [
            ("/a/..;x/b", "/b"),
            ("/a/%2e%2e;x/b", "/b"),
            ("/a/..%3bx/b", "/b"),
            ("/a%5c..%5cb", "/b"),
            ("/a%252f..%252fb", "/b"),
            ("/a;x%2fy/b", "/a/b"),
            ("/a;x\\b", "/a/b"),
            ("/%2e%2fa%2f..", "/a/.."),
            ("/a;x%5cb", "/a/b"),
            ("/a/.", "/a/"),
            ("/a/..", "/"),
            ("/../../b", "/b"),
        ] {
            assert!(readings(path).contains(&reading.to_owned()), "{reading} of {path}");
        }
        assert_eq!(of_path("/a;b%252f..%5c//.;c%2e/%2e%2e%3b/d".repeat(9).as_bytes()), None);
    }

    #[test]
    fn a_plain_path_has_no_hidden_segments_and_keeps_the_rest() {
        for (path, expected) in [
            ("/a%2Fb%20c", "/a/b%20c"),
            ("/a%5Cb\\c", "/a/b/c"),
            ("/a/%2e%2E/b%252f", "/b%252f"),
            ("/a%2f..", "/"),
            ("/x%2Ehtml", "/x.html"),
        ] {
            assert_eq!(String::from_utf8_lossy(&plain(path.as_bytes())), expected, "{path}");
        }
    }
}
