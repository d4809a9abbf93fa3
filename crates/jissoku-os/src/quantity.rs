//! Numbers with units, as options and configuration files have them: `300ms`, `1m30s`, `1.5k`.

const UNITS_NS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// A duration in nanoseconds: `10s`, `300ms`, `1.5m`, or several parts from the largest unit to the
/// smallest, as in `1h`, `1m30s`. Every part has a unit.
pub fn duration_ns(text: &str) -> Option<u64> {
    let (mut rest, mut units) = (text, &UNITS_NS[..]);
    let mut sum_ns = 0_u64;
    while !rest.is_empty() {
        let unit_at = rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.')?;
        let unit = &rest[unit_at..];
        let end = unit.find(|sign: char| sign.is_ascii_digit()).unwrap_or(unit.len());
        let place = units.iter().position(|(name, _)| *name == &unit[..end])?;
        sum_ns = sum_ns.checked_add(scaled(&rest[..unit_at + end], &units[place..=place])?)?;
        (rest, units) = (&unit[end..], &units[place + 1..]);
    }
    (!text.is_empty()).then_some(sum_ns)
}

/// A decimal number with a unit, in the smallest unit; `None` if it is not a whole number of that.
pub fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let mut sum = whole.parse::<u64>().ok()?.checked_mul(*scale)?;
    let mut place = *scale;
    for digit in fraction.chars() {
        if place % 10 != 0 {
            return None;
        }
        place /= 10;
        sum = sum.checked_add(u64::from(digit.to_digit(10)?) * place)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_in_descending_order() {
        const SECOND: u64 = 1_000_000_000;
        for (text, expected_ns) in [
            ("10s", 10 * SECOND),
            ("0.5ms", 500_000),
            ("1.5m", 90 * SECOND),
            ("1m30s", 90 * SECOND),
            ("1h", 3600 * SECOND),
            ("1h1m1s1ms1us1ns", 3661 * SECOND + 1_001_001),
            ("1h0.5s", 3600 * SECOND + SECOND / 2),
            ("0s", 0),
        ] {
            assert_eq!(duration_ns(text), Some(expected_ns), "{text:?}");
        }
        for text in [
            "",
            "s",
            "10",
            "-1s",
            "1x",
            "1.s",
            ".5s",
            "1.5ns",
            "1 s",
            "1m 30s",
            "1m30",
            "30s1m",
            "1s1s",
            "99999999999h",
            "5124095h35m",
            "1sm",
        ] {
            assert_eq!(duration_ns(text), None, "{text:?}");
        }
    }
}
