//! The request line: RFC 9112 section 3.

use crate::reject::Reject;
use crate::scan;

/// A span of the bytes that the head was parsed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes of this span.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// The method of a request (RFC 9110 section 9, RFC 5789). The name is case-sensitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    #[default]
    Get,
    /// `HEAD`.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// `OPTIONS`.
    Options,
    /// `PATCH`.
    Patch,
    /// Another token; [`Head::method_name`] has it.
    Other,
}

/// The version of a request. A minor version above 1 counts as 1 (RFC 9110 section 2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

/// A parsed request line and its size including CRLF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestLine {
    pub(super) method: Method,
    pub(super) method_name: Span,
    pub(super) target: Span,
    /// Whether the target is in origin form, with the host in the Host field (RFC 9112 section
    /// 3.2.1).
    pub(super) is_origin_form: bool,
    pub(super) version: Version,
    pub(super) size: usize,
}

/// Parses the line that starts at `start` of `bytes`; `None` if it is incomplete.
#[inline]
pub(super) fn read(bytes: &[u8], start: usize) -> Result<Option<RequestLine>, Reject> {
    let line = &bytes[start..];
    let Some((method, method_size)) = read_method(line)? else { return Ok(None) };
    let target_at = method_size + 1;
    let target_size = scan::target_end(&line[target_at..]);
    let target_end = target_at + target_size;
    let target = &line[target_at..target_end];
    match line.get(target_end) {
        // An incomplete target is checked later.
        None => return Ok(None),
        Some(b' ') => check(method, target)?,
        Some(b'\r' | b'\n') if target_size > 0 => return Err(Reject::VersionMissing),
        Some(_) => return Err(Reject::TargetInvalid),
    }
    let Some(version) = read_version(&line[target_end + 1..])? else { return Ok(None) };
    Ok(Some(RequestLine {
        method,
        method_name: span(start, start + method_size),
        target: span(start + target_at, start + target_end),
        is_origin_form: target.first() == Some(&b'/'),
        version,
        size: target_end + 1 + VERSION_SIZE + 2,
    }))
}

/// The method and the size of its name, which is followed by a space.
#[inline]
fn read_method(line: &[u8]) -> Result<Option<(Method, usize)>, Reject> {
    if line.starts_with(b"GET ") {
        return Ok(Some((Method::Get, 3)));
    }
    let size = scan::token_end(line);
    match line.get(size) {
        None => return Ok(None),
        Some(b' ') if size > 0 => {}
        Some(_) => return Err(Reject::MethodInvalid),
    }
    let method = match &line[..size] {
        b"HEAD" => Method::Head,
        b"POST" => Method::Post,
        b"PUT" => Method::Put,
        b"DELETE" => Method::Delete,
        b"OPTIONS" => Method::Options,
        b"PATCH" => Method::Patch,
        b"CONNECT" | b"TRACE" => return Err(Reject::MethodUnsupported),
        _ => Method::Other,
    };
    Ok(Some((method, size)))
}

/// Checks that the form of the target is valid for the method (RFC 9112 section 3.2).
#[inline]
fn check(method: Method, target: &[u8]) -> Result<(), Reject> {
    match target {
        [b'/', ..] => Ok(()),
        b"*" if method == Method::Options => Ok(()),
        _ if authority(target).is_some_and(super::host::is_valid_and_not_empty) => Ok(()),
        _ => Err(Reject::TargetInvalid),
    }
}

/// The authority of a target in absolute form.
pub(super) fn authority(target: &[u8]) -> Option<&[u8]> {
    let rest = after_scheme(target)?;
    let end = rest.iter().position(|&byte| matches!(byte, b'/' | b'?' | b'#'));
    Some(&rest[..end.unwrap_or(rest.len())])
}

pub(super) fn after_scheme(target: &[u8]) -> Option<&[u8]> {
    [b"http://".as_slice(), b"https://"].into_iter().find_map(|scheme| {
        let (front, rest) = target.split_at_checked(scheme.len())?;
        front.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

const VERSION_SIZE: usize = b"HTTP/1.1".len();

/// Parses the version, which is followed by CRLF.
#[inline]
fn read_version(rest: &[u8]) -> Result<Option<Version>, Reject> {
    match rest.first_chunk::<{ VERSION_SIZE + 2 }>() {
        Some(b"HTTP/1.1\r\n") => Ok(Some(Version::Http11)),
        Some(b"HTTP/1.0\r\n") => Ok(Some(Version::Http10)),
        _ => read_uncommon_version(rest),
    }
}

/// Byte by byte, so that an error is detected at the same byte, however the line is split.
#[cold]
fn read_uncommon_version(rest: &[u8]) -> Result<Option<Version>, Reject> {
    for (at, &byte) in rest.iter().take(VERSION_SIZE + 2).enumerate() {
        match (at, byte) {
            (0..5, _) if byte == b"HTTP/"[at] => {}
            (5 | 7, b'0'..=b'9') | (6, b'.') | (8, b'\r') | (9, b'\n') => {}
            (8, b'\n') => return Err(Reject::BareLf),
            (9, _) => return Err(Reject::BareCr),
            _ => return Err(Reject::VersionInvalid),
        }
        if at == 7 && rest[5] != b'1' {
            return Err(Reject::VersionUnsupported);
        }
    }
    Ok((rest.len() >= VERSION_SIZE + 2).then(|| match rest[7] {
        b'0' => Version::Http10,
        _ => Version::Http11,
    }))
}

/// Heads are smaller than 4 GiB, because their limits are `u32`.
#[expect(clippy::cast_possible_truncation, reason = "a head ends within limits that are u32")]
pub(crate) const fn span(start: usize, end: usize) -> Span {
    Span { start: start as u32, end: end as u32 }
}
