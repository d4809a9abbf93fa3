//! Range requests: RFC 9110 sections 14.1 and 14.2.
//!
//! Invalid and excessive ranges are ignored, as section 14.2 permits: the complete representation
//! is sent.

use core::ops::Range;

use crate::head::trim;

/// Maximum number of ranges; more are ignored.
pub const RANGES_MAX: usize = 32;

/// The result of parsing a Range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeOutcome {
    /// The complete representation, as without a Range.
    Whole,
    /// These ranges, in order of the request; at least one, none empty, none overlapping or
    /// adjacent.
    Parts(Vec<Range<u64>>),
    /// 416.
    Unsatisfiable,
}

/// Parses a Range for a representation of `size` bytes.
pub fn read(value: &[u8], size: u64) -> RangeOutcome {
    let Some(set) = value
        .split_at_checked(6)
        .and_then(|(unit, set)| unit.eq_ignore_ascii_case(b"bytes=").then_some(set))
    else {
        return RangeOutcome::Whole;
    };
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut count = 0;
    // Empty list members are ignored (RFC 9110 section 5.6.1.2).
    for spec in set.split(|&byte| byte == b',').map(trim).filter(|spec| !spec.is_empty()) {
        count += 1;
        match read_spec(spec, size) {
            Some(part) if count <= RANGES_MAX => add(&mut parts, part),
            _ => return RangeOutcome::Whole,
        }
    }
    match (count, &*parts) {
        (0, _) => RangeOutcome::Whole,
        (_, []) => RangeOutcome::Unsatisfiable,
        // A suffix of an empty representation cannot be expressed in Content-Range.
        (_, [part, ..]) if part.is_empty() => RangeOutcome::Whole,
        _ if overlap(&parts) => RangeOutcome::Whole,
        _ => RangeOutcome::Parts(parts),
    }
}

