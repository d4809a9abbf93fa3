//! Percent-encoding (RFC 3986 section 2.1).

/// The byte that `%` and two hexadecimal digits at the start of `text` stand for.
pub fn escape(text: &[u8]) -> Option<u8> {
    let &[b'%', high, low, ..] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// The bytes of `text`, decoded once. An incomplete or invalid escape stays as it is, as in Python's
/// `urllib.parse.unquote`.
pub fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        let escaped = escape(rest);
        rest = if escaped.is_some() { &after[2..] } else { after };
        Some(escaped.unwrap_or(first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_escape_stays_as_it_is() {
        for (text, expected) in [
            ("", ""),
            ("/a%20b%2F%c3%A9", "/a b/é"),
            ("%", "%"),
            ("%4", "%4"),
            ("%4g%+1%41", "%4g%+1A"),
            ("%%341", "%41"),
        ] {
            let found: Vec<u8> = decoded(text.as_bytes()).collect();
            assert_eq!(String::from_utf8_lossy(&found), expected, "{text}");
        }
        assert_eq!((escape(b"%41x"), escape(b"x%41"), escape(b"%4")), (Some(b'A'), None, None));
    }
}
