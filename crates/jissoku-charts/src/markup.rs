//! Text in markup.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

/// Pixels of a character at the size of labels, on average: of Latin letters and digits, and of wider
/// ones. Fonts differ, so that these are rather too large.
const NARROW: f64 = 7.0;
const WIDE: f64 = 13.0;

/// Text as the content of an element, or as the value of an attribute in double quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for sign in self.0.chars() {
            match sign {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                '\t' | '\n' | '\r' => formatter.write_char(' ')?,
                // XML 1.0 (section 2.2) has no such characters.
                '\0'..' ' | '\u{fffe}' | '\u{ffff}' => formatter.write_char('\u{fffd}')?,
                sign => formatter.write_char(sign)?,
            }
        }
        Ok(())
    }
}

/// How wide a label is at most, in pixels.
pub(crate) fn width(text: &str) -> f64 {
    text.chars().map(width_of).sum()
}

const fn width_of(sign: char) -> f64 {
    if (sign as u32) < 0x0530 { NARROW } else { WIDE }
}

/// A label that is not wider than this; its end is an ellipsis if it is too long.
pub(crate) fn fitted(text: &str, room: f64) -> Cow<'_, str> {
    if width(text) <= room {
        return Cow::Borrowed(text);
    }
    let mut left = room - NARROW;
    let mut found = String::new();
    for sign in text.chars() {
        left -= width_of(sign);
        if left < 0.0 {
            break;
        }
        found.push(sign);
    }
    found.push('\u{2026}');
    Cow::Owned(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_ends_what_it_is_in() {
        let text = "<a b=\"c\">'&\u{e9}\0\u{1b}\u{ffff}\n";
        let expected = "&lt;a b=&quot;c&quot;&gt;&#39;&amp;\u{e9}\u{fffd}\u{fffd}\u{fffd} ";
        assert_eq!(Escaped(text).to_string(), expected);
    }

    #[test]
    fn long_texts_end_with_an_ellipsis() {
        assert_eq!(fitted("short", 35.0), "short");
        assert_eq!(fitted("longer", 35.0), "long\u{2026}");
        assert_eq!(fitted("\u{6e2c}\u{5b9a}\u{901f}", 35.0), "\u{6e2c}\u{5b9a}\u{2026}");
        assert_eq!(fitted("any", 0.0), "\u{2026}");
    }
}
