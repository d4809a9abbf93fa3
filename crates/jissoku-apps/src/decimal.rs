//! Decimal numbers of header fields, without allocation.

/// Passes the digits of `number` to `append`.
pub(crate) fn write(number: u64, append: &mut impl FnMut(&[u8])) {
    let mut digits = [b'0'; 20];
    let mut rest = number;
    let mut start = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        start = at;
        if rest == 0 {
            break;
        }
    }
    append(&digits[start..]);
}

/// The number that `digits` are; `None` for other characters, none at all, and above 2^64 - 1.
pub(crate) fn read(digits: &[u8]) -> Option<u64> {
    let mut number: u64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    (!digits.is_empty()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::{read, write};

    #[test]
    fn numbers_are_written_and_read() {
        for number in [0, 9, 10, 13, 99, 100, 1_048_576, u64::MAX] {
            let mut text = Vec::new();
            write(number, &mut |part| text.extend_from_slice(part));
            assert_eq!(text, number.to_string().into_bytes());
            assert_eq!(read(&text), Some(number));
        }
        for wrong in ["", "+1", "-1", "1 ", "0x1", "18446744073709551616"] {
            assert_eq!(read(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
