//! Responses to requests that are rejected without a handler.

use jissoku_http::Reject;
use jissoku_http::response::{self, ConnectionHeader, StaticResponse};
use jissoku_os::driver::SendBuffer;

use crate::limits::RETRY_AFTER_S;
use crate::status_lines::StatusLineCache;

/// Writes an error response and returns the size of its body. The connection is closed after it.
/// The response to a HEAD request has no body.
#[cold]
pub(super) fn write_rejection(
    reject: Reject,
    is_head: bool,
    status_lines: &StatusLineCache,
    output: &mut SendBuffer,
) -> u64 {
    let text = match reject {
        Reject::PacketInvalid => "This port speaks uwsgi: use uwsgi_pass, or another port.",
        Reject::ProxyHeaderInvalid => "This port expects the PROXY protocol.",
        Reject::TlsMissing => "This port speaks TLS: write https:// instead.",
        reject => response::reason(reject.status()),
    };
    write_last((reject.status(), "", text), is_head, status_lines, output)
}

/// Writes the last response of a connection, with these fields and this text, and returns the size of
/// its body. The response to a HEAD request has none.
#[cold]
pub(super) fn write_last(
    (status, fields, text): (u16, &str, &str),
    is_head: bool,
    status_lines: &StatusLineCache,
    output: &mut SendBuffer,
) -> u64 {
    let answer = last(status, fields, text, status_lines, output);
    output.append(if is_head { answer.head() } else { answer.bytes() });
    if is_head { 0 } else { answer.body_size() }
}

/// Writes a 503 for a connection over the limit.
#[cold]
pub(super) fn write_over_limit(status_lines: &StatusLineCache, output: &mut SendBuffer) {
    let fields = format!("Retry-After: {RETRY_AFTER_S}\r\n");
    let answer = last(503, &fields, response::reason(503), status_lines, output);
    // No request was read, so it is not known to be a HEAD.
    output.append(answer.bytes());
}

/// Writes the first lines of a final response and returns the rest.
fn last(
    status: u16,
    fields: &str,
    text: &str,
    status_lines: &StatusLineCache,
    output: &mut SendBuffer,
) -> StaticResponse {
    status_lines.with(status, |opening| output.append(opening));
    output.append(ConnectionHeader::Close.field());
    let fields = format!("{fields}Content-Type: text/plain\r\n");
    StaticResponse::new(&fields, format!("{text}\n").as_bytes())
}
