//! Reasons for rejecting a request, and their status codes.

/// Why a request is rejected. The connection is closed after the response, because the start of the
/// next request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// The method is not a token (RFC 9110 section 9.1).
    MethodInvalid,
    /// CONNECT and TRACE are not supported (RFC 9110 sections 9.3.6 and 9.3.8).
    MethodUnsupported,
    /// The request target has none of the four forms of RFC 9112 section 3.2.
    TargetInvalid,
    /// The request line has no version, as in HTTP/0.9.
    VersionMissing,
    /// The version is not `HTTP/x.y` (RFC 9112 section 2.3).
    VersionInvalid,
    /// The major version is not 1.
    VersionUnsupported,
    /// The request line is longer than the limit.
    RequestLineTooLong,
    /// A line ends with LF alone, which proxies interpret differently.
    BareLf,
    /// A CR without its LF (RFC 9112 section 2.2).
    BareCr,
    /// A control byte, NUL among them, in a header value (RFC 9110 section 5.5).
    ControlByte,
    /// Obsolete line folding (RFC 9112 section 5.2).
    ObsoleteFold,
    /// A field name that is not a token.
    FieldNameInvalid,
    /// Whitespace between a field name and its colon (RFC 9112 section 5.1).
    SpaceBeforeColon,
    /// A header field is longer than the limit.
    FieldTooLong,
    /// The header fields together are longer than the limit.
    FieldsTooLong,
    /// There are more header fields than the limit.
    FieldsTooMany,
    /// HTTP/1.1 without a Host (RFC 9112 section 3.2).
    HostMissing,
    /// More than one Host.
    HostDuplicate,
    /// A Host that is not `host[:port]`, or is empty beside a target in origin form.
    HostInvalid,
    /// A Content-Length that is not 1*DIGIT, or beyond 2^63 - 1.
    ContentLengthInvalid,
    /// More than one Content-Length, equal or not.
    ContentLengthDuplicate,
    /// An HTTP/1.0 request that needs a Content-Length and has none (RFC 1945 section 8.3).
    ContentLengthMissing,
    /// Content-Length and Transfer-Encoding together (RFC 9112 section 6.1).
    FramingConflict,
    /// A Transfer-Encoding that does not end in exactly one `chunked` (RFC 9112 section 6.3).
    TransferEncodingInvalid,
    /// A Transfer-Encoding with unknown codings before the final `chunked`.
    TransferEncodingUnknown,
    /// A Transfer-Encoding in HTTP/1.0 (RFC 9112 section 6.1).
    TransferEncodingEarly,
    /// An expectation other than `100-continue` (RFC 9110 section 10.1.1).
    ExpectationUnknown,
    /// The body is longer than the limit.
    BodyTooLong,
    /// A chunk size that is not 1*16 HEXDIG.
    ChunkSizeInvalid,
    /// A chunk extension outside the grammar of RFC 9112 section 7.1.1.
    ChunkExtensionInvalid,
    /// More chunk extensions than the limit.
    ChunkExtensionsTooLong,
    /// Chunk data not followed by CRLF.
    ChunkUnterminated,
    /// A packet of the uwsgi protocol with wrong lengths, another modifier, or without a method.
    PacketInvalid,
    /// A packet of the uwsgi protocol that is longer than the limits of a request head.
    PacketTooLong,
    /// The peer may not send what the protocol of its listener says about clients. Detected by the
    /// caller.
    PeerUntrusted,
    /// A connection without a valid header of the PROXY protocol, where each must have one.
    ProxyHeaderInvalid,
    /// A plaintext request on a TLS port. Detected by the caller.
    TlsMissing,
    /// The client was too slow. Detected by the caller.
    Timeout,
}

impl Reject {
    /// The status code of the response.
    pub const fn status(self) -> u16 {
        match self {
            Self::Timeout => 408,
            Self::PeerUntrusted => 403,
            Self::ContentLengthMissing => 411,
            Self::BodyTooLong => 413,
            Self::RequestLineTooLong => 414,
            Self::ExpectationUnknown => 417,
            Self::FieldTooLong
            | Self::FieldsTooLong
            | Self::FieldsTooMany
            | Self::PacketTooLong => 431,
            Self::MethodUnsupported | Self::TransferEncodingUnknown => 501,
            Self::VersionUnsupported => 505,
            Self::MethodInvalid
            | Self::TargetInvalid
            | Self::VersionMissing
            | Self::VersionInvalid
            | Self::BareLf
            | Self::BareCr
            | Self::ControlByte
            | Self::ObsoleteFold
            | Self::FieldNameInvalid
            | Self::SpaceBeforeColon
            | Self::HostMissing
            | Self::HostDuplicate
            | Self::HostInvalid
            | Self::ContentLengthInvalid
            | Self::ContentLengthDuplicate
            | Self::FramingConflict
            | Self::TransferEncodingInvalid
            | Self::TransferEncodingEarly
            | Self::ChunkSizeInvalid
            | Self::ChunkExtensionInvalid
            | Self::ChunkExtensionsTooLong
            | Self::ChunkUnterminated
            | Self::PacketInvalid
            | Self::ProxyHeaderInvalid
            | Self::TlsMissing => 400,
        }
    }
}

/// An error in the response of an upstream server. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadResponse {
    /// The status line is not that of HTTP/1.0 or HTTP/1.1 (RFC 9112 section 4).
    StatusLine,
    /// A status that is not from 100 to 599 (RFC 9110 section 15).
    Status,
    /// A header field that would be rejected in a request, too; or framing that is ambiguous.
    Field(Reject),
    /// More than 16 interim responses, or 32 KiB of them.
    InterimTooMany,
    /// An error in the chunked coding of the body.
    Chunk(Reject),
    /// The connection was closed before the end of the response.
    Incomplete,
}

impl BadResponse {
    /// The error type of RFC 9209 section 2.3.
    pub const fn error_type(self) -> &'static str {
        match self {
            Self::Field(Reject::FieldTooLong) => "http_response_header_size",
            Self::Field(Reject::FieldsTooLong | Reject::FieldsTooMany) => {
                "http_response_header_section_size"
            }
            Self::Chunk(_) => "http_response_transfer_coding",
            Self::Incomplete => "http_response_incomplete",
            Self::StatusLine | Self::Status | Self::Field(_) | Self::InterimTooMany => {
                "http_protocol_error"
            }
        }
    }
}
