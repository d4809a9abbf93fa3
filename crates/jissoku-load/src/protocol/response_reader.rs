//! Reads the responses of a connection: HTTP responses, or WebSocket messages.

use crate::engine::error::RequestError;
use crate::plan::expect::Expected;
use crate::protocol::message::MessageType;
use crate::protocol::message_reader::MessageReader;
use crate::protocol::reader::{Progress, Reader, RequestContext, ResponseInfo};

/// How the responses to a request are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// An HTTP response.
    Http,
    /// An HTTP response to HEAD: it has no body, whatever it announces.
    Head,
    /// A WebSocket message.
    Message(MessageType),
}

impl ResponseFraming {
    /// The framing of HTTP responses to a method.
    pub fn of_method(method: &str) -> Self {
        if method == "HEAD" { Self::Head } else { Self::Http }
    }
}

/// What of the request determines the meaning of the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseContext<'a> {
    pub(crate) framing: ResponseFraming,
    pub(crate) expected: &'a Expected,
}

impl<'a> ResponseContext<'a> {
    fn of_http(self) -> RequestContext<'a> {
        let head_only = self.framing == ResponseFraming::Head;
        RequestContext { head_only, expected: self.expected }
    }
}

/// Reads the responses of a connection.
#[derive(Debug)]
pub(crate) enum ResponseReader {
    Http(Reader),
    Messages(MessageReader),
}

impl ResponseReader {
    pub(crate) fn new(framing: ResponseFraming) -> Self {
        match framing {
            ResponseFraming::Http | ResponseFraming::Head => Self::Http(Reader::default()),
            ResponseFraming::Message(_) => Self::Messages(MessageReader::default()),
        }
    }

    /// Whether it reads responses with this framing.
    pub(crate) fn reads(&self, framing: ResponseFraming) -> bool {
        matches!(self, Self::Messages(_)) == matches!(framing, ResponseFraming::Message(_))
    }

    /// Reads the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8], context: ResponseContext<'_>) -> Progress {
        match (self, context.framing) {
            (Self::Http(reader), _) => reader.feed(bytes, context.of_http()),
            (Self::Messages(reader), ResponseFraming::Message(message_type)) => {
                reader.feed(bytes, message_type, context.expected)
            }
            (Self::Messages(_), ResponseFraming::Http | ResponseFraming::Head) => Progress::Invalid,
        }
    }

    /// The connection has ended: returns the response that this completes, or the error.
    pub(crate) fn end(
        &mut self,
        context: ResponseContext<'_>,
    ) -> Result<ResponseInfo, RequestError> {
        match self {
            Self::Http(reader) => reader.end(context.of_http()),
            Self::Messages(reader) => Err(reader.end()),
        }
    }

    /// Whether no bytes of the next response have been read.
    pub(crate) fn is_fresh(&self) -> bool {
        match self {
            Self::Http(reader) => reader.is_fresh(),
            Self::Messages(reader) => reader.is_fresh(),
        }
    }

    /// What is wrong with the last response.
    pub(crate) fn describe(&self, response: ResponseInfo, expected: &Expected) -> Option<String> {
        match self {
            Self::Http(reader) => reader.describe(response, expected),
            Self::Messages(_) => None,
        }
    }

    /// Whether the next byte belongs to a control frame, which needs no request.
    pub(crate) fn is_in_control_frame(&self, next: u8) -> bool {
        match self {
            Self::Http(_) => false,
            Self::Messages(reader) => reader.is_in_control_frame(next),
        }
    }

    /// The payload of the last control frame.
    pub(crate) fn control_payload(&self) -> &[u8] {
        match self {
            Self::Http(_) => &[],
            Self::Messages(reader) => reader.control_payload(),
        }
    }
}
