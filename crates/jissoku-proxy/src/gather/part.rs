//! The request of a part of a gathered response.

use jissoku_http::head::HeadReader;
use jissoku_http::{Head, Limits, Version};
use jissoku_server::RequestHead;

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

/// Which fields of the client parts receive: arguments with names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedFields<'a> {
    /// The names that the route lists, if it does.
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
    let version: &[u8] = match request.head.version {
        Version::Http11 => b" HTTP/1.1\r\n",
        Version::Http10 => b" HTTP/1.0\r\n",
    };
    let mut bytes = [b"GET ", target, version].concat();
    for (name, value) in request.fields().filter(|(name, _)| passed.has(name)) {
        bytes.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    let head = HeadReader::default().read(&bytes, &Limits::DEFAULT).ok()??;
    Some((head, bytes))
}
