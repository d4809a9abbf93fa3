//! Text between bytes and Python: PEP 3333 carries bytes as strings of the code points 0 to 255.

use std::borrow::Cow;

use jissoku_http::percent;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::interpreter;

/// The string whose code points are `bytes` (latin-1).
#[inline]
pub(crate) fn latin1<'py>(python: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    interpreter::decode_latin1(python, bytes)
}

/// The code points of `text` as bytes, or `None` if one is above 255.
pub(crate) fn to_latin1<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Option<Cow<'a, [u8]>>> {
    // ASCII is borrowed from the string itself, without a copy.
    let text = text.to_str()?;
    if text.is_ascii() {
        return Ok(Some(Cow::Borrowed(text.as_bytes())));
    }
    let bytes: Result<Vec<u8>, _> =
        text.chars().map(|point| u8::try_from(u32::from(point))).collect();
    Ok(bytes.ok().map(Cow::Owned))
}

/// The name of an object's class, for messages.
pub(crate) fn class_name(value: &Bound<'_, PyAny>) -> String {
    let class = value.get_type();
    class.name().map_or_else(|_| "another type".to_owned(), |name| name.to_string())
}

/// Decodes `%XX` once; an incomplete or invalid escape stays as it is, as in
/// `urllib.parse.unquote`.
pub(crate) fn percent_decoded(path: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = path.iter().position(|&byte| byte == b'%') else {
        return Cow::Borrowed(path);
    };
    let (plain, rest) = path.split_at(first);
    Cow::Owned(plain.iter().copied().chain(percent::decoded(rest)).collect())
}

/// Passes the digits of `number` to `append`.
pub(crate) fn write_decimal(number: u64, append: &mut impl FnMut(&[u8])) {
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
pub(crate) fn read_decimal(digits: &[u8]) -> Option<u64> {
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
    use proptest::prelude::*;
    use pyo3::prelude::*;

    use super::{latin1, percent_decoded, read_decimal, write_decimal};

    proptest! {
        #[test]
        fn each_byte_is_the_code_point_of_its_value(bytes: Vec<u8>) {
            Python::initialize();
            Python::attach(|python| {
                let text: String = bytes.iter().copied().map(char::from).collect();
                prop_assert_eq!(latin1(python, &bytes).to_string(), text);
                Ok(())
            })?;
        }
    }

    #[test]
    fn escapes_are_decoded_once() {
        for (path, decoded) in [
            ("/a", b"/a".as_slice()),
            ("/%2525", b"/%25"),
            ("/%e9%C3%A9", b"/\xe9\xc3\xa9"),
            ("/%", b"/%"),
            ("/%4", b"/%4"),
            ("/%zz%41", b"/%zzA"),
            ("/%%41", b"/%A"),
        ] {
            assert_eq!(&*percent_decoded(path.as_bytes()), decoded, "{path}");
        }
    }

    #[test]
    fn numbers_are_written_and_read() {
        for number in [0, 9, 10, 13, 99, 100, 1_048_576, u64::MAX] {
            let mut text = Vec::new();
            write_decimal(number, &mut |part| text.extend_from_slice(part));
            assert_eq!(text, number.to_string().into_bytes());
            assert_eq!(read_decimal(&text), Some(number));
        }
        for wrong in ["", "+1", "-1", "1 ", "0x1", "18446744073709551616"] {
            assert_eq!(read_decimal(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
