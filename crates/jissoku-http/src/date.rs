//! The date formats of HTTP (RFC 9110 section 5.6.7): one that is written, and two more that are
//! read.

/// Bytes of a formatted date.
pub const SIZE: usize = 29;

const SECOND_NS: u64 = 1_000_000_000;

const DAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
const MONTHS: &[u8; 36] = b"MarAprMayJunJulAugSepOctNovDecJanFeb";

/// Formats seconds since 1970 (UTC, no leap seconds), as in `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// Right up to the end of the year 9999, where the format itself ends.
pub fn imf_fixdate(unix_s: u64) -> [u8; SIZE] {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    let mut text = *b"Day, 00 Mon 0000 00:00:00 GMT";
    copy(&mut text, 0, &DAYS[(days % 7) as usize * 3..][..3]);
    copy(&mut text, 5, &two(day));
    copy(&mut text, 8, &MONTHS[month * 3..][..3]);
    copy(&mut text, 12, &two(year / 100));
    copy(&mut text, 14, &two(year % 100));
    copy(&mut text, 17, &two(second / 3600));
    copy(&mut text, 20, &two(second / 60 % 60));
    copy(&mut text, 23, &two(second % 60));
    text
}

/// The current date as text, formatted at most once a second: at the cost of one comparison per
/// refresh.
#[derive(Clone, Copy, Debug)]
pub struct DateCache {
    text: [u8; SIZE],
    /// When the text changes, on the monotonic clock.
    valid_until_ns: u64,
}

impl Default for DateCache {
    /// One that the first refresh changes.
    fn default() -> Self {
        Self { text: imf_fixdate(0), valid_until_ns: 0 }
    }
}

impl DateCache {
    /// It is `now_ns` on the monotonic clock. If the second is over, reads the time since 1970 from
    /// `wall_ns`. Returns whether the text has changed.
    #[inline]
    pub fn refresh(&mut self, now_ns: u64, wall_ns: impl FnOnce() -> u64) -> bool {
        let is_over = now_ns >= self.valid_until_ns;
        if is_over {
            self.renew(now_ns, wall_ns());
        }
        is_over
    }

    #[cold]
    fn renew(&mut self, now_ns: u64, wall_ns: u64) {
        self.valid_until_ns = now_ns + SECOND_NS - wall_ns % SECOND_NS;
        self.text = imf_fixdate(wall_ns / SECOND_NS);
    }

    /// The value of Date.
    pub const fn text(&self) -> &[u8; SIZE] {
        &self.text
    }
}

/// Reads a date in any of the three formats, as seconds since 1970; `None` for what is no date or
/// lies before 1970. `now_s` decides the century of a year of two digits.
pub fn parse(text: &[u8], now_s: u64) -> Option<u64> {
    let comma = text.iter().position(|&byte| byte == b',');
    let (day, month, year, time) = match (comma, text) {
        // Sun, 06 Nov 1994 08:49:37 GMT
        (Some(3), [_, _, _, b',', b' ', rest @ ..]) => match rest {
            [
                d1,
                d2,
                b' ',
                m1,
                m2,
                m3,
                b' ',
                year @ ..,
                b' ',
                _,
                _,
                _,
                _,
                _,
                _,
                _,
                _,
                b' ',
                b'G',
                b'M',
                b'T',
            ] if year.len() == 4 => {
                (number(&[*d1, *d2])?, [*m1, *m2, *m3], number(year)?, &rest[12..20])
            }
            _ => return None,
        },
        // Sunday, 06-Nov-94 08:49:37 GMT
        (Some(6..), _) => match &text[comma? + 1..] {
            [
                b' ',
                d1,
                d2,
                b'-',
                m1,
                m2,
                m3,
                b'-',
                y1,
                y2,
                b' ',
                time @ ..,
                b' ',
                b'G',
                b'M',
                b'T',
            ] => {
                let year = full_year(number(&[*y1, *y2])?, now_s);
                (number(&[*d1, *d2])?, [*m1, *m2, *m3], year, time)
            }
            _ => return None,
        },
        // Sun Nov  6 08:49:37 1994
        (
            None,
            [_, _, _, b' ', m1, m2, m3, b' ', d1, d2, b' ', time @ .., b' ', y1, y2, y3, y4],
        ) => {
            let d1 = if *d1 == b' ' { b'0' } else { *d1 };
            (number(&[d1, *d2])?, [*m1, *m2, *m3], number(&[*y1, *y2, *y3, *y4])?, time)
        }
        _ => return None,
    };
    let month = MONTHS.chunks(3).position(|name| name == month)?;
    let second_of_day = read_time(time)?;
    let days = days_since_1970(year, month, day)?;
    // A 31st of February is no date: it would come out as another day.
    (civil(days) == (year, month, day)).then(|| days * 86_400 + second_of_day)
}

