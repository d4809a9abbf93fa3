use proptest::prelude::*;

use super::*;
use crate::plan::expect::Verify;
use crate::protocol::test_wires::{damaged, split};

/// What was read of a connection's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    messages: Vec<Option<RequestError>>,
    /// Control frames with their payloads.
    control: Vec<(ControlFrame, Vec<u8>)>,
    is_broken: bool,
    /// The error of the connection's end, if a message is incomplete.
    end: Option<RequestError>,
}

fn read(parts: &[&[u8]]) -> Seen {
    let expected = Expected::new(Verify::All, Vec::new(), Some(b"Hello".to_vec()));
    let (mut reader, mut seen) = (MessageReader::default(), Seen::default());
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            let used = match reader.feed(rest, MessageType::Text, &expected) {
                Progress::Incomplete => break,
                Progress::Invalid => return Seen { is_broken: true, ..seen },
                Progress::Complete(message, used) => {
                    assert!(message.keeps_alive && message.status == 0 && reader.is_fresh());
                    seen.messages.push(message.error);
                    used
                }
                Progress::Control(frame, used) => {
                    seen.control.push((frame, reader.control_payload().to_vec()));
                    used
                }
            };
            rest = &rest[used..];
        }
    }
    seen.end = (!reader.is_fresh()).then(|| reader.end());
    seen
}

fn messages(wire: &[u8]) -> Vec<Option<RequestError>> {
    let seen = read(&[wire]);
    assert_eq!((seen.is_broken, seen.end), (false, None), "{wire:?}");
    seen.messages
}

const HELLO: &[u8] = b"\x81\x05Hello";

#[test]
fn a_message_is_verified() {
    assert_eq!(messages(HELLO), [None]);
    assert_eq!(messages(&HELLO.repeat(3)), [None; 3]);
    assert_eq!(messages(b"\x81\x05HellO"), [Some(RequestError::Body)]);
    assert_eq!(messages(b"\x81\x04Hell"), [Some(RequestError::Length)]);
    assert_eq!(messages(b"\x81\x06Hello!"), [Some(RequestError::Length)]);
    assert_eq!(messages(b"\x81\x00"), [Some(RequestError::Length)]);
    assert_eq!(messages(b"\x82\x05Hello"), [Some(RequestError::Body)], "it is binary");
}

#[test]
fn fragments_are_joined() {
    assert_eq!(messages(b"\x01\x02He\x80\x03llo"), [None]);
    assert_eq!(messages(b"\x01\x00\x00\x05Hello\x80\x00"), [None]);
    assert_eq!(messages(b"\x02\x02He\x80\x03llo"), [Some(RequestError::Body)], "it is binary");
}

#[test]
fn control_frames_may_be_anywhere_between_frames() {
    let seen = read(&[b"\x89\x01a\x01\x02He\x89\x01b\x8a\x00\x80\x03llo\x88\x02\x03\xe8"]);
    let control = [
        (ControlFrame::Ping, &b"a"[..]),
        (ControlFrame::Ping, b"b"),
        (ControlFrame::Pong, b""),
        (ControlFrame::Close, b"\x03\xe8"),
    ];
    assert_eq!(seen.control, control.map(|(frame, payload)| (frame, payload.to_vec())));
    assert_eq!((seen.messages, seen.end), (vec![None], None));
}

#[test]
fn an_end_within_a_message_is_an_error() {
    for (wire, error) in [
        (&b"\x81\x05Hell"[..], RequestError::Length),
        (b"\x01\x02He", RequestError::Length),
        (b"\x81", RequestError::Closed),
        (b"\x89\x02a", RequestError::Closed),
    ] {
        assert_eq!(read(&[wire]).end, Some(error), "{wire:?}");
    }
}

