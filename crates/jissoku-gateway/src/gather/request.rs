//! The request of a part.

use jissoku_http::head::HeadReader;
use jissoku_http::{Head, Limits, Version};
use jissoku_server::RequestHead;
use jissoku_upstream::fan_out::BatchItem;

/// The fields of the client that every part receives. Via makes loops visible.
const ALWAYS_PASSED: [&str; 2] = ["host", "via"];

/// The fields of the client that every part receives, unless its route lists others.
const PASSED: [&str; 7] = [
    "accept",
    "accept-language",
    "authorization",
    "cookie",
    "traceparent",
    "tracestate",
    "x-request-id",
];

/// The fields that are not broadcast: those that frame the body, ask for an interim response, or
/// make a response that is not whole or not text (RFC 9110 sections 12.5.3, 13.1 and 14.2).
const NOT_BROADCAST: [&str; 10] = [
    "accept-encoding",
    "content-length",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "transfer-encoding",
];

/// Which fields of the client parts receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedFields<'a> {
    /// Those that the route lists, if it does.
    pub(crate) names: Option<&'a [String]>,
    /// Whether Accept is one, as listed: it may mean the form of the response.
    pub(crate) has_accept: bool,
}

impl PassedFields<'_> {
    fn has(self, name: &[u8]) -> bool {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let is_listed = || match self.names {
            None => PASSED.iter().any(|known| is(known)),
            Some(names) => names.iter().any(|known| is(known)),
        };
        ALWAYS_PASSED.iter().any(|known| is(known))
            || ((self.has_accept || !is("accept")) && is_listed())
    }
}

/// The head of a part's request, before it is edited as every other that is forwarded.
pub(crate) type PartRequest = (Head, Vec<u8>);

/// A GET for `target` with some fields of the client's request. `None` if it would be too large.
pub(crate) fn part_request(
    request: &RequestHead<'_>,
    target: &[u8],
    passed: PassedFields<'_>,
) -> Option<PartRequest> {
    let fields = request.fields().filter(|(name, _)| passed.has(name));
    write(request, (b"GET", target), fields, None)
}

/// The client's request itself, with a body of `body_size` bytes if it has one.
pub(crate) fn broadcast_request(
    request: &RequestHead<'_>,
    body_size: Option<usize>,
    passes_accept: bool,
) -> Option<PartRequest> {
    let fields = request.fields().filter(|(name, _)| {
        let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
        !NOT_BROADCAST.iter().any(is) && (passes_accept || !is(&"accept"))
    });
    let method = request.head.method_name.of(request.bytes);
    write(request, (method, request.head.path_and_query(request.bytes)), fields, body_size)
}

/// A request of a batch, with its fields and those of the client that it does not have.
pub(crate) fn batch_request(
    request: &RequestHead<'_>,
    item: &BatchItem,
    passed: PassedFields<'_>,
) -> Option<PartRequest> {
    let of_item = || item.fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let is_own = |name: &[u8]| of_item().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let of_client = request.fields().filter(|(name, _)| passed.has(name) && !is_own(name));
    let has_body = !item.body.is_empty() || matches!(&*item.method, "POST" | "PUT" | "PATCH");
    let line = (item.method.as_bytes(), item.path.as_bytes());
    write(request, line, of_client.chain(of_item()), has_body.then_some(item.body.len()))
}

fn write<'a>(
    request: &RequestHead<'_>,
    (method, target): (&[u8], &[u8]),
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    body_size: Option<usize>,
) -> Option<PartRequest> {
    let version: &[u8] = match request.head.version {
        Version::Http11 => b" HTTP/1.1\r\n",
        Version::Http10 => b" HTTP/1.0\r\n",
    };
    let mut bytes = [method, b" ", target, version].concat();
    for (name, value) in fields {
        bytes.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
    }
    if let Some(size) = body_size {
        bytes.extend_from_slice(format!("Content-Length: {size}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    let head = HeadReader::default().read(&bytes, &Limits::DEFAULT).ok()??;
    Some((head, bytes))
}
