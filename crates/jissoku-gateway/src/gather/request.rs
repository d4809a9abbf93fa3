//! The request of a part.

use jissoku_http::head::HeadReader;
use jissoku_http::{Head, Limits, Version};
use jissoku_server::RequestHead;

/// The fields of the client that every part receives, besides Accept. Via makes loops visible.
const PASSED: [&str; 7] =
    ["host", "via", "accept-language", "authorization", "cookie", "traceparent", "x-request-id"];

/// The head of a part's request, before it is edited as every other that is forwarded.
pub(crate) type PartRequest = (Head, Vec<u8>);

/// A GET for `target` with some fields of the client's request. `None` if it would be too large.
pub(crate) fn part_request(
    request: &RequestHead<'_>,
    target: &[u8],
    passes_accept: bool,
) -> Option<PartRequest> {
    let version: &[u8] = match request.head.version {
        Version::Http11 => b" HTTP/1.1\r\n",
        Version::Http10 => b" HTTP/1.0\r\n",
    };
    let mut bytes = [b"GET ", target, version].concat();
    for (name, value) in request.fields() {
        let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
        if PASSED.iter().any(is) || (passes_accept && is(&"accept")) {
            bytes.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        }
    }
    bytes.extend_from_slice(b"\r\n");
    let head = HeadReader::default().read(&bytes, &Limits::DEFAULT).ok()??;
    Some((head, bytes))
}
