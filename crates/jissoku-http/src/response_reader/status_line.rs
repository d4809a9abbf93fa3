//! The status line: RFC 9112 section 4.

use crate::head::{Span, Version, span};
use crate::reject::BadResponse;
use crate::scan;

/// A parsed status line and its size including CRLF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParsedStatusLine {
    pub(super) version: Version,
    pub(super) status: u16,
    pub(super) reason: Span,
    pub(super) size: usize,
}

/// Parses the line at the start of `bytes`; `None` if it is incomplete. A missing reason phrase
/// may lack its space, too, as many servers send it.
pub(super) fn read(bytes: &[u8]) -> Result<Option<ParsedStatusLine>, BadResponse> {
    let Some(version) = read_version(bytes)? else { return Ok(None) };
    let Some(status) = read_status(bytes)? else { return Ok(None) };
    let reason_at = match bytes.get(12) {
        None => return Ok(None),
        Some(b' ') => 13,
        Some(b'\r') => 12,
        Some(_) => return Err(BadResponse::StatusLine),
    };
    let reason_end = reason_at + scan::value_end(&bytes[reason_at..]);
    match (bytes.get(reason_end), bytes.get(reason_end + 1)) {
        (None, _) | (Some(b'\r'), None) => Ok(None),
        (Some(b'\r'), Some(b'\n')) => Ok(Some(ParsedStatusLine {
            version,
            status,
            reason: span(reason_at, reason_end),
            size: reason_end + 2,
        })),
        _ => Err(BadResponse::StatusLine),
    }
}

fn read_version(bytes: &[u8]) -> Result<Option<Version>, BadResponse> {
    const COMMON: &[u8] = b"HTTP/1.";
    let known = bytes.len().min(COMMON.len());
    if bytes[..known] != COMMON[..known] {
        return Err(BadResponse::StatusLine);
    }
    let version = match bytes.get(7) {
        None => return Ok(None),
        Some(b'0') => Version::Http10,
        Some(b'1') => Version::Http11,
        Some(_) => return Err(BadResponse::StatusLine),
    };
    match bytes.get(8) {
        None => Ok(None),
        Some(b' ') => Ok(Some(version)),
        Some(_) => Err(BadResponse::StatusLine),
    }
}

/// The three digits after version and space.
fn read_status(bytes: &[u8]) -> Result<Option<u16>, BadResponse> {
    let mut status = 0;
    for at in 9..12 {
        match bytes.get(at) {
            None => return Ok(None),
            Some(digit @ b'0'..=b'9') => status = 10 * status + u16::from(digit - b'0'),
            Some(_) => return Err(BadResponse::StatusLine),
        }
    }
    if (100..600).contains(&status) { Ok(Some(status)) } else { Err(BadResponse::Status) }
}
