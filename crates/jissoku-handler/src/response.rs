//! The response of a handler.

use std::borrow::Cow;
use std::ffi::c_int;
use std::fmt::{self, Debug, Display};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use crate::ffi::{Call, FAILED, Finish};

/// A body above this size is passed on without a copy, if the response owns it.
const COPIED_SIZE_MAX: usize = 16 * 1024;

/// A response. The server adds Date, Content-Length and Connection, sends no body for HEAD, and 304 in
/// place of 200 for an `ETag` that the client has.
#[derive(Debug)]
pub struct Response<'r> {
    content: Content<'r>,
    status: u16,
    content_type: Option<&'static str>,
    fields: Vec<(Cow<'r, str>, Cow<'r, str>)>,
}

/// The body of a response.
pub enum Body<'r> {
    /// Is copied.
    Borrowed(&'r [u8]),
    /// Is part of the program, and not copied.
    Static(&'static [u8]),
    /// Is copied if it is small.
    Owned(Vec<u8>),
    /// Is not copied.
    Shared(Arc<[u8]>),
    /// A range of a file, or all of it; the kernel sends it without a copy, except over TLS.
    File(File, Option<Range<u64>>),
    /// Each part is made when those before it are sent: no faster than the client reads.
    Parts(Box<dyn Iterator<Item = Vec<u8>>>),
}

impl Debug for Body<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file, range) => {
                formatter.debug_tuple("File").field(file).field(range).finish()
            }
            Self::Parts(_) => formatter.write_str("Parts"),
            bytes => formatter.debug_tuple("Bytes").field(&bytes.bytes()).finish(),
        }
    }
}

impl Body<'_> {
    /// The bytes, if they are in memory.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Borrowed(bytes) | Self::Static(bytes) => Some(bytes),
            Self::Owned(bytes) => Some(bytes),
            Self::Shared(bytes) => Some(bytes),
            Self::File(..) | Self::Parts(_) => None,
        }
    }
}

#[derive(Debug)]
enum Content<'r> {
    Body(Body<'r>),
    /// There is a response later.
    Waiting,
    /// Why there is none.
    Failed(String),
}

impl<'r> Response<'r> {
    fn of(content: Content<'r>) -> Self {
        Self { content, status: 200, content_type: None, fields: Vec::new() }
    }

    /// A response with this status, from 200 to 599, without a body.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::of(Content::Body(Body::Static(b""))) }
    }

    /// A text.
    #[must_use]
    pub fn text(body: impl Into<Body<'r>>) -> Self {
        Self::new(200).body(body).content_type("text/plain; charset=utf-8")
    }

    /// A page. What it is made of has to be escaped; see [`Request::escape_html`].
    ///
    /// [`Request::escape_html`]: crate::Request::escape_html
    #[must_use]
    pub fn html(body: impl Into<Body<'r>>) -> Self {
        Self::new(200).body(body).content_type("text/html; charset=utf-8")
    }

    /// A document of JSON.
    #[must_use]
    pub fn json(body: impl Into<Body<'r>>) -> Self {
        Self::new(200).body(body).content_type("application/json")
    }

    /// A redirection to another URL, which the client is to GET (303).
    #[must_use]
    pub fn redirect(url: impl Into<Cow<'r, str>>) -> Self {
        Self::new(303).field("Location", url)
    }

    /// That there is a response later.
    pub(crate) fn waiting() -> Self {
        Self::of(Content::Waiting)
    }

    /// 500; `why` is printed on standard error.
    pub(crate) fn failed(why: impl Display) -> Self {
        Self::of(Content::Failed(why.to_string()))
    }

    /// With another status, from 200 to 599.
    #[must_use]
    pub const fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// With this body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Body<'r>>) -> Self {
        self.content = Content::Body(body.into());
        self
    }

    /// With this Content-Type in place of the one that it has.
    #[must_use]
    pub const fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = Some(content_type);
        self
    }

    /// With a further header field. If its name or value is not valid, or the field is one of the
    /// server's, the client gets 500 in place of this response.
    #[must_use]
    pub fn field(mut self, name: impl Into<Cow<'r, str>>, value: impl Into<Cow<'r, str>>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Its status, fields and bytes, if the body is in memory.
    pub(crate) fn in_memory(&self) -> Option<InMemory<'_>> {
        let Content::Body(body) = &self.content else { return None };
        let content_type = self.content_type.map(|value| ("Content-Type", value));
        let fields = self.fields.iter().map(|(name, value)| (&**name, &**value));
        let fields = content_type.into_iter().chain(fields).collect();
        Some(InMemory { status: self.status, fields, body: body.bytes()? })
    }

    /// Has the server send it. Returns the result of `jsk_handle`.
    pub(crate) fn send(self, call: Call<'r>) -> c_int {
        let Self { content, status, content_type, fields } = self;
        if let Content::Failed(why) = content {
            report(why);
            return FAILED;
        }
        let content_type = content_type.map(|value| ("Content-Type", value));
        let fields = fields.iter().map(|(name, value)| (&**name, &**value));
        for (name, value) in content_type.into_iter().chain(fields) {
            if !call.add_field(name, value.as_bytes()) {
                report(format_args!("a response cannot have the field {name:?}: {value:?}"));
                return FAILED;
            }
        }
        let is_sent = match content {
            Content::Body(Body::Borrowed(body)) => call.respond(status, body),
            Content::Body(Body::Owned(body)) if body.len() <= COPIED_SIZE_MAX => {
                call.respond(status, &body)
            }
            Content::Body(Body::Static(body)) if body.len() <= COPIED_SIZE_MAX => {
                call.respond(status, body)
            }
            Content::Body(Body::Owned(body)) => call.respond_owned(status, body),
            Content::Body(Body::Static(body)) => call.respond_owned(status, body),
            Content::Body(Body::Shared(body)) => call.respond_owned(status, body),
            Content::Body(Body::File(file, range)) => {
                let (start, size) = start_and_size(range);
                call.send_file(status, file, start, size)
            }
            Content::Body(Body::Parts(parts)) => {
                call.begin(status, None) && write_next(call, parts) == 0
            }
            Content::Waiting | Content::Failed(_) => true,
        };
        if is_sent {
            return 0;
        }
        report(format_args!("the server refuses the body, or the status {status}"));
        FAILED
    }

    /// Has the server send it in place of another thread. Returns whether the server takes it.
    pub(crate) fn finish(self, finish: Finish) -> bool {
        let Self { content, status, content_type, fields } = self;
        let Content::Body(body) = content else { return false };
        let content_type = content_type.map(|value| ("Content-Type", value));
        let fields = fields.iter().map(|(name, value)| (&**name, &**value));
        let fields: Vec<(&str, &str)> = content_type.into_iter().chain(fields).collect();
        match body {
            Body::Owned(body) if body.len() > COPIED_SIZE_MAX => {
                finish.respond_owned(status, &fields, body)
            }
            Body::Static(body) if body.len() > COPIED_SIZE_MAX => {
                finish.respond_owned(status, &fields, body)
            }
            Body::Shared(body) => finish.respond_owned(status, &fields, body),
            Body::File(file, range) => {
                finish.send_file(status, &fields, file, start_and_size(range))
            }
            body => body.bytes().is_some_and(|body| finish.respond_with(status, &fields, body)),
        }
    }
}