/// One range: `None` if it is invalid, `Some(None)` if it is unsatisfiable.
#[expect(clippy::option_option, reason = "invalid and unsatisfiable differ")]
fn read_spec(spec: &[u8], size: u64) -> Option<Option<Range<u64>>> {
    let dash = spec.iter().position(|&byte| byte == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        let suffix = number(last)?;
        return Some((suffix > 0).then(|| size - suffix.min(size)..size));
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some((first < size).then(|| first..last.saturating_add(1).min(size)))
}

/// `1*DIGIT`, saturated to `u64`.
fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// Coalesces consecutive ranges that overlap or are adjacent (RFC 9110 section 15.3.7.2).
fn add(parts: &mut Vec<Range<u64>>, part: Option<Range<u64>>) {
    let Some(part) = part else { return };
    match parts.last_mut() {
        Some(last) if last.start <= part.end && part.start <= last.end => {
            *last = last.start.min(part.start)..last.end.max(part.end);
        }
        _ => parts.push(part),
    }
}

/// Whether two ranges overlap or are adjacent, as used in attacks (CVE-2011-3192).
fn overlap(parts: &[Range<u64>]) -> bool {
    let meets = |(at, one): (usize, &Range<u64>)| {
        parts[at + 1..].iter().any(|other| one.start <= other.end && other.start <= one.end)
    };
    parts.iter().enumerate().any(meets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(value: &str, size: u64, expected: &[(u64, u64)]) {
        let parts = expected.iter().map(|&(start, end)| start..end).collect();
        assert_eq!(read(value.as_bytes(), size), RangeOutcome::Parts(parts), "{value:?}");
    }

    #[test]
    fn ranges_are_read_as_the_rfc_has_them() {
        check("bytes=0-499", 10_000, &[(0, 500)]);
        check("bytes=500-999", 10_000, &[(500, 1000)]);
        check("bytes=-500", 10_000, &[(9500, 10_000)]);
        check("bytes=9500-", 10_000, &[(9500, 10_000)]);
        check("bytes=0-0,-1", 10_000, &[(0, 1), (9999, 10_000)]);
        check("Bytes=0-0", 1, &[(0, 1)]);
        check("bytes= 0-0 ,\t4-5,,", 10, &[(0, 1), (4, 6)]);
        check("bytes=500-600,601-999", 10_000, &[(500, 1000)]);
        check("bytes=500-700,601-999", 10_000, &[(500, 1000)]);
        check("bytes=601-999,500-700", 10_000, &[(500, 1000)]);
        check("bytes=4-5,0-1", 10, &[(4, 6), (0, 2)]);
        check("bytes=0-99999999999999999999999", 10, &[(0, 10)]);
        check("bytes=-99999999999999999999999", 10, &[(0, 10)]);
        check("bytes=10-12,3-4", 10, &[(3, 5)]);
        check("bytes=0-18446744073709551615", 3, &[(0, 3)]);
    }

    #[test]
    fn what_is_not_there_is_unsatisfiable() {
        for value in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=10-,11-12,-0"] {
            assert_eq!(read(value.as_bytes(), 10), RangeOutcome::Unsatisfiable, "{value:?}");
        }
        assert_eq!(read(b"bytes=0-", 0), RangeOutcome::Unsatisfiable);
        // Satisfiable by the letter of section 14.1.2, and nothing to show.
        assert_eq!(read(b"bytes=-5", 0), RangeOutcome::Whole);
    }

    #[test]
    fn what_is_no_range_is_ignored() {
        let values = [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1-0",
            "bytes 0-1",
            "lines=0-1",
            "bytes=0-1;2-3",
            "bytes=0",
            "bytes=+1-2",
            "bytes=0-1,x",
            "bytes=--1",
            "bytes=1 - 2",
            "bytes=0-1,4-5,1-2",
        ];
        for value in values {
            assert_eq!(read(value.as_bytes(), 10), RangeOutcome::Whole, "{value:?}");
        }
        let many = |count: usize| {
            let specs: Vec<_> = (0..count).map(|at| format!("{0}-{0}", at * 3)).collect();
            read(format!("bytes={}", specs.join(",")).as_bytes(), 1_000)
        };
        assert!(
            matches!(many(RANGES_MAX), RangeOutcome::Parts(parts) if parts.len() == RANGES_MAX)
        );
        assert_eq!(many(RANGES_MAX + 1), RangeOutcome::Whole);
    }

    proptest! {
        #[test]
        fn parts_are_inside_and_apart(value in "bytes=([0-9]{0,3}-[0-9]{0,3},? ?){0,5}", size in 0..300_u64) {
            if let RangeOutcome::Parts(parts) = read(value.as_bytes(), size) {
                prop_assert!(!parts.is_empty());
                prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= size));
                let sum: u64 = parts.iter().map(|part| part.end - part.start).sum();
                prop_assert!(sum <= size);
                prop_assert!(!overlap(&parts));
            }
        }

        #[test]
        fn every_byte_asked_for_is_sent(specs in prop::collection::vec((0..40_u64, 0..40_u64), 1..6)) {
            let ordered = specs.iter().map(|&(a, b)| (a.min(b), a.max(b)));
            let text: Vec<_> = ordered.clone().map(|(a, b)| format!("{a}-{b}")).collect();
            let size = 30;
            let asked = |byte: u64| ordered.clone().any(|(a, b)| (a..=b).contains(&byte));
            match read(format!("bytes={}", text.join(",")).as_bytes(), size) {
                RangeOutcome::Whole => {}
                RangeOutcome::Unsatisfiable => prop_assert!((0..size).all(|byte| !asked(byte))),
                RangeOutcome::Parts(parts) => for byte in 0..size {
                    prop_assert_eq!(parts.iter().any(|part| part.contains(&byte)), asked(byte));
                }
            }
        }

        #[test]
        fn no_bytes_are_too_odd(value in prop::collection::vec(any::<u8>(), 0..40), size in any::<u64>()) {
            let _outcome = read(&[b"bytes=", &value[..]].concat(), size);
            let _outcome = read(&value, size);
        }
    }
}
