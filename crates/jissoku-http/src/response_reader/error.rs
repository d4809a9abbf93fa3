//! Why the response of an upstream server cannot be forwarded.

use crate::reject::Reject;

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
    #[must_use]
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