/// Where a part of a file begins, and its size; `None` is all up to its end.
fn start_and_size(range: Option<Range<u64>>) -> (u64, Option<u64>) {
    range.map_or((0, None), |Range { start, end }| (start, Some(end.saturating_sub(start))))
}

/// A response whose body is in memory.
#[derive(Debug)]
pub(crate) struct InMemory<'a> {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(&'a str, &'a str)>,
    pub(crate) body: &'a [u8],
}

/// Writes a part, and the next one when it is sent. Returns the result of `jsk_handle`.
fn write_next(call: Call<'_>, mut parts: Box<dyn Iterator<Item = Vec<u8>>>) -> c_int {
    let is_written = match parts.next() {
        None => call.end(),
        Some(part) => {
            let resume = move |call: Call<'_>| write_next(call, parts);
            call.write(&part) && call.when_sent(Box::new(resume))
        }
    };
    if is_written { 0 } else { FAILED }
}

/// Prints why there is no response, before the server prints the request.
#[expect(clippy::print_stderr, reason = "a handler has no other log")]
pub(crate) fn report(why: impl Display) {
    eprintln!("handler: {why}");
}

/// An error is a 500, and is printed on standard error.
impl<E: Display> From<Result<Self, E>> for Response<'_> {
    fn from(result: Result<Self, E>) -> Self {
        result.unwrap_or_else(Self::failed)
    }
}

impl<'r> From<&'r str> for Response<'r> {
    fn from(text: &'r str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Response<'_> {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl<'r> From<&'r str> for Body<'r> {
    fn from(text: &'r str) -> Self {
        Self::Borrowed(text.as_bytes())
    }
}

impl<'r> From<&'r [u8]> for Body<'r> {
    fn from(bytes: &'r [u8]) -> Self {
        Self::Borrowed(bytes)
    }
}

impl From<String> for Body<'_> {
    fn from(text: String) -> Self {
        Self::Owned(text.into_bytes())
    }
}

impl From<Vec<u8>> for Body<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes)
    }
}

impl From<File> for Body<'_> {
    fn from(file: File) -> Self {
        Self::File(file, None)
    }
}

impl From<Arc<[u8]>> for Body<'_> {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::Shared(bytes)
    }
}

impl<'r> From<Cow<'r, str>> for Body<'r> {
    fn from(text: Cow<'r, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}
