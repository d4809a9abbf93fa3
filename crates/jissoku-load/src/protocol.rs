//! The bytes of requests, responses and WebSocket messages. Shares no code with the server.

pub(crate) mod chunked;
pub(crate) mod date;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub(crate) mod mask;
pub(crate) mod message;
pub(crate) mod message_reader;
pub(crate) mod opening_handshake;
pub(crate) mod progress;
pub(crate) mod reader;
pub(crate) mod request;
pub(crate) mod request_sequence;
pub(crate) mod request_template;
pub(crate) mod response_matcher;
pub(crate) mod response_reader;
#[cfg(test)]
pub(crate) mod test_wires;
pub(crate) mod tls_session;
pub(crate) mod upgrade;
pub(crate) mod websocket;
