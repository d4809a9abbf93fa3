//! Parsers for durations, counts and other option values.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use jissoku_load::{Rate, Think};
use jissoku_os::quantity::{self, scaled};

const SECOND_NS: u64 = 1_000_000_000;

const MILLION: u64 = 1_000_000;

const PERIODS_NS: [(&str, u64); 3] =
    [("s", SECOND_NS), ("m", 60 * SECOND_NS), ("h", 3600 * SECOND_NS)];

const MULTIPLES: [(&str, u64); 6] =
    [("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("m", 1_000_000), ("G", 1_000_000_000), ("", 1)];

const SIZES: [(&str, u64); 10] = [
    ("KiB", 1 << 10),
    ("K", 1 << 10),
    ("k", 1 << 10),
    ("MiB", 1 << 20),
    ("M", 1 << 20),
    ("m", 1 << 20),
    ("GiB", 1 << 30),
    ("G", 1 << 30),
    ("g", 1 << 30),
    ("", 1),
];

/// One of these words, each with what it stands for.
pub(crate) fn word<T, const COUNT: usize>(
    words: [(&'static str, T); COUNT],
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(words.map(|(word, _)| word)).map(move |given| {
        let found = words.iter().find(|(word, _)| *word == given);
        found.map(|(_, meaning)| *meaning).expect("clap permits no other word")
    })
}

/// `10s`, `300ms`, `1m30s`, or seconds without a unit; returns nanoseconds.
///
/// # Errors
/// What to write in its place.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    let seconds = || scaled(text, &[("", SECOND_NS)]);
    quantity::duration_ns(text)
        .or_else(seconds)
        .ok_or_else(|| "write a duration such as 10s, 300ms or 1m30s".to_owned())
}

/// `20000`, `20k`, `1.5M`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    scaled(text, &MULTIPLES).ok_or_else(|| "write a whole number such as 500, 20k or 1M".to_owned())
}

/// Bytes: `4096`, `64KiB`, `1G`; multiples are powers of 1,024.
///
/// # Errors
/// What to write in its place.
pub fn size(text: &str) -> Result<u64, String> {
    scaled(text, &SIZES).ok_or_else(|| "write a size such as 4096, 64KiB or 1G".to_owned())
}

/// A rate, or a pair of rates: `20k`, `0.2`, `30/m`, `1k:50k`.
pub(crate) fn rates(text: &str) -> Result<(Rate, Rate), String> {
    let (from, to) = text.split_once(':').unwrap_or((text, text));
    rate(from).zip(rate(to)).ok_or_else(|| {
        "write a rate such as 500, 20k, 0.2 or 30/m, or one that changes, such as 1k:50k".to_owned()
    })
}

/// Requests per second, or per minute or hour with `/m` and `/h`; six decimal places.
fn rate(text: &str) -> Option<Rate> {
    let (number, period) = text.split_once('/').unwrap_or((text, "s"));
    let (_, period_ns) = PERIODS_NS.iter().find(|(name, _)| *name == period)?;
    let millionths = MULTIPLES.map(|(name, scale)| (name, scale * MILLION));
    Some(Rate::new(scaled(number, &millionths)?, period_ns * MILLION))
}

/// Think time: constant `5ms`, or exponential with mean `exp:5ms`.
pub(crate) fn think(text: &str) -> Result<Think, String> {
    match text.strip_prefix("exp:") {
        Some(mean) => Ok(Think::Exponential { mean_ns: duration_ns(mean)? }),
        None => Ok(Think::Constant { think_ns: duration_ns(text)? }),
    }
}

/// A number of threads, or `auto`, which is `None`.
pub(crate) fn threads(text: &str) -> Result<Option<usize>, String> {
    match text {
        "auto" => Ok(None),
        count => {
            count.parse().map(Some).map_err(|_| "write a number such as 2, or auto".to_owned())
        }
    }
}

/// A SHA-256 digest, in 64 hexadecimal digits.
pub(crate) fn digest(text: &str) -> Result<[u8; 32], String> {
    let bad = || format!("invalid SHA-256 digest {text:?}: it has 64 hexadecimal digits");
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(bad());
    }
    let mut digest = [0; 32];
    for (at, byte) in (0..).step_by(2).zip(&mut digest) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| bad())?;
    }
    Ok(digest)
}

