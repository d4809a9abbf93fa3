//! Says what was understood of a request, so that any outside suite can see it.
//!
//! | request | answer |
//! |---|---|
//! | `/echo` | the header fields, one `name: value` per line, in order and as they came |
//! | `/json` | method, target, version, fields and body as JSON, each value in base64 |
//! | `POST`, `PUT` or `PATCH` elsewhere | the body, with its Content-Type |
//! | anything else | `OK` |
//!
//! Trailers are dropped, and a body over the limit is refused, as for every other site.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use jissoku_http::framing::Body;
use jissoku_http::response::Answer;
use jissoku_http::{Head, Method, Version};

use super::{Content, Made, Page, Part, Plan, Reply, path_of};

/// Serves what was understood.
#[derive(Debug)]
pub struct Echo {
    ok: Answer,
}

/// What is still to be made into an answer when the body has come.
#[derive(Debug)]
pub(crate) struct Collect {
    wanted: Wanted,
    body: Vec<u8>,
}

/// What is to be said about a request.
#[derive(Debug)]
enum Wanted {
    /// A body that is complete already; the request's is read and dropped.
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
        Self { ok: Answer::new("Content-Type: text/plain\r\n", b"OK") }
    }

    /// Plans the answer to a request whose head was read from the front of `bytes`.
    pub(super) fn plan(head: &Head, bytes: &[u8]) -> Plan {
        let wanted = match path_of(head.path_and_query(bytes)) {
            b"/echo" => Wanted::Text(fields(head, bytes)),
            b"/json" => Wanted::Json(json(head, bytes)),
            _ if matches!(head.method, Method::Post | Method::Put | Method::Patch) => {
                Wanted::Body(content_type(head, bytes))
            }
            _ => return Plan::new(Page::Text, head.method),
        };
        let mut page = Page::Collect(Box::new(Collect { wanted, body: Vec::new() }));
        if head.body == Body::Empty {
            finish(&mut page);
        }
        Plan::new(page, head.method)
    }

    /// The answer to what needs none of its own.
    pub(super) const fn reply(&self) -> Reply<'_> {
        Reply::Whole(200, &self.ok)
    }
}

/// A piece of the body has come.
pub(super) fn take_body(page: &mut Page, bytes: &[u8]) {
    if let Page::Collect(collect) = page {
        match collect.wanted {
            Wanted::Text(_) => {}
            Wanted::Body(_) | Wanted::Json(_) => collect.body.extend_from_slice(bytes),
        }
    }
}

/// The body is complete.
pub(super) fn finish(page: &mut Page) {
    let Page::Collect(collect) = page else { return };
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
    *page = Page::Made(Box::new(made));
}

fn made(content_type: &[u8], body: Vec<u8>) -> Made {
    let length = format!("\r\nContent-Length: {}\r\n\r\n", body.len());
    let head = [b"Content-Type: ", content_type, length.as_bytes()].concat();
    let size = body.len();
    // Shared, because a slow reader of a copy would make us hold the body twice.
    let content = Content { parts: vec![Part::Shared(body.into(), 0..size)] };
    Made { status: 200, head, content }
}

fn fields(head: &Head, bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in head.fields(bytes) {
        text.extend([name, b": ", value, b"\n"].concat());
    }
    text
}

/// The first Content-Type. Its bytes were allowed in a request, so they are in an answer.
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

/// Base64 between quotes: nothing of it needs escaping in JSON (RFC 4648 section 4).
fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", Base64Display::new(bytes, &STANDARD))
}
