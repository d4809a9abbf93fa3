use proptest::prelude::*;

use super::*;
use crate::expect::{Expected, Verify};
use crate::reader::{Asked, Progress, Reader};

const WIRE: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 01:02:03 GMT\r\n\
    Content-Length: 5\r\n\r\nHello";

fn strictly(bytes: &[u8], expected: &Expected) -> Progress {
    Reader::default().feed(bytes, Asked { head_only: false, expected })
}

fn learned(bytes: &[u8], expected: &Expected) -> Templates {
    let mut templates = Templates::default();
    if let Progress::Whole(answer, size) = strictly(bytes, expected) {
        templates.learn(&bytes[..size], answer);
    }
    templates
}

#[test]
fn the_same_bytes_are_recognised_and_others_are_not() {
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut templates = learned(WIRE, &expected);
    let twice = WIRE.repeat(2);
    let answer = Answer { fault: None, keeps_alive: true };
    assert_eq!(templates.recognise(WIRE), Some((answer, WIRE.len())));
    assert_eq!(templates.recognise(&twice), Some((answer, WIRE.len())));
    assert_eq!(templates.recognise(&WIRE[..WIRE.len() - 1]), None);
    for place in 0..WIRE.len() {
        let mut other = WIRE.to_vec();
        other[place] ^= 1;
        assert_eq!(templates.recognise(&other), None, "byte {place}");
    }
}

#[test]
fn two_answers_are_remembered_and_the_older_one_goes() {
    let at = |second: u8| {
        let mut wire = WIRE.to_vec();
        wire[41] = b'0' + second;
        wire
    };
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut templates = learned(&at(1), &expected);
    let answer = Answer { fault: None, keeps_alive: true };
    templates.learn(&at(2), answer);
    assert!(templates.recognise(&at(1)).is_some());
    assert!(templates.recognise(&at(2)).is_some());
    assert!(templates.recognise(&at(1)).is_some());
    templates.learn(&at(3), answer);
    assert!(templates.recognise(&at(1)).is_some(), "it was used last");
    assert!(templates.recognise(&at(2)).is_none());
    assert!(templates.recognise(&at(3)).is_some());
}

#[test]
fn a_wrong_answer_is_no_template() {
    let expected = Expected::new(Verify::All, Vec::new(), Some(b"Other".to_vec()));
    assert_eq!(learned(WIRE, &expected).recognise(WIRE), None);
    assert_eq!(Templates::default().recognise(WIRE), None);
    assert_eq!(Templates::default().recognise(b""), None);
}

proptest! {
    /// Whatever is recognised has the outcome that strict reading gives it.
    #[test]
    fn the_short_way_never_differs_from_the_strict_one(
        changes in proptest::collection::vec((0..WIRE.len(), any::<u8>()), 0..3),
        more in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let expected = Expected::new(Verify::All, Vec::new(), None);
        let mut templates = learned(WIRE, &expected);
        let mut wire = WIRE.to_vec();
        for (place, byte) in changes {
            wire[place] = byte;
        }
        wire.extend(more);
        if let Some((answer, size)) = templates.recognise(&wire) {
            prop_assert_eq!(strictly(&wire, &expected), Progress::Whole(answer, size));
        } else {
            prop_assert_ne!(&wire[..WIRE.len()], WIRE);
        }
    }
}
