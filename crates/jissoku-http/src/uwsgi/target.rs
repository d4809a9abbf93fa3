//! The request target of a packet.

use super::packet::Variables;
use crate::percent::decoded;
use crate::reject::Reject;

/// Appends the target: `REQUEST_URI` as the client has sent it, unless the front-end has rewritten
/// `PATH_INFO` or `QUERY_STRING`; then these, percent-encoded.
///
/// # Errors
/// [`Reject::TargetInvalid`]: there is neither, or the query has spaces or control bytes.
pub(super) fn write(variables: &Variables<'_>, text: &mut Vec<u8>) -> Result<(), Reject> {
    let (script, path) = variables.script_and_path();
    let query = variables.get(b"QUERY_STRING");
    if variables.get(b"REQUEST_URI") == Some(b"*") && path.is_none_or(|path| path == b"*") {
        // Of OPTIONS, about the server as a whole (RFC 9112 section 3.2.4).
        text.push(b'*');
        return Ok(());
    }
    let uri = variables.get(b"REQUEST_URI").filter(|uri| uri.starts_with(b"/") && is_plain(uri));
    if let Some(uri) = uri {
        let end = uri.iter().position(|&byte| byte == b'?').unwrap_or(uri.len());
        let (uri_path, uri_query) = uri.split_at(end);
        let is_path =
            path.is_none_or(|path| decoded(uri_path).eq(script.iter().chain(path).copied()));
        let is_query = query.is_none_or(|query| query == uri_query.get(1..).unwrap_or_default());
        if is_path && is_query {
            text.extend_from_slice(uri);
            return Ok(());
        }
    }
    let path = path.ok_or(Reject::TargetInvalid)?;
    if script.is_empty() && !path.starts_with(b"/") {
        text.push(b'/');
    }
    script.iter().chain(path).for_each(|&byte| encode(byte, text));
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        if !is_plain(query) {
            return Err(Reject::TargetInvalid);
        }
        text.push(b'?');
        text.extend_from_slice(query);
    }
    Ok(())
}

/// Without spaces and control bytes.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

/// Percent-encodes what is no `pchar` (RFC 3986 section 3.3) and no slash.
fn encode(byte: u8, text: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte) {
        return text.push(byte);
    }
    text.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}
