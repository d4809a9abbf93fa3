//! Entry points for fuzzing WebSocket messages: those of a server are read, those of a client are
//! masked.

use crate::engine::error::RequestError;
use crate::plan::expect::{Expected, Verify};
use crate::protocol::message::MessageType;
use crate::protocol::message_reader::MessageReader;
use crate::protocol::reader::{ControlFrame, Progress};

/// What was read of a connection's bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ParsedMessages {
    /// Messages and control frames in their order.
    pub events: Vec<MessageEvent>,
    /// Whether the bytes are invalid from some point on.
    pub is_broken: bool,
    /// The error of the end of the connection, if a message or a control frame was incomplete.
    pub end: Option<RequestError>,
}

/// A message or a control frame.
#[derive(Debug, PartialEq, Eq)]
pub enum MessageEvent {
    /// A message, and its error, if any.
    Message(Option<RequestError>),
    /// The payload of a ping.
    Ping(Vec<u8>),
    /// The payload of a pong.
    Pong(Vec<u8>),
    /// The payload of a close frame.
    Close(Vec<u8>),
}

/// Reads messages from bytes that arrive in pieces of `step`; each should be `Hello`.
///
/// # Panics
/// The reader contradicts itself about what it has read.
pub fn read(bytes: &[u8], step: usize, message_type: MessageType) -> ParsedMessages {
    let expected = Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec()));
    let (mut reader, mut parsed) = (MessageReader::default(), ParsedMessages::default());
    for piece in bytes.chunks(step.max(1)) {
        let mut rest = piece;
        while let Some(&next) = rest.first() {
            let is_control = reader.is_in_control_frame(next);
            let used = match reader.feed(rest, message_type, &expected) {
                Progress::Incomplete => {
                    assert!(!reader.is_fresh(), "{rest:?} are not part of anything");
                    break;
                }
                Progress::Invalid => return ParsedMessages { is_broken: true, ..parsed },
                Progress::Complete(message, used) => {
                    assert!(reader.is_fresh() && !is_control);
                    parsed.events.push(MessageEvent::Message(message.error));
                    used
                }
                Progress::Control(frame, used) => {
                    let payload = reader.control_payload().to_vec();
                    parsed.events.push(match frame {
                        ControlFrame::Ping => MessageEvent::Ping(payload),
                        ControlFrame::Pong => MessageEvent::Pong(payload),
                        ControlFrame::Close => MessageEvent::Close(payload),
                    });
                    used
                }
            };
            assert!(used > 0, "something is read with each event");
            rest = &rest[used..];
        }
    }
    parsed.end = (!reader.is_fresh()).then(|| reader.end());
    parsed
}

/// The frame of a message with this payload, as the last of several sendings, each with a new key
/// from the next of these numbers.
pub fn masked(message_type: MessageType, payload: &[u8], numbers: &[u64]) -> Vec<u8> {
    let mut template = message_type.template(payload);
    let all = 0..template.bytes().len();
    for &number in numbers {
        template.fill(&all, |_| number);
    }
    template.bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_no_difference() {
        let wire = b"\x01\x02He\x89\x01a\x80\x03llo\x82\x05Hello\x8a\x00\x88\x02\x03\xe8\x81\x05H";
        let whole = read(wire, wire.len(), MessageType::Text);
        let expected = [
            MessageEvent::Ping(b"a".to_vec()),
            MessageEvent::Message(None),
            MessageEvent::Message(Some(RequestError::Body)),
            MessageEvent::Pong(Vec::new()),
            MessageEvent::Close(b"\x03\xe8".to_vec()),
        ];
        assert_eq!(whole.events, expected);
        assert_eq!((whole.is_broken, whole.end), (false, Some(RequestError::Length)));
        for step in 1..wire.len() {
            assert_eq!(read(wire, step, MessageType::Text), whole, "{step}");
        }
    }

    #[test]
    fn each_number_changes_the_key() {
        let numbers = [0x0102_0304_0506_0708_u64, 0x0101_0101_0101_0101];
        let frame = masked(MessageType::Binary, b"\0\0\0\0\0", &numbers);
        let key = &(numbers[0] ^ numbers[1]).to_ne_bytes()[..4];
        assert_eq!(frame, [&[0x82, 0x85][..], key, key, &key[..1]].concat());
    }
}
