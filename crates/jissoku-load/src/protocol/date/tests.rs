use proptest::prelude::*;

use super::*;

const VALUE: &[u8; 29] = b"Sat, 21 Nov 2026 01:02:03 GMT";

fn response(value: &str) -> Vec<u8> {
    format!("HTTP/1.1 204 No Content\r\nA: b\r\ndate:  {value} \r\n\r\n").into_bytes()
}

fn block(value: &[u8; 29]) -> Block {
    let mut block = *b".............................\r\n\r";
    block[..29].copy_from_slice(value);
    block
}

#[test]
fn a_date_is_found_wherever_it_stands_and_however_it_is_spelled() {
    let wire = response("Sat, 21 Nov 2026 01:02:03 GMT");
    let at = find(&wire).expect("it is there");
    assert_eq!(&wire[at..at + 29], VALUE);
}

#[test]
fn what_is_no_well_formed_date_is_not_found() {
    for value in [
        "",
        "Sat, 21 Nov 2026 01:02:03 GM",
        "Sat, 21 Nov 2026 01:02:03 GMTT",
        "Sat, 21 Nov 2026 01:02:03 UTC",
        "Sat, 2x Nov 2026 01:02:03 GMT",
        "sat, 21 Nov 2026 01:02:03 GMT",
        "onT, 21 Nov 2026 01:02:03 GMT",
        "Sat, 21 NOV 2026 01:02:03 GMT",
        "Sat, 21 ovD 2026 01:02:03 GMT",
        "Sat  21 Nov 2026 01:02:03 GMT",
        "Saturday, 21-Nov-26 01:02:03 GMT",
        "Sat Nov 21 01:02:03 2026",
    ] {
        assert_eq!(find(&response(value)), None, "{value:?}");
    }
    let value = "Sat, 21 Nov 2026 01:02:03 GMT";
    assert_eq!(find(&response(&format!("{value}\r\nDate: {value}"))), None, "two of them");
    let narrow = format!("HTTP/1.1 204 No Content\nDate: {value}\n\n");
    assert_eq!(find(narrow.as_bytes()), None, "too little behind it");
    assert_eq!(find(b"no answer"), None);
}

#[test]
fn every_byte_at_every_place_is_judged_as_the_pattern_says() {
    let ours = block(VALUE);
    for place in 0..SIZE {
        for byte in 0..=255 {
            let mut theirs = ours;
            theirs[place] = byte;
            let is_digit = b"Sun, 00 Nov 0000 00:00:00 GMT".get(place) == Some(&b'0');
            let fine = byte == ours[place] || is_digit && byte.is_ascii_digit();
            assert_eq!(is_alike(&ours, &theirs), fine, "byte {byte:#x} at {place}");
        }
    }
}

proptest! {
    #[test]
    fn blocks_are_compared_as_byte_by_byte(
        changes in prop::collection::vec((0..SIZE, any::<u8>()), 0..8),
        digits in prop::collection::vec((0..SIZE, b'0'..=b'9'), 0..8),
    ) {
        let ours = block(VALUE);
        let mut theirs = ours;
        for (place, byte) in changes.into_iter().chain(digits) {
            theirs[place] = byte;
        }
        let pattern = |place: usize| PATTERN.get(place).is_some_and(u8::is_ascii_digit);
        let naive = (0..SIZE).all(|place| {
            if pattern(place) { theirs[place].is_ascii_digit() } else { theirs[place] == ours[place] }
        });
        prop_assert_eq!(is_alike(&ours, &theirs), naive);
    }
}