/// A year of two digits that would lie more than 50 years ahead lies in the century before.
fn full_year(two_digits: u64, now_s: u64) -> u64 {
    let (year_now, ..) = civil(now_s / 86_400);
    let year = year_now - year_now % 100 + two_digits;
    if year > year_now + 50 { year - 100 } else { year }
}

/// `hour ":" minute ":" second`, where a leap second is one.
fn read_time(time: &[u8]) -> Option<u64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

fn number(digits: &[u8]) -> Option<u64> {
    let add =
        |sum: u64, digit: &u8| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'));
    digits.iter().try_fold(0, add)
}

/// The inverse of [`civil`], for dates from 1970 on.
fn days_since_1970(year: u64, month: usize, day: u64) -> Option<u64> {
    const DAYS_TO_1970: u64 = 719_468; // from 1 March of the year 0
    let year = year.checked_sub(u64::from(month >= 10))?;
    let day_of_year = (153 * month as u64 + 2) / 5 + day.checked_sub(1)?;
    (365 * year + year / 4 - year / 100 + year / 400 + day_of_year).checked_sub(DAYS_TO_1970)
}

/// Year, month counted from March as 0, and day of the month, in the proleptic Gregorian calendar.
///
/// Years that begin in March end with their leap day, so a month's start is a linear function of
/// its number: five months have 153 days.
fn civil(days_since_1970: u64) -> (u64, usize, u64) {
    const DAYS_TO_1970: u64 = 719_468; // from 1 March of the year 0
    const ERA: u64 = 146_097; // days in 400 years
    let days = days_since_1970 + DAYS_TO_1970;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    (era * 400 + year + u64::from(month >= 10), month as usize, day)
}

const fn two(value: u64) -> [u8; 2] {
    [b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]
}

fn copy(text: &mut [u8; SIZE], at: usize, part: &[u8]) {
    text[at..at + part.len()].copy_from_slice(part);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_date_is_formatted_once_a_second() {
        let mut cache = DateCache::default();
        let mut refresh = |now_ns: u64, wall_ns: u64| {
            let has_changed = cache.refresh(now_ns, || wall_ns);
            (has_changed, String::from_utf8_lossy(&cache.text()[17..25]).into_owned())
        };
        let at = |has_changed, time: &str| (has_changed, time.to_owned());
        assert_eq!(refresh(5, 9_400_000_000), at(true, "00:00:09"));
        assert_eq!(refresh(600_000_004, 9_999_999_999), at(false, "00:00:09"));
        assert_eq!(refresh(600_000_005, 10_000_000_000), at(true, "00:00:10"));
    }

    fn check(unix_s: u64, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&imf_fixdate(unix_s)), expected);
    }

    #[test]
    fn known_instants_read_as_they_should() {
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn all_three_formats_are_read() {
        let now_s = 1_795_000_000; // in 2026
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes(), now_s), Some(784_111_777), "{text:?}");
        }
        let year_of = |text: &str| civil(parse(text.as_bytes(), now_s).expect("a date") / 86_400).0;
        assert_eq!(year_of("Friday, 06-Nov-76 08:49:37 GMT"), 2076);
        assert_eq!(year_of("Sunday, 06-Nov-77 08:49:37 GMT"), 1977);
        for text in [
            "",
            "Sun",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "0",
            "784111777",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Thu, 01 Jan 1969 00:00:00 GMT",
            "Sun, 06 Nov 1994 08-49-37 GMT",
            "Sunday, 06 Nov 94 08:49:37 GMT",
            "Sun, 06 Nov 19x4 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes(), now_s), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(unix_s in 0..253_402_300_800_u64, now_s in 0..10_000_000_000_u64) {
            prop_assert_eq!(parse(&imf_fixdate(unix_s), now_s), Some(unix_s));
        }

        #[test]
        fn no_bytes_are_too_odd(text in "[ -~]{0,35}|(Sun|Sunday),? [0-9A-Za-z: -]{0,30}( GMT)?", now_s in 0..10_000_000_000_u64) {
            let _date = parse(text.as_bytes(), now_s);
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut before = civil(0);
        for days in 1..146_097 {
            let (year, month, day) = civil(days);
            let same_month = (year, month, day) == (before.0, before.1, before.2 + 1);
            let next_month = day == 1 && month == (before.1 + 1) % 12 && before.2 >= 28;
            assert!(same_month || next_month, "day {days}: {year} {month} {day} after {before:?}");
            before = (year, month, day);
        }
    }
}
