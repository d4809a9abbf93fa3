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

use std::io;
use std::sync::Arc;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use jissoku_http::response::StaticResponse;
use jissoku_http::{Method, Version};
use jissoku_os::driver::NewConnection;
use jissoku_server::{
    BodyPart, DynamicResponse, Handler, Progress, RequestHead, Response, Service, WorkerInfo,
};

/// Serves the parsed request.
#[derive(Debug)]
pub struct Echo {
    ok: StaticResponse,
}

/// A request, of which something is kept for the response.
#[derive(Debug)]
pub struct EchoRequest(Option<Box<Collect>>);

#[derive(Debug)]
struct Collect {
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
}

impl Service for Echo {
    type Handler = EchoHandler;

    fn handler(self: &Arc<Self>, _: &WorkerInfo) -> io::Result<EchoHandler> {
        Ok(EchoHandler(Arc::clone(self)))
    }
}

/// Processes the requests of one worker.
#[derive(Debug)]
pub struct EchoHandler(Arc<Echo>);

impl Handler for EchoHandler {
    type Connection = ();
    type Request = EchoRequest;

    fn on_open(&mut self, _: &NewConnection<'_>) {}

    fn on_head(&mut self, (): &mut (), head: &RequestHead<'_>) -> EchoRequest {
        let wanted = match head.path_and_query().0 {
            b"/echo" => Wanted::Text(fields(head)),
            b"/json" => Wanted::Json(json(head)),
            _ if matches!(head.method(), Method::Post | Method::Put | Method::Patch) => {
                Wanted::Body(content_type(head))
            }
            _ => return EchoRequest(None),
        };
        EchoRequest(Some(Box::new(Collect { wanted, body: Vec::new() })))
    }

    fn on_body(&mut self, request: &mut EchoRequest, part: &[u8]) {
        if let EchoRequest(Some(collect)) = request
            && !matches!(collect.wanted, Wanted::Text(_))
        {
            collect.body.extend_from_slice(part);
        }
    }

    fn respond(
        &mut self,
        (): &mut (),
        request: &mut EchoRequest,
        response: &mut Response<'_>,
    ) -> Progress {
        match request.0.take() {
            Some(collect) => response.send_dynamic(&collect.response()),
            None => response.send(200, &self.0.ok),
        }
        Progress::Complete
    }
}

impl Collect {
    fn response(self) -> DynamicResponse {
        let Self { wanted, body } = self;
        match wanted {
            Wanted::Text(text) => of_type(b"text/plain", text),
            Wanted::Body(content_type) => {
                of_type(content_type.as_deref().unwrap_or(b"application/octet-stream"), body)
            }
            Wanted::Json(json) => {
                let json = format!("{json},\"body\":{}}}\n", quoted(&body));
                of_type(b"application/json", json.into_bytes())
            }
        }
    }
}

fn of_type(content_type: &[u8], body: Vec<u8>) -> DynamicResponse {
    let fields = [b"Content-Type: ", content_type, b"\r\n"].concat();
    let size = body.len();
    // Shared, because a copy in the send buffer would hold the body twice.
    DynamicResponse::with_fields(200, &fields, vec![BodyPart::Shared(body.into(), 0..size)])
}

fn fields(head: &RequestHead<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in head.fields() {
        text.extend([name, b": ", value, b"\n"].concat());
    }
    text
}

/// The first Content-Type. Bytes that are valid in a request are valid in a response.
fn content_type(head: &RequestHead<'_>) -> Option<Vec<u8>> {
    let mut fields = head.fields();
    let found = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"));
    found.map(|(_, value)| value.to_vec())
}

fn json(request: &RequestHead<'_>) -> String {
    let RequestHead { head, bytes, .. } = request;
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
