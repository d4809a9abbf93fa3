//! The one date format of HTTP: IMF-fixdate (RFC 9110 section 5.6.7).

/// Bytes of a formatted date.
pub const SIZE: usize = 29;

const DAYS: &[u8; 21] = b"ThuFriSatSunMonTueWed";
const MONTHS: &[u8; 36] = b"MarAprMayJunJulAugSepOctNovDecJanFeb";

/// Formats seconds since 1970 (UTC, no leap seconds), as in `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// Right up to the end of the year 9999, where the format itself ends.
#[must_use]
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

/// Year, month counted from March as 0, and day of the month, in the proleptic Gregorian calendar.
///
/// Years that begin in March end with their leap day, so a month's start is a linear function of its
/// number: five months have 153 days.
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
    use super::*;

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
