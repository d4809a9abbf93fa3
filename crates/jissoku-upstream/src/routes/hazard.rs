//! Paths that have more than one reading, and are refused before routes are compared.
//!
//! Servers decode, resolve and merge paths in different orders; what is refused here is where their
//! results differ. Everything else passes unchanged.

use std::fmt;

/// Why a path is refused with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hazard {
    /// It does not begin with `/`.
    NotAbsolute,
    /// A segment `.` or `..`, also before `;` (which some servers cut off first).
    DotSegment,
    /// `%2e`, `%2f` or `%5c`: a dot, slash or backslash that appears on decoding.
    EncodedDelimiter,
    /// `\`, which some servers read as `/`.
    Backslash,
    /// `#`, a control byte, or a space.
    InvalidByte,
    /// `%00` to `%1f` or `%7f`.
    EncodedControl,
    /// `%` without two hexadecimal digits.
    InvalidEncoding,
    /// Empty segments (`//`), without which another route takes the path.
    EmptySegment,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAbsolute => "the path does not begin with a slash",
            Self::DotSegment => "the path has a segment `.` or `..`",
            Self::EncodedDelimiter => "the path has an encoded dot, slash or backslash",
            Self::Backslash => "the path has a backslash",
            Self::InvalidByte => "the path has `#`, a space or a control byte",
            Self::EncodedControl => "the path has an encoded control byte",
            Self::InvalidEncoding => "the path has `%` without two hexadecimal digits",
            Self::EmptySegment => "without its empty segments the path belongs to another route",
        })
    }
}

/// The first reason to refuse a path, in the order of its bytes; dot segments last.
pub fn of_path(path: &[u8]) -> Option<Hazard> {
    if path.first() != Some(&b'/') {
        return Some(Hazard::NotAbsolute);
    }
    let mut has_dot = false;
    for (at, &byte) in path.iter().enumerate() {
        match byte {
            b'%' => {
                let Some(decoded) = decode(path.get(at..).unwrap_or_default()) else {
                    return Some(Hazard::InvalidEncoding);
                };
                match decoded {
                    b'.' | b'/' | b'\\' => return Some(Hazard::EncodedDelimiter),
                    0..=0x1f | 0x7f => return Some(Hazard::EncodedControl),
                    _ => {}
                }
            }
            b'\\' => return Some(Hazard::Backslash),
            b'#' | 0..=0x20 | 0x7f => return Some(Hazard::InvalidByte),
            b'.' => has_dot = true,
            _ => {}
        }
    }
    (has_dot && path.split(|&byte| byte == b'/').any(is_dot_segment)).then_some(Hazard::DotSegment)
}

fn is_dot_segment(segment: &[u8]) -> bool {
    let name = segment.split(|&byte| byte == b';').next().unwrap_or_default();
    // An encoded `;` ends the name, too, for a server that decodes first.
    let end = name.windows(3).position(|three| three.eq_ignore_ascii_case(b"%3b"));
    matches!(name.get(..end.unwrap_or(name.len())), Some(b"." | b".."))
}

/// The byte that `%` and two hexadecimal digits at the start of `text` stand for.
pub(super) fn decode(text: &[u8]) -> Option<u8> {
    let &[b'%', high, low, ..] = text else { return None };
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    Some(digit(high)? << 4 | digit(low)?)
}

/// The path with runs of `/` as one, if it has such a run.
pub(super) fn merge_slashes(path: &[u8]) -> Option<Vec<u8>> {
    path.windows(2).any(|two| two == b"//").then(|| {
        let mut merged = path.to_vec();
        merged.dedup_by(|next, last| *next == b'/' && *last == b'/');
        merged
    })
}
