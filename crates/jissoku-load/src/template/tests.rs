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
    let answer = Answer { status: 200, fault: None, keeps_alive: true };
    assert_eq!(templates.recognise(WIRE), Some((answer, WIRE.len())));
    assert_eq!(templates.recognise(&twice), Some((answer, WIRE.len())));
    assert_eq!(templates.recognise(&WIRE[..WIRE.len() - 1]), None);
    for place in 0..WIRE.len() {
        let mut other = WIRE.to_vec();
        // A control character is in no place a digit of a date.
        other[place] ^= 0x20;
        assert_eq!(templates.recognise(&other), None, "byte {place}");
    }
}

#[test]
fn a_date_may_have_other_digits_and_nothing_else_may() {
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut templates = learned(WIRE, &expected);
    let with = |from: &str, to: &str| {
        let text = std::str::from_utf8(WIRE).expect("it is text");
        assert!(text.contains(from), "{from}");
        text.replace(from, to).into_bytes()
    };
    for other in ["Sat, 22 Nov 2026", "Sat, 21 Nov 2027"] {
        assert!(templates.recognise(&with("Sat, 21 Nov 2026", other)).is_some(), "{other}");
    }
    assert!(templates.recognise(&with("01:02:03", "23:59:58")).is_some());
    for (from, to) in [
        ("Sat", "Sun"),
        ("Nov", "Dec"),
        ("01:02:03", "01:02:0x"),
        ("01:02:03", "01-02:03"),
        ("200 OK", "201 OK"),
        (": 5\r", ": 4\r"),
        ("Hello", "Hullo"),
    ] {
        let wire = with(from, to);
        assert_eq!(templates.recognise(&wire), None, "{to}");
        // It is read strictly, and if it is right it is known from then on.
        if let Progress::Whole(answer @ Answer { fault: None, .. }, size) =
            strictly(&wire, &expected)
        {
            templates.learn(&wire[..size], answer);
            assert_eq!(templates.recognise(&wire), Some((answer, size)), "{to}");
            templates = learned(WIRE, &expected);
        }
    }
}

#[test]
fn digits_that_are_no_date_are_told_apart() {
    let wire = b"HTTP/1.1 200 OK\r\nDate: 1763686923\r\nContent-Length: 5\r\n\r\nHello";
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut templates = learned(wire, &expected);
    let mut other = wire.to_vec();
    other[32] = b'4';
    assert!(templates.recognise(wire).is_some());
    assert_eq!(templates.recognise(&other), None);
}

#[test]
fn two_answers_are_remembered_and_the_older_one_goes() {
    let at = |place: u8| {
        let mut wire = WIRE.to_vec();
        wire.truncate(WIRE.len() - 1);
        wire.push(b'0' + place);
        wire
    };
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut templates = learned(&at(1), &expected);
    let answer = Answer { status: 200, fault: None, keeps_alive: true };
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

/// The rule, written down a second time: bytes 23 to 51 are the date.
fn is_same_but_for_digits(wire: &[u8]) -> bool {
    (0..WIRE.len()).all(|place| {
        let may_change = (23..52).contains(&place) && WIRE[place].is_ascii_digit();
        wire[place] == WIRE[place] || may_change && wire[place].is_ascii_digit()
    })
}

proptest! {
    /// Whatever is recognised has the outcome that strict reading gives it.
    #[test]
    fn the_short_way_never_differs_from_the_strict_one(
        changes in proptest::collection::vec((0..WIRE.len(), any::<u8>()), 0..3),
        digits in proptest::collection::vec((23..52_usize, b'0'..=b'9'), 0..6),
        more in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let expected = Expected::new(Verify::All, Vec::new(), None);
        let mut templates = learned(WIRE, &expected);
        let mut wire = WIRE.to_vec();
        for (place, byte) in changes.into_iter().chain(digits) {
            wire[place] = byte;
        }
        wire.extend(more);
        if let Some((answer, size)) = templates.recognise(&wire) {
            prop_assert_eq!(strictly(&wire, &expected), Progress::Whole(answer, size));
        } else {
            prop_assert_ne!(&wire[..WIRE.len()], WIRE);
            prop_assert!(!is_same_but_for_digits(&wire), "it should have been recognised");
        }
    }
}