/// Core numbers and ranges: `0`, `0,2`, `1-3`.
pub(crate) fn cores(text: &str) -> Result<Vec<usize>, String> {
    let bad = || "write cores such as 0, 0,2 or 1-3".to_owned();
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.parse().map_err(|_| bad())?;
        let last: usize = last.parse().map_err(|_| bad())?;
        if first > last || last > 4095 {
            return Err(bad());
        }
        cores.extend(first..=last);
    }
    Ok(cores)
}

#[expect(clippy::cast_precision_loss, reason = "rates and counts stay below 2^53")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is rounded here is positive, and the cast keeps to the largest number"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_or_are_in_seconds() {
        assert_eq!(duration_ns("10"), Ok(10 * SECOND_NS));
        assert_eq!(duration_ns("0.5"), Ok(SECOND_NS / 2));
        assert_eq!(duration_ns("1m30s"), Ok(90 * SECOND_NS));
        for text in ["", "s", "-1s", "1m30", "1.", "1e3"] {
            assert!(duration_ns(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn counts_have_multiples() {
        assert_eq!(count("20k"), Ok(20_000));
        assert_eq!(count("1.5M"), Ok(1_500_000));
        assert!(count("1.5").is_err());
        assert!(count("-3").is_err());
    }

    #[test]
    fn sizes_are_counted_as_memory_is() {
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1536M"), Ok(3 << 29));
        assert_eq!(size("0"), Ok(0));
        for text in ["", "-1", "1kb", "1.5", "1.5G", "1 M"] {
            assert!(size(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn rates_may_change() {
        let per_second = Rate::per_second;
        assert_eq!(rates("20k"), Ok((per_second(20_000), per_second(20_000))));
        assert_eq!(rates("1k:50k"), Ok((per_second(1_000), per_second(50_000))));
        for (text, requests, per_s) in
            [("0.2", 1, 5), ("30/m", 1, 2), ("1.5/s", 3, 2), ("1k/h", 5, 18), ("0.5/h", 1, 7200)]
        {
            let rate = Rate::new(requests, per_s * SECOND_NS);
            assert_eq!(rates(text), Ok((rate, rate)), "{text}");
        }
        for text in ["", ":", "1k:", "1:2:3", "fast", "1/", "1/d", "/m", "0.0000001", "-1"] {
            assert!(rates(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn think_time_is_constant_or_exponential() {
        assert_eq!(think("5ms"), Ok(Think::Constant { think_ns: 5_000_000 }));
        assert_eq!(think("exp:5ms"), Ok(Think::Exponential { mean_ns: 5_000_000 }));
        assert!(think("exp:").is_err() && think("long").is_err());
    }

    #[test]
    fn threads_are_a_number_or_auto() {
        assert_eq!((threads("2"), threads("auto")), (Ok(Some(2)), Ok(None)));
        assert!(threads("many").is_err());
    }

    #[test]
    fn a_digest_has_sixty_four_digits() {
        let found = digest(&"0f".repeat(32));
        assert_eq!(found, Ok([15; 32]));
        for text in [String::new(), "0".repeat(63), "g".repeat(64), "é".repeat(32)] {
            assert!(digest(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn cores_are_lists_of_ranges() {
        assert_eq!(cores("0,2-4"), Ok(vec![0, 2, 3, 4]));
        for text in ["", "a", "3-1", "1,", "1-99999"] {
            assert!(cores(text).is_err(), "{text:?}");
        }
    }
}
