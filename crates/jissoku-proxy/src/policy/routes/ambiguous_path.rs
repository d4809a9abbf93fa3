//! What a path may not have, and what may be read in more than one way.

use std::fmt;

use jissoku_http::percent::escape;

/// Why a path is refused with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmbiguousPath {
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
    /// Another server may take it for a path of another route.
    OtherRoute,
}

impl fmt::Display for AmbiguousPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAbsolute => "the path does not begin with a slash",
            Self::DotSegment => "the path has a segment `.` or `..`",
            Self::EncodedDelimiter => "the path has an encoded dot, slash or backslash",
            Self::Backslash => "the path has a backslash",
            Self::InvalidByte => "the path has `#`, a space or a control byte",
            Self::EncodedControl => "the path has an encoded control byte",
            Self::InvalidEncoding => "the path has `%` without two hexadecimal digits",
            Self::OtherRoute => {
                "another server may read the path as one of another route; a route may have encoded = \"pass\""
            }
        })
    }
}

/// Whether a path, which no route has to refuse, can be read in one way only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// For this reason.
    Special(AmbiguousPath),
}

/// The first reason to refuse a path that has more than one reading, in the order of its bytes; dot
/// segments last.
pub fn of_path(path: &[u8]) -> Option<AmbiguousPath> {
    match form(path) {
        // Other servers merge slashes and cut parameters, which no path of ours has to be without.
        Ok(Form::Plain | Form::Special(AmbiguousPath::OtherRoute)) => None,
        Ok(Form::Special(ambiguity)) | Err(ambiguity) => Some(ambiguity),
    }
}

/// The form of a path; or why it is refused, whatever the routes.
pub(super) fn form(path: &[u8]) -> Result<Form, AmbiguousPath> {
    if path.first() != Some(&b'/') {
        return Err(AmbiguousPath::NotAbsolute);
    }
    let mut special = None;
    let (mut has_dot, mut has_variants, mut last) = (false, false, 0);
    for (at, &byte) in path.iter().enumerate() {
        let found = match byte {
            b'%' => {
                let decoded = escape(path.get(at..).unwrap_or_default());
                match decoded.ok_or(AmbiguousPath::InvalidEncoding)? {
                    b'.' | b'/' | b'\\' => Some(AmbiguousPath::EncodedDelimiter),
                    0..=0x1f | 0x7f => return Err(AmbiguousPath::EncodedControl),
                    decoded => {
                        has_variants |= matches!(decoded, b'%' | b';');
                        None
                    }
                }
            }
            b'\\' => Some(AmbiguousPath::Backslash),
            b'#' | 0..=0x20 | 0x7f => return Err(AmbiguousPath::InvalidByte),
            b'.' => {
                has_dot = true;
                None
            }
            b';' => {
                has_variants = true;
                None
            }
            b'/' => {
                has_variants |= last == b'/';
                None
            }
            _ => None,
        };
        special = special.or(found);
        last = byte;
    }
    let has_dots = has_dot && path.split(|&byte| byte == b'/').any(is_dot_segment);
    let special = special
        .or_else(|| has_dots.then_some(AmbiguousPath::DotSegment))
        .or_else(|| has_variants.then_some(AmbiguousPath::OtherRoute));
    Ok(special.map_or(Form::Plain, Form::Special))
}

fn is_dot_segment(segment: &[u8]) -> bool {
    let name = segment.split(|&byte| byte == b';').next().unwrap_or_default();
    // An encoded `;` ends the name, too, for a server that decodes first.
    let end = name.windows(3).position(|three| three.eq_ignore_ascii_case(b"%3b"));
    matches!(name.get(..end.unwrap_or(name.len())), Some(b"." | b".."))
}
