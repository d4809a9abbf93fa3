//! The results of reading responses.

use crate::engine::error::RequestError;

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseInfo {
    /// Zero for a WebSocket message, which has none.
    pub(crate) status: u16,
    /// Why it is not the expected one.
    pub(crate) error: Option<RequestError>,
    /// Whether the connection stays open.
    pub(crate) keeps_alive: bool,
}

/// The result of reading some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All bytes were used; the response is incomplete.
    Incomplete,
    /// A response ended after this many bytes.
    Complete(ResponseInfo, usize),
    /// A WebSocket control frame ended after this many bytes.
    Control(ControlFrame, usize),
    /// The bytes are not a valid response.
    Invalid,
}

/// A control frame of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlFrame {
    /// It must be answered with a pong that has the same payload.
    Ping,
    /// The answer to a ping, or a sign of life.
    Pong,
    /// The server sends nothing after this.
    Close,
}
