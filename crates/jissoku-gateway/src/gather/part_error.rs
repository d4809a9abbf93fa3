//! Why a part has no response.

use jissoku_upstream::fan_out::PartError;

/// The error of a part, by the error type of its exchange (RFC 9209 section 2.3).
pub(crate) fn error_of(error_type: &str) -> PartError {
    match error_type {
        "destination_unavailable" => PartError::DestinationUnavailable,
        "connection_refused" => PartError::ConnectionRefused,
        "connection_timeout" => PartError::ConnectionTimeout,
        "connection_terminated" => PartError::ConnectionTerminated,
        "connection_limit_reached" => PartError::ConnectionLimitReached,
        "proxy_internal_error" => PartError::Shortage,
        "http_response_timeout" | "connection_read_timeout" => PartError::ResponseTimeout,
        "http_response_incomplete" => PartError::ResponseIncomplete,
        _ => PartError::ProtocolError,
    }
}
