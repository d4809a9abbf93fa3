//! The head of a forwarded response.

use super::connection_options::ConnectionOptions;
use super::lines;
use crate::head::Version;
use crate::response_reader::{ResponseBody, ResponseHead};

/// How the body of a forwarded response is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFraming {
    /// As the upstream server delimits it, by its length; or no body.
    AsReceived,
    /// In the chunked transfer coding.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

impl ClientFraming {
    /// The framing for a client of `version` (RFC 9112 section 6.1).
    #[must_use]
    pub const fn new(body: ResponseBody, version: Version) -> Self {
        match (body, version) {
            (ResponseBody::Empty | ResponseBody::Length(_), _) => Self::AsReceived,
            (ResponseBody::Chunked | ResponseBody::UntilClose, Version::Http11) => Self::Chunked,
            (ResponseBody::Chunked | ResponseBody::UntilClose, Version::Http10) => Self::UntilClose,
        }
    }
}

/// Appends the forwarded form of `head`, which was parsed from `bytes`, to `output`. Returns the
/// size of the status line, behind which the caller can insert Date and Connection.
pub fn write_response_head(
    head: &ResponseHead,
    bytes: &[u8],
    framing: ClientFraming,
    output: &mut Vec<u8>,
) -> usize {
    let start = output.len();
    let [hundreds, tens, ones] = [head.status / 100, head.status / 10 % 10, head.status % 10];
    output.extend_from_slice(b"HTTP/1.1 ");
    for digit in [hundreds, tens, ones] {
        output.push(b'0' + u8::try_from(digit).unwrap_or(0));
    }
    output.push(b' ');
    output.extend_from_slice(head.reason.of(bytes));
    output.extend_from_slice(b"\r\n");
    let size = output.len() - start;
    let options = ConnectionOptions::new(head.fields(bytes), head.has_connection);
    // 1xx and 204 must not have a Content-Length (RFC 9110 section 8.6).
    let drops_length = head.status < 200 || head.status == 204;
    let copied = lines::copy(head.fields.of(bytes), output, |name, _| {
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        Ok::<bool, std::convert::Infallible>(match name.len() {
            7 if is(b"trailer") || is(b"upgrade") => false,
            10 if is(b"connection") || is(b"keep-alive") => false,
            14 if is(b"content-length") => !drops_length,
            16 if is(b"proxy-connection") => false,
            17 if is(b"transfer-encoding") => false,
            18 if is(b"proxy-authenticate") => false,
            _ => !options.has(name),
        })
    });
    match copied {
        Ok(()) => {}
        Err(never) => match never {},
    }
    if framing == ClientFraming::Chunked {
        lines::write(b"Transfer-Encoding", b"chunked", output);
    }
    output.extend_from_slice(b"\r\n");
    size
}
