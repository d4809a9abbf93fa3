//! How one part ended.

/// The end of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartResult {
    /// A whole response, of any status.
    Response(PartResponse),
    /// None.
    Error(PartError),
}

/// A part's response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartResponse {
    /// The status code.
    pub status: u16,
    /// The fields that the answer shows, with names in lower case.
    pub fields: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no response: an error type of RFC 9209 section 2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartError(&'static str);

impl PartError {
    /// No connection in time.
    pub const CONNECTION_TIMEOUT: Self = Self("connection_timeout");
    /// This process lacks memory, descriptors or ports.
    pub const SHORTAGE: Self = Self("proxy_internal_error");
    /// The response did not come in time.
    pub const RESPONSE_TIMEOUT: Self = Self("http_response_timeout");
    /// The response ended before its end.
    pub const RESPONSE_INCOMPLETE: Self = Self("http_response_incomplete");
    /// The response's body is larger than the part may be.
    pub const RESPONSE_BODY_SIZE: Self = Self("http_response_body_size");
    /// The response is no HTTP.
    pub const PROTOCOL_ERROR: Self = Self("http_protocol_error");

    /// The error of a part whose exchange has ended with this one: the same, if it is of use to the
    /// client.
    pub fn of(error_type: &'static str) -> Self {
        match error_type {
            "destination_unavailable"
            | "connection_refused"
            | "connection_timeout"
            | "connection_terminated"
            | "connection_limit_reached"
            | "proxy_internal_error"
            | "http_response_timeout"
            | "http_response_incomplete" => Self(error_type),
            "connection_read_timeout" => Self::RESPONSE_TIMEOUT,
            _ => Self::PROTOCOL_ERROR,
        }
    }

    /// The registered name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl PartResult {
    /// Whether the part counts for the quorum: a response below 500. A 404 is an answer, too.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Response(response) if response.status < 500)
    }
}
