//! Lines of the `OpenMetrics` 1.0 text format.

use std::fmt::{self, Write};

/// Starts a metric family.
pub(super) fn head(text: &mut String, name: &str, kind: &str, unit: Option<&str>, help: &str) {
    put(text, format_args!("# TYPE {name} {kind}\n"));
    if let Some(unit) = unit {
        put(text, format_args!("# UNIT {name} {unit}\n"));
    }
    put(text, format_args!("# HELP {name} {help}\n"));
}

/// Appends a sample.
pub(super) fn line(text: &mut String, name: &str, value: u64) {
    put(text, format_args!("{name} {value}\n"));
}

/// Appends formatted text.
pub(super) fn put(text: &mut String, arguments: fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("memory takes everything");
}

/// The value of a label.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(formatter, "\\{character}")?,
                '\n' => formatter.write_str("\\n")?,
                _ => formatter.write_char(character)?,
            }
        }
        Ok(())
    }
}
