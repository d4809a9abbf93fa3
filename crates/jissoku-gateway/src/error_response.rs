//! Responses that do not come from the server.

use jissoku_http::response::reason;
use jissoku_server::{DynamicResponse, Response};

/// Writes a response that does not come from the server, with these header lines.
pub(crate) fn write(status: u16, fields: &str, response: &mut Response<'_>) {
    if status == 204 {
        return response.send_dynamic(&DynamicResponse::without_body(status, fields));
    }
    let retry = if status == 503 { "Retry-After: 1\r\n" } else { "" };
    let text = format!("{}\n", reason(status));
    let fields = format!("{retry}{fields}");
    response.send_dynamic(&DynamicResponse::text(status, &fields, text.as_bytes()));
}
