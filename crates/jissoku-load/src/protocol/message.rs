//! WebSocket messages as a client sends them: one masked frame each (RFC 6455 section 5).

use crate::protocol::request_template::{KEY_SIZE, RequestTemplate, remask};

pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// Set in the first byte of a message's last frame.
pub(crate) const FIN: u8 = 0x80;

/// In the second byte, in place of a size: it follows in two bytes.
const TWO_BYTES: u8 = 0x7e;

/// In the second byte, in place of a size: it follows in eight bytes.
const EIGHT_BYTES: u8 = 0x7f;

/// Set in the second byte of a masked frame.
pub(crate) const MASKED: u8 = 0x80;

/// The largest payload of a control frame.
pub(crate) const CONTROL_SIZE_MAX: usize = 125;

/// The payload of a close frame that states a normal end.
const NORMAL_END: [u8; 2] = 1000_u16.to_be_bytes();

/// What a WebSocket message contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    /// UTF-8.
    Text,
    /// Bytes.
    Binary,
}

impl MessageType {
    pub(crate) const fn opcode(self) -> u8 {
        match self {
            Self::Text => TEXT,
            Self::Binary => BINARY,
        }
    }

    /// A frame with this payload that is masked anew for each sending.
    pub(crate) fn template(self, payload: &[u8]) -> RequestTemplate {
        let mut template = RequestTemplate::literal(&header(self.opcode(), payload.len()));
        template.append_masked(payload);
        template
    }
}

/// A pong that answers a ping with this payload, masked with `key`.
pub(crate) fn pong(payload: &[u8], key: u64) -> Vec<u8> {
    masked_frame(PONG, payload, key)
}

/// A close frame, masked with `key`.
pub(crate) fn close(key: u64) -> Vec<u8> {
    masked_frame(CLOSE, &NORMAL_END, key)
}

fn masked_frame(opcode: u8, payload: &[u8], key: u64) -> Vec<u8> {
    let mut frame = header(opcode, payload.len());
    let start = frame.len();
    frame.extend_from_slice(&[0; KEY_SIZE]);
    frame.extend_from_slice(payload);
    remask(&mut frame[start..], key);
    frame
}

/// The header of a masked frame, without the key.
fn header(opcode: u8, size: usize) -> Vec<u8> {
    let mut header = vec![FIN | opcode];
    match (u8::try_from(size), u16::try_from(size)) {
        (Ok(size @ ..=125), _) => header.push(MASKED | size),
        (_, Ok(size)) => {
            header.push(MASKED | TWO_BYTES);
            header.extend_from_slice(&size.to_be_bytes());
        }
        _ => {
            header.push(MASKED | EIGHT_BYTES);
            header.extend_from_slice(&(size as u64).to_be_bytes());
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payload of a masked frame whose header, without the key, has `size` bytes.
    fn unmask(frame: &[u8], size: usize) -> Vec<u8> {
        let (key, payload) = frame[size..].split_at(KEY_SIZE);
        payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect()
    }

    #[test]
    fn each_sending_has_another_key_and_the_same_payload() {
        let mut template = MessageType::Text.template(b"Hello, echo");
        let mut seen = Vec::new();
        for random in [0x0102_0304_u64, 0xa0b0_c0d0, 7] {
            let all = 0..template.bytes().len();
            template.fill(&all, |_| random);
            assert_eq!(template.bytes()[..2], [0x81, 0x8b]);
            assert_eq!(unmask(template.bytes(), 2), b"Hello, echo");
            let key = template.bytes()[2..2 + KEY_SIZE].to_vec();
            assert!(!seen.contains(&key), "{key:?}");
            seen.push(key);
        }
    }

    #[test]
    fn a_length_takes_as_few_bytes_as_possible() {
        for (size, header) in [
            (0, &[0x82, 0x80][..]),
            (125, &[0x82, 0xfd]),
            (126, &[0x82, 0xfe, 0, 126]),
            (65535, &[0x82, 0xfe, 0xff, 0xff]),
            (65536, &[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let template = MessageType::Binary.template(&vec![b'x'; size]);
            assert!(template.bytes().starts_with(header), "{size}");
            assert_eq!(template.bytes().len(), header.len() + KEY_SIZE + size);
        }
    }

    #[test]
    fn control_frames_are_masked() {
        let frame = pong(b"12345", 0x1122_3344_5566_7788);
        assert_eq!(frame[..2], [0x8a, 0x85]);
        assert_ne!(frame[2..6], [0; 4]);
        assert_eq!(unmask(&frame, 2), b"12345");
        let frame = close(0x1122_3344_5566_7788);
        assert_eq!((frame[0], unmask(&frame, 2)), (FIN | CLOSE, NORMAL_END.to_vec()));
    }
}
