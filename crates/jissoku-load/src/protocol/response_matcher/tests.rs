use proptest::prelude::*;

use super::*;
use crate::plan::expect::{Expected, Verify};
use crate::protocol::reader::{Progress, Reader, RequestContext};

const WIRE: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 01:02:03 GMT\r\n\
    Content-Length: 5\r\n\r\nHello";

fn strictly(bytes: &[u8], expected: &Expected) -> Progress {
    Reader::default().feed(bytes, RequestContext { head_only: false, expected })
}

fn learned(bytes: &[u8], expected: &Expected) -> ResponseMatcher {
    let mut matchers = ResponseMatcher::default();
    if let Progress::Complete(response, size) = strictly(bytes, expected) {
        matchers.update(&bytes[..size], response);
    }
    matchers
}

#[test]
fn the_same_bytes_are_recognised_and_others_are_not() {
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut matchers = learned(WIRE, &expected);
    let twice = WIRE.repeat(2);
    let response = ResponseInfo { status: 200, error: None, keeps_alive: true };
    assert_eq!(matchers.matches(WIRE), Some((response, WIRE.len())));
    assert_eq!(matchers.matches(&twice), Some((response, WIRE.len())));
    assert_eq!(matchers.matches(&WIRE[..WIRE.len() - 1]), None);
    for place in 0..WIRE.len() {
        let mut other = WIRE.to_vec();
        // A control character in place of a digit.
        other[place] ^= 0x20;
        assert_eq!(matchers.matches(&other), None, "byte {place}");
    }
}

#[test]
fn a_date_may_have_other_digits_and_nothing_else_may() {
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut matchers = learned(WIRE, &expected);
    let with = |from: &str, to: &str| {
        let text = std::str::from_utf8(WIRE).expect("it is text");
        assert!(text.contains(from), "{from}");
        text.replace(from, to).into_bytes()
    };
    for other in ["Sat, 22 Nov 2026", "Sat, 21 Nov 2027"] {
        assert!(matchers.matches(&with("Sat, 21 Nov 2026", other)).is_some(), "{other}");
    }
    assert!(matchers.matches(&with("01:02:03", "23:59:58")).is_some());
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
        assert_eq!(matchers.matches(&wire), None, "{to}");
        // It is read completely, and if it is correct it is known from then on.
        if let Progress::Complete(response @ ResponseInfo { error: None, .. }, size) =
            strictly(&wire, &expected)
        {
            matchers.update(&wire[..size], response);
            assert_eq!(matchers.matches(&wire), Some((response, size)), "{to}");
            matchers = learned(WIRE, &expected);
        }
    }
}

#[test]
fn digits_outside_a_date_are_compared() {
    let wire = b"HTTP/1.1 200 OK\r\nDate: 1763686923\r\nContent-Length: 5\r\n\r\nHello";
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut matchers = learned(wire, &expected);
    let mut other = wire.to_vec();
    other[32] = b'4';
    assert!(matchers.matches(wire).is_some());
    assert_eq!(matchers.matches(&other), None);
}

#[test]
fn two_responses_are_stored_and_the_older_one_is_replaced() {
    let at = |place: u8| {
        let mut wire = WIRE.to_vec();
        wire.truncate(WIRE.len() - 1);
        wire.push(b'0' + place);
        wire
    };
    let expected = Expected::new(Verify::All, Vec::new(), None);
    let mut matchers = learned(&at(1), &expected);
    let response = ResponseInfo { status: 200, error: None, keeps_alive: true };
    matchers.update(&at(2), response);
    assert!(matchers.matches(&at(1)).is_some());
    assert!(matchers.matches(&at(2)).is_some());
    assert!(matchers.matches(&at(1)).is_some());
    matchers.update(&at(3), response);
    assert!(matchers.matches(&at(1)).is_some(), "it was used last");
    assert!(matchers.matches(&at(2)).is_none());
    assert!(matchers.matches(&at(3)).is_some());
}

#[test]
fn an_incorrect_response_is_not_stored() {
    let expected = Expected::new(Verify::All, Vec::new(), Some(b"Other".to_vec()));
    assert_eq!(learned(WIRE, &expected).matches(WIRE), None);
    assert_eq!(ResponseMatcher::default().matches(WIRE), None);
    assert_eq!(ResponseMatcher::default().matches(b""), None);
}

/// The rule, written a second time: bytes 23 to 51 are the date.
fn is_same_but_for_digits(wire: &[u8]) -> bool {
    (0..WIRE.len()).all(|place| {
        let may_change = (23..52).contains(&place) && WIRE[place].is_ascii_digit();
        wire[place] == WIRE[place] || may_change && wire[place].is_ascii_digit()
    })
}

proptest! {
    /// Whatever is recognised has the result of the complete reader.
    #[test]
    fn the_short_way_never_differs_from_the_strict_one(
        changes in proptest::collection::vec((0..WIRE.len(), any::<u8>()), 0..3),
        digits in proptest::collection::vec((23..52_usize, b'0'..=b'9'), 0..6),
        more in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let expected = Expected::new(Verify::All, Vec::new(), None);
        let mut matchers = learned(WIRE, &expected);
        let mut wire = WIRE.to_vec();
        for (place, byte) in changes.into_iter().chain(digits) {
            wire[place] = byte;
        }
        wire.extend(more);
        if let Some((response, size)) = matchers.matches(&wire) {
            prop_assert_eq!(strictly(&wire, &expected), Progress::Complete(response, size));
        } else {
            prop_assert_ne!(&wire[..WIRE.len()], WIRE);
            prop_assert!(!is_same_but_for_digits(&wire), "it should have been recognised");
        }
    }
}
