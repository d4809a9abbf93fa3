//! The head of a forwarded response.

use super::lines::{self, ConnectionOptions, FieldNames};
use crate::connection_fields::ConnectionField;
use crate::head::Version;
use crate::response_reader::{ResponseBody, ResponseHead};

/// How the body of a forwarded response is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFraming {
    /// As the upstream server delimits it, by its length; or no body.
    AsReceived,
    /// In the chunked transfer coding.
    Chunked,
    /// The same, with the trailers of the server.
    ChunkedWithTrailers,
    /// By the end of the connection.
    UntilClose,
    /// The connection is one of WebSocket from here on.
    Upgraded,
}

/// Fields that must not be trailers (RFC 9110 section 6.5.1), besides those of a connection and those
/// that begin with `content-` or `proxy-`: for framing, routing, authentication, control and modifiers.
const NOT_IN_TRAILERS: [&[u8]; 22] = [
    b"age",
    b"authorization",
    b"cache-control",
    b"cookie",
    b"date",
    b"expect",
    b"expires",
    b"forwarded",
    b"host",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"if-unmodified-since",
    b"location",
    b"max-forwards",
    b"range",
    b"retry-after",
    b"set-cookie",
    b"vary",
    b"via",
    b"www-authenticate",
];

impl ClientFraming {
    /// The framing for a client of `version` (RFC 9112 section 6.1).
    pub const fn new(body: ResponseBody, version: Version, takes_trailers: bool) -> Self {
        match (body, version) {
            (ResponseBody::Chunked, Version::Http11) if takes_trailers => Self::ChunkedWithTrailers,
            (ResponseBody::Empty | ResponseBody::Length(_), _) => Self::AsReceived,
            (ResponseBody::Chunked | ResponseBody::UntilClose, Version::Http11) => Self::Chunked,
            (ResponseBody::Chunked | ResponseBody::UntilClose, Version::Http10) => Self::UntilClose,
        }
    }
}

/// Appends the forwarded form of `head`, which was parsed from `bytes`, to `output`, without the fields
/// that are `removed`, none of which frames the message. Returns the
/// size of the status line, behind which the caller can insert Date and Connection.
pub fn write_response_head(
    head: &ResponseHead,
    bytes: &[u8],
    framing: ClientFraming,
    removed: Option<&FieldNames>,
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
        Ok::<bool, std::convert::Infallible>(match ConnectionField::of(name) {
            Some(ConnectionField::Trailer) => framing == ClientFraming::ChunkedWithTrailers,
            Some(
                ConnectionField::Connection
                | ConnectionField::KeepAlive
                | ConnectionField::ProxyAuthenticate
                | ConnectionField::ProxyConnection
                | ConnectionField::TransferEncoding
                | ConnectionField::Upgrade,
            ) => false,
            _ if name.eq_ignore_ascii_case(b"content-length") => !drops_length,
            _ => !options.has(name) && !removed.is_some_and(|names| names.has(name)),
        })
    });
    match copied {
        Ok(()) => {}
        Err(never) => match never {},
    }
    match framing {
        ClientFraming::Chunked | ClientFraming::ChunkedWithTrailers => {
            lines::write(b"Transfer-Encoding", b"chunked", output);
        }
        ClientFraming::Upgraded => {
            output.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\n");
        }
        ClientFraming::AsReceived | ClientFraming::UntilClose => {}
    }
    output.extend_from_slice(b"\r\n");
    size
}

/// Appends the last chunk and those of `lines`, valid trailers, that may be forwarded and are not
/// `removed`.
pub fn write_trailers(lines: &[u8], removed: Option<&FieldNames>, output: &mut Vec<u8>) {
    output.extend_from_slice(b"0\r\n");
    let copied = lines::copy(lines, output, |name, _| {
        let name = name.to_ascii_lowercase();
        let is_kept = !name.starts_with(b"content-")
            && !name.starts_with(b"proxy-")
            && !name.contains(&b'_')
            && ConnectionField::of(&name).is_none()
            && !NOT_IN_TRAILERS.contains(&name.as_slice())
            && !removed.is_some_and(|names| names.has(&name));
        Ok::<bool, std::convert::Infallible>(is_kept)
    });
    match copied {
        Ok(()) => {}
        Err(never) => match never {},
    }
    output.extend_from_slice(b"\r\n");
}
