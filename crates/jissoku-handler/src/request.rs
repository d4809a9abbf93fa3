//! A request as a handler reads it.

use std::borrow::Cow;
use std::time::Duration;

use crate::chart::{Chart, ChartKind};
use crate::ffi::{Call, Server};
use crate::later::Later;
use crate::paused::Paused;
use crate::response::Response;

/// A request. It stays on the thread of its worker, and what its functions return is valid until the
/// handler returns.
///
/// In texts, bytes that are not UTF-8 are U+FFFD.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    call: Call<'r>,
}

impl<'r> Request<'r> {
    pub(crate) const fn of(call: Call<'r>) -> Self {
        Self { call }
    }

    /// GET, POST, another token. Names of methods are case-sensitive.
    #[must_use]
    pub fn method(self) -> &'r str {
        utf8(self.call.method())
    }

    /// The path and the query as they were received.
    #[must_use]
    pub fn target(self) -> &'r [u8] {
        self.call.target().unwrap_or_default()
    }

    /// The path, decoded, without "." and ".." segments. It begins with a slash, or is "*".
    #[must_use]
    pub fn path(self) -> Cow<'r, str> {
        text(self.call.path().unwrap_or_default())
    }

    /// The query as it was received, without its question mark.
    #[must_use]
    pub fn query_string(self) -> &'r [u8] {
        self.call.query_string().unwrap_or_default()
    }

    /// The first query parameter of this name, decoded.
    #[must_use]
    pub fn query(self, name: &str) -> Option<Cow<'r, str>> {
        self.call.query(name).map(text)
    }

    /// All query parameters in their order, decoded.
    #[must_use]
    pub fn queries(self) -> Vec<(Cow<'r, str>, Cow<'r, str>)> {
        texts(&self.call.each_query())
    }

    /// The first parameter of this name of a body that is a form
    /// (`application/x-www-form-urlencoded`), decoded.
    #[must_use]
    pub fn form(self, name: &str) -> Option<Cow<'r, str>> {
        self.call.form(name).map(text)
    }

    /// The variable `{name}` of the path of the route, decoded.
    #[must_use]
    pub fn variable(self, name: &str) -> Option<Cow<'r, str>> {
        self.call.variable(name).map(text)
    }

    /// The value of the first header field of this name, in any case.
    #[must_use]
    pub fn field(self, name: &str) -> Option<Cow<'r, str>> {
        self.call.field(name).map(text)
    }

    /// All header fields in their order.
    #[must_use]
    pub fn fields(self) -> Vec<(Cow<'r, str>, Cow<'r, str>)> {
        texts(&self.call.each_field())
    }

    /// The whole body; without its transfer coding.
    #[must_use]
    pub fn body(self) -> &'r [u8] {
        self.call.body().unwrap_or_default()
    }

    /// What a [`PartsHandler`](crate::PartsHandler) has made of the body, once; `None` if there was none.
    #[must_use]
    pub fn take_upload<U: 'static>(self) -> Option<U> {
        self.call.take_kept()
    }

    /// In [`PartsHandler::take_part`](crate::PartsHandler::take_part): the client waits until what this
    /// returns is dropped, by any thread, or until `limit` is over. `None`: it does not wait, because
    /// it does so already, or the server is older than this function.
    #[must_use]
    pub fn pause(self, limit: Duration) -> Option<Paused> {
        Paused::of(self.call, milliseconds(limit))
    }

    /// The address of the client, without its port; `None` over a Unix socket.
    #[must_use]
    pub fn client(self) -> Option<&'r str> {
        self.call.client().map(|address| utf8(Some(address)))
    }

    /// "http" or "https".
    #[must_use]
    pub fn scheme(self) -> &'r str {
        utf8(self.call.scheme())
    }

    /// "HTTP/1.0" or "HTTP/1.1".
    #[must_use]
    pub fn http_version(self) -> &'r str {
        utf8(self.call.http_version())
    }

    /// The text with & < > " ' as character references: for the content and the quoted attributes of
    /// HTML.
    ///
    /// # Panics
    /// The server is older than this function, here and below.
    #[must_use]
    pub fn escape_html(self, text: &str) -> &'r str {
        converted(self.call.escape_html(text.as_bytes()))
    }

    /// The text as a string of JSON, with its quotation marks.
    #[must_use]
    pub fn escape_json(self, text: &str) -> &'r str {
        converted(self.call.escape_json(text.as_bytes()))
    }

    /// The text as a segment of a path or a value of a query: all but letters, digits and -._~ is %XX.
    #[must_use]
    pub fn escape_url(self, text: &str) -> &'r str {
        converted(self.call.escape_url(text.as_bytes()))
    }

    /// Seconds since 1970 as a date of HTTP: Sun, 06 Nov 1994 08:49:37 GMT
    #[must_use]
    pub fn http_date(self, unix_s: u64) -> &'r str {
        converted(self.call.http_date(unix_s))
    }

    /// The SHA-256 digest of the bytes.
    ///
    /// # Panics
    /// The server is older than this function.
    #[must_use]
    pub fn sha256(self, bytes: &[u8]) -> [u8; 32] {
        let digest = self.call.sha256(bytes).and_then(|digest| digest.try_into().ok());
        digest.expect(OLD)
    }

    /// Draws a chart of up to 100,000 values as SVG, in the light or dark colours of its reader: an image
    /// of its own (image/svg+xml), or an element of an HTML page.
    ///
    /// # Errors
    /// Something of the chart is not as it has to be: a sentence.
    pub fn chart(self, kind: ChartKind, chart: &Chart<'_>) -> Result<&'r str, String> {
        self.call.chart(kind as i32, chart).map(|drawing| utf8(Some(drawing)))
    }

    /// What the server does without a request, on any thread.
    #[must_use]
    pub const fn server(self) -> Server {
        self.call.server()
    }

    /// Has `function` respond after a time, on the same thread; the worker serves others meanwhile.
    /// Is the response to return, to which fields may be added. If the client leaves before,
    /// `function` is dropped.
    pub fn after(
        self,
        delay: Duration,
        function: impl FnOnce(Request<'_>) -> Response<'_> + 'static,
    ) -> Response<'r> {
        let resume = move |call: Call<'_>| function(Request::of(call)).send(call);
        let is_waiting = self.call.after(milliseconds(delay), Box::new(resume));
        if is_waiting { Response::waiting() } else { Response::failed(TWICE) }
    }

    /// Passes to `begin` what any thread responds with later; the worker serves others meanwhile. Is
    /// the response to return, to which fields may be added. Without a response after `limit`, or up to
    /// a second later, the client gets 504.
    pub fn defer(self, limit: Duration, begin: impl FnOnce(Later)) -> Response<'r> {
        let Some(later) = Later::of(self.call, milliseconds(limit)) else {
            return Response::failed(TWICE);
        };
        begin(later);
        Response::waiting()
    }
}

/// Why a function of the server has returned nothing where it always returns a text.
const OLD: &str = "the server is older than this function";
const TWICE: &str = "a request waits for one thing, and the server has to know later responses";

/// A text of the server, which is UTF-8.
fn utf8(text: Option<&[u8]>) -> &str {
    str::from_utf8(text.unwrap_or_default()).unwrap_or_default()
}

/// What a helper has made of a text.
fn converted(text: Option<&[u8]>) -> &str {
    str::from_utf8(text.expect(OLD)).unwrap_or_default()
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn texts<'r>(pairs: &[(&'r [u8], &'r [u8])]) -> Vec<(Cow<'r, str>, Cow<'r, str>)> {
    pairs.iter().map(|(name, value)| (text(name), text(value))).collect()
}

/// Rounded up, and at most 49 days.
fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u32::MAX)
}
