//! One header line, of a request or a response: RFC 9112 section 5.

use crate::limits::Limits;
use crate::reject::Reject;
use crate::scan;

/// Where a line starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldStart {
    /// The first byte of the line.
    pub(crate) at: usize,
    /// The first byte of all header lines.
    pub(crate) fields_at: usize,
    /// The number of lines before it.
    pub(crate) count: u32,
}

/// The result of reading one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldLine {
    /// It is incomplete.
    Partial,
    /// A field: its name, a colon, its value with whitespace, and CRLF.
    Field { name_size: usize, value_size: usize },
    /// The empty line behind the fields.
    Empty,
}

/// Reads the line that starts at `start` of `bytes`.
///
/// INVARIANT: a decision at a byte depends only on the bytes up to it. Limits are enforced by not
/// reading beyond them.
#[inline]
pub(crate) fn read(bytes: &[u8], start: FieldStart, limits: &Limits) -> Result<FieldLine, Reject> {
    let line_limit = start.at + limits.field_size_max as usize;
    let limit = line_limit.min(start.fields_at + limits.fields_size_max as usize);
    let partial = || match bytes.len() {
        size if size < limit => Ok(FieldLine::Partial),
        _ if limit == line_limit => Err(Reject::FieldTooLong),
        _ => Err(Reject::FieldsTooLong),
    };
    let window = &bytes[start.at..bytes.len().min(limit)];
    let name_size = scan::token_end(window);
    let Some(&after_name) = window.get(name_size) else { return partial() };
    if after_name != b':' || name_size == 0 {
        return match (after_name, name_size, window.get(1)) {
            (b'\r', 0, None) => partial(),
            (b'\r', 0, Some(b'\n')) => Ok(FieldLine::Empty),
            _ => Err(name_rejection(after_name, name_size)),
        };
    }
    if start.count == limits.fields_count_max {
        return Err(Reject::FieldsTooMany);
    }
    let rest = &window[name_size + 1..];
    let value_size = scan::value_end(rest);
    match (rest.get(value_size), rest.get(value_size + 1)) {
        (Some(b'\r'), Some(b'\n')) => Ok(FieldLine::Field { name_size, value_size }),
        (None, _) | (Some(b'\r'), None) => partial(),
        (Some(b'\r'), Some(_)) => Err(Reject::BareCr),
        (Some(b'\n'), _) => Err(Reject::BareLf),
        (Some(_), _) => Err(Reject::ControlByte),
    }
}

#[cold]
fn name_rejection(byte: u8, name_size: usize) -> Reject {
    match byte {
        b' ' | b'\t' if name_size == 0 => Reject::ObsoleteFold,
        b' ' | b'\t' => Reject::SpaceBeforeColon,
        b'\n' => Reject::BareLf,
        b'\r' if name_size == 0 => Reject::BareCr,
        _ => Reject::FieldNameInvalid,
    }
}

/// Iterator over header fields; see [`crate::Head::fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of these lines, each of which is valid and ends with CRLF.
    pub(crate) const fn of_lines(lines: &'a [u8]) -> Self {
        Self { rest: lines }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let colon = scan::token_end(self.rest);
        let (name, rest) = (self.rest.get(..colon)?, self.rest.get(colon + 1..)?);
        let end = scan::value_end(rest);
        self.rest = rest.get(end + 2..)?;
        Some((name, trim(&rest[..end])))
    }
}

/// Whether these bytes are the name of a field: a token (RFC 9110 section 5.1).
pub fn is_field_name(name: &[u8]) -> bool {
    !name.is_empty() && scan::token_end(name) == name.len()
}

/// Whether a field may have this value: without control characters but tabs (RFC 9110 section 5.5).
pub fn is_field_value(value: &[u8]) -> bool {
    scan::value_end(value) == value.len()
}

/// Trims optional whitespace (RFC 9110 section 5.6.3).
#[inline]
pub(crate) fn trim(value: &[u8]) -> &[u8] {
    let mut value = value;
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
