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

/// Why there is no response, by its error type of RFC 9209 section 2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartError {
    /// No server of the upstream is available.
    DestinationUnavailable,
    /// A server refused the connection.
    ConnectionRefused,
    /// No connection in time.
    ConnectionTimeout,
    /// The connection ended before the response.
    ConnectionTerminated,
    /// All servers and the queue are full.
    ConnectionLimitReached,
    /// This process lacks memory, descriptors or ports.
    Shortage,
    /// The response did not come in time.
    ResponseTimeout,
    /// The response ended before its end.
    ResponseIncomplete,
    /// The response's body is larger than the part may be.
    ResponseBodySize,
    /// The response is no HTTP.
    ProtocolError,
}

impl PartError {
    /// The registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DestinationUnavailable => "destination_unavailable",
            Self::ConnectionRefused => "connection_refused",
            Self::ConnectionTimeout => "connection_timeout",
            Self::ConnectionTerminated => "connection_terminated",
            Self::ConnectionLimitReached => "connection_limit_reached",
            Self::Shortage => "proxy_internal_error",
            Self::ResponseTimeout => "http_response_timeout",
            Self::ResponseIncomplete => "http_response_incomplete",
            Self::ResponseBodySize => "http_response_body_size",
            Self::ProtocolError => "http_protocol_error",
        }
    }

    /// The status of a forwarded request that fails like this.
    pub const fn status(self) -> u16 {
        match self {
            Self::DestinationUnavailable | Self::ConnectionLimitReached | Self::Shortage => 503,
            Self::ConnectionTimeout | Self::ResponseTimeout => 504,
            Self::ConnectionRefused
            | Self::ConnectionTerminated
            | Self::ResponseIncomplete
            | Self::ResponseBodySize
            | Self::ProtocolError => 502,
        }
    }
}

impl PartResult {
    /// Whether the part counts for the quorum: a response below 500. A 404 is an answer, too.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Response(response) if response.status < 500)
    }
}
