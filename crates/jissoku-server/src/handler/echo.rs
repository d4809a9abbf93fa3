//! Responds with the parsed request, so that external test suites can check it.
//!
//! | request | response |
//! |---|---|
//! | `/echo` | the header fields, one `name: value` per line, in order and as they came |
//! | `/json` | method, target, version, fields and body as JSON, each value in base64 |
//! | `POST`, `PUT` or `PATCH` elsewhere | the body, with its Content-Type |
//! | anything else | `OK` |
//!
//! Trailers are dropped, and a body over the limit is rejected, as for all other content.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use jissoku_http::framing::Body;
use jissoku_http::response::StaticResponse;
use jissoku_http::{Head, Method, Version};

use super::{
    BodyPart, DynamicResponse, ResponseBody, ResponseKind, ResponsePlan, ResponseRef, path_of,
};

/// Serves the parsed request.
#[derive(Debug)]
pub struct Echo {
    ok: StaticResponse,
}

/// A response that waits for the request body.
#[derive(Debug)]
pub(crate) struct Collect {
    wanted: Wanted,
    body: Vec<u8>,
}

/// What to respond with.
#[derive(Debug)]
enum Wanted {
    /// This text; the request body is discarded.
    Text(Vec<u8>),
    /// The request's body, with its Content-Type.
    Body(Option<Vec<u8>>),
    /// JSON up to the body.
    Json(String),
}

impl Default for Echo {
    fn default() -> Self {
        Self::new()
    }
}

impl Echo {
    /// Echoes every request.
    #[must_use]
    pub fn new() -> Self {
        Self { ok: StaticResponse::new("Content-Type: text/plain\r\n", b"OK") }
    }

    /// Plans the response to a request whose head is at the front of `bytes`.
    pub(super) fn plan(head: &Head, bytes: &[u8]) -> ResponsePlan {
        let wanted = match path_of(head.path_and_query(bytes)) {
            b"/echo" => Wanted::Text(fields(head, bytes)),
            b"/json" => Wanted::Json(json(head, bytes)),
            _ if matches!(head.method, Method::Post | Method::Put | Method::Patch) => {
                Wanted::Body(content_type(head, bytes))
            }
            _ => return ResponsePlan::new(ResponseKind::Text, head.method),
        };
        let mut page = ResponseKind::Collect(Box::new(Collect { wanted, body: Vec::new() }));
        if head.body == Body::Empty {
            finish(&mut page);
        }
        ResponsePlan::new(page, head.method)
    }

    /// The default response.
    pub(super) const fn reply(&self) -> ResponseRef<'_> {
        ResponseRef::Whole(200, &self.ok)
    }
}

/// Collects a part of the request body.
pub(super) fn take_body(page: &mut ResponseKind, bytes: &[u8]) {
    if let ResponseKind::Collect(collect) = page {
        match collect.wanted {
            Wanted::Text(_) => {}
            Wanted::Body(_) | Wanted::Json(_) => collect.body.extend_from_slice(bytes),
        }
    }
}

/// Creates the response when the request body is complete.
pub(super) fn finish(page: &mut ResponseKind) {
    let ResponseKind::Collect(collect) = page else { return };
    let body = std::mem::take(&mut collect.body);
    let made = match &mut collect.wanted {
        Wanted::Text(text) => made(b"text/plain", std::mem::take(text)),
        Wanted::Body(content_type) => {
            made(content_type.as_deref().unwrap_or(b"application/octet-stream"), body)
        }
        Wanted::Json(json) => {
            let json = format!("{json},\"body\":{}}}\n", quoted(&body));
            made(b"application/json", json.into_bytes())
        }
    };
    *page = ResponseKind::Dynamic(Box::new(made));
}

fn made(content_type: &[u8], body: Vec<u8>) -> DynamicResponse {
    let length = format!("\r\nContent-Length: {}\r\n\r\n", body.len());
    let head = [b"Content-Type: ", content_type, length.as_bytes()].concat();
    let size = body.len();
    // Shared, because a copy in the send buffer would hold the body twice.
    let body = ResponseBody { parts: vec![BodyPart::Shared(body.into(), 0..size)] };
    DynamicResponse { status: 200, head, body }
}

fn fields(head: &Head, bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in head.fields(bytes) {
        text.extend([name, b": ", value, b"\n"].concat());
    }
    text
}

/// The first Content-Type. Bytes that are valid in a request are valid in a response.
fn content_type(head: &Head, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut fields = head.fields(bytes);
    let found = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"));
    found.map(|(_, value)| value.to_vec())
}

fn json(head: &Head, bytes: &[u8]) -> String {
    let version: &[u8] = match head.version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
    };
    let fields: Vec<String> = head
        .fields(bytes)
        .map(|(name, value)| format!("[{},{}]", quoted(name), quoted(value)))
        .collect();
    format!(
        "{{\"method\":{},\"uri\":{},\"version\":{},\"headers\":[{}]",
        quoted(head.method_name.of(bytes)),
        quoted(head.target.of(bytes)),
        quoted(version),
        fields.join(","),
    )
}

/// Quoted base64, which needs no escaping in JSON (RFC 4648 section 4).
fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", Base64Display::new(bytes, &STANDARD))
}