#[test]
fn lengths_are_read_in_all_three_sizes() {
    for (size, header) in [
        (125_usize, &b"\x82\x7d"[..]),
        (126, b"\x82\x7e\x00\x7e"),
        (0xffff, b"\x82\x7e\xff\xff"),
        (0x10000, b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
    ] {
        let payload = vec![b'x'; size];
        let expected = Expected::new(Verify::All, Vec::new(), Some(payload.clone()));
        let wire = [header, &payload].concat();
        let progress = MessageReader::default().feed(&wire, MessageType::Binary, &expected);
        let info = ResponseInfo { status: 0, error: None, keeps_alive: true };
        assert_eq!(progress, Progress::Complete(info, wire.len()), "{size}");
    }
}

#[test]
fn malformed_frames_are_rejected() {
    for (wire, why) in [
        (&b"\x81\x85\x00\x00\x00\x00Hello"[..], "masked"),
        (b"\xc1\x05Hello", "a reserved bit"),
        (b"\x83\x00", "an unknown opcode"),
        (b"\x8b\x00", "an unknown control opcode"),
        (b"\x09\x00", "a fragmented ping"),
        (b"\x89\x7e\x00\x7e", "a long ping"),
        (b"\x88\x01\x03", "half a close code"),
        (b"\x80\x00", "nothing to continue"),
        (b"\x01\x02He\x81\x03llo", "a message within a message"),
        (b"\x81\x7e\x00\x7d", "a length with too many bytes"),
        (b"\x81\x7f\x00\x00\x00\x00\x00\x00\xff\xff", "a length with far too many bytes"),
        (b"\x81\x7f\x80\x00\x00\x00\x00\x01\x00\x00", "a negative length"),
        (b"HTTP/1.1 200 OK\r\n", "no frame"),
    ] {
        assert!(read(&[wire]).is_broken, "{why}");
    }
}

#[test]
fn a_control_frame_is_known_by_its_first_byte() {
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut reader = MessageReader::default();
    assert!(reader.is_in_control_frame(0x89) && !reader.is_in_control_frame(0x81));
    for wire in [&b"\x89"[..], b"\x02", b"a"] {
        assert_eq!(reader.feed(wire, MessageType::Text, &expected), Progress::Incomplete);
        assert!(reader.is_in_control_frame(0x81));
    }
    let ended = Progress::Control(ControlFrame::Ping, 1);
    assert_eq!(reader.feed(b"b", MessageType::Text, &expected), ended);
    assert!(!reader.is_in_control_frame(0x81));
}

/// Frames in any order, with a byte changed, or truncated.
fn wires() -> impl Strategy<Value = Vec<u8>> {
    let frame = prop_oneof![
        4 => Just(HELLO),
        2 => Just(&b"\x01\x02He"[..]),
        2 => Just(&b"\x00\x00"[..]),
        2 => Just(&b"\x80\x03llo"[..]),
        1 => Just(&b"\x82\x05Hello"[..]),
        2 => Just(&b"\x89\x03abc"[..]),
        1 => Just(&b"\x8a\x00"[..]),
        1 => Just(&b"\x88\x02\x03\xe8"[..]),
        1 => Just(&b"\x81\x7e\x00\x80"[..]),
        1 => Just(&b"\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00"[..]),
    ];
    damaged(frame, 1..6)
}

proptest! {
    #[test]
    fn how_the_bytes_were_split_makes_no_difference(
        wire in wires(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let parts = split(&wire, &cuts);
        let bytes: Vec<&[u8]> = wire.chunks(1).collect();
        let whole = read(&[&wire]);
        prop_assert_eq!(&read(&parts), &whole);
        prop_assert_eq!(&read(&bytes), &whole);
    }

    /// A message is read as it was written, whatever its size and fragments.
    #[test]
    fn any_echo_is_recognised(
        payload in proptest::collection::vec(any::<u8>(), 0..70_000),
        fragment in 1..70_000_usize,
    ) {
        let expected = Expected::new(Verify::All, Vec::new(), Some(payload.clone()));
        let mut pieces: Vec<&[u8]> = payload.chunks(fragment).collect();
        if pieces.is_empty() {
            pieces.push(&[]);
        }
        let mut wire = Vec::new();
        for (place, piece) in pieces.iter().enumerate() {
            let opcode = if place == 0 { BINARY } else { CONTINUATION };
            let is_last = place + 1 == pieces.len();
            wire.push(opcode | if is_last { FIN } else { 0 });
            match piece.len() {
                size @ ..=125 => wire.push(u8::try_from(size).expect("it is small")),
                size @ ..=0xffff => {
                    wire.push(126);
                    wire.extend(u16::try_from(size).expect("it fits").to_be_bytes());
                }
                size => {
                    wire.push(127);
                    wire.extend((size as u64).to_be_bytes());
                }
            }
            wire.extend_from_slice(piece);
        }
        let progress = MessageReader::default().feed(&wire, MessageType::Binary, &expected);
        let info = ResponseInfo { status: 0, error: None, keeps_alive: true };
        prop_assert_eq!(progress, Progress::Complete(info, wire.len()));
    }
}
